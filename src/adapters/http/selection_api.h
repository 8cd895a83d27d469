#ifndef KVROUTER_ADAPTERS_HTTP_SELECTION_API_H_
#define KVROUTER_ADAPTERS_HTTP_SELECTION_API_H_

#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "adapters/http/api_routes.h"
#include "adapters/http/http_server.h"
#include "adapters/http/ops.h"
#include "adapters/http/selection_bodies.h"
#include "base/clock.h"
#include "kvrouter/router.h"
#include "service/feed_monitor.h"
#include "service/routing_service.h"
#include "service/select_cache.h"
#include "service/selection_workers.h"
#include "service/worker_signs.h"

namespace kvrouter {

// The HTTP selection API, as Dynamo's select_service has it:
//
//   /workers, /workers/{}                          selection_worker_routes.cc
//   /select, /select_and_reserve                   selection_select_routes.cc
//   /reservations, /reservations/{}/…              selection_reservation_routes.cc
//   /loads, /potential_loads, /overlap_scores, /dump, /health, /ready   selection_figure_routes.cc
//   /explain/{} (ours)                             selection_figure_routes.cc
//
// A route reads its body (selection_bodies.h), makes one call of the service, writes its answer
// (selection_answers.h). It keeps nothing.
//
// Thread safety: thread-safe after AddRoutes.
class SelectionApi {
 public:
  struct Parts {
    RoutingService* routing = nullptr;
    SelectionWorkers* workers = nullptr;
    const WorkerSignBoard* signs = nullptr;  // null: GET /workers shows none
    const FeedMonitor* feeds = nullptr;      // null: nothing is known of event feeds
    SelectCache* cache = nullptr;
    const Router* router = nullptr;
    const Clock* clock = nullptr;
    std::function<Readiness()> readiness;
  };

  // `parts` outlive the server's run.
  explicit SelectionApi(Parts parts) : parts_(std::move(parts)) {}

  void AddRoutes(HttpServer* server);

  std::vector<ApiRoutes::RouteAnswers> Answers() const { return routes_.Answers(); }

 private:
  using Answer = absl::StatusOr<HttpResponse>;
  using Call = Answer (SelectionApi::*)(const HttpRequest&);

  struct RouteEntry {
    std::string_view method;
    std::string_view path;
    Call call = nullptr;
  };
  static std::span<const RouteEntry> Routes();

  Answer PostWorker(const HttpRequest& request);
  Answer GetWorkers(const HttpRequest& request);
  Answer PatchWorker(const HttpRequest& request);
  Answer DeleteWorker(const HttpRequest& request);

  // Of /select and, with `book`, /select_and_reserve; answers when the request has not to wait any
  // more.
  class SelectCall;
  void Select(const HttpRequest& request, bool book,
              const std::shared_ptr<ApiRoutes::Reply>& reply);

  Answer PostReservation(const HttpRequest& request);
  Answer ReserveAs(const HttpRequest& request);  // in the form that the body has
  absl::StatusOr<RouteDecision> Replay(const SelectionBody& body);
  absl::StatusOr<RouteDecision> ReserveExplicitly(const SelectionBody& body,
                                                  const HttpRequest& request);
  Answer PrefillComplete(const HttpRequest& request);
  Answer OutputBlock(const HttpRequest& request);
  Answer ReportLeg(const HttpRequest& request);
  Answer DeleteReservation(const HttpRequest& request);

  Answer GetLoads(const HttpRequest& request);
  Answer PotentialLoads(const HttpRequest& request);
  Answer OverlapScores(const HttpRequest& request);
  Answer Dump(const HttpRequest& request);
  Answer Explain(const HttpRequest& request);
  Answer Health(const HttpRequest& request);
  Answer Ready(const HttpRequest& request);

  const Parts parts_;
  ApiRoutes routes_;
};

}  // namespace kvrouter

#endif  // KVROUTER_ADAPTERS_HTTP_SELECTION_API_H_
