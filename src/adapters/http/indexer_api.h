#ifndef KVROUTER_ADAPTERS_HTTP_INDEXER_API_H_
#define KVROUTER_ADAPTERS_HTTP_INDEXER_API_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <set>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "adapters/http/api_routes.h"
#include "adapters/http/http_server.h"
#include "adapters/http/indexer_bodies.h"
#include "base/mutex.h"
#include "kvrouter/router.h"
#include "service/feed_monitor.h"
#include "service/routing_service.h"
#include "service/worker_registry.h"

namespace kvrouter {

// The HTTP API of Dynamo's standalone KV indexer, on a port of its own:
//
//   POST /register, /unregister, GET /workers     instances: ranks with an event socket
//   POST /query, /query_by_hash                   which instance holds how much of a prompt
//   GET /dump                                     what a Dynamo indexer or selection service starts
//                                                 from when we are its peer
//   POST /register_peer, /deregister_peer, GET /peers   a list, and nothing but a list, as upstream
//   GET /health, /metrics, POST /reopen_logs
//
// Instances are workers of the registry (service/indexer_instances.h); queries book nothing.
//
// Thread safety: thread-safe after AddRoutes. Bound: kMaxPeers.
class IndexerApi {
 public:
  struct Parts {
    WorkerRegistry* workers = nullptr;
    RoutingService* routing = nullptr;
    const Router* router = nullptr;
    const FeedMonitor* feeds = nullptr;
    std::function<std::string()> metrics_text;
  };

  static constexpr size_t kMaxPeers = 1024;
  static constexpr size_t kMaxPeerBytes = 1024;

  // `parts` outlive the server's run.
  explicit IndexerApi(Parts parts) : parts_(std::move(parts)) {}

  void AddRoutes(HttpServer* server);

  std::vector<ApiRoutes::RouteAnswers> Answers() const { return routes_.Answers(); }

 private:
  using Answer = absl::StatusOr<HttpResponse>;
  using Call = Answer (IndexerApi::*)(const HttpRequest&);

  Answer Register(const HttpRequest& request);
  Answer Unregister(const HttpRequest& request);
  Answer Workers(const HttpRequest& request);
  Answer Query(const HttpRequest& request);
  Answer QueryByHash(const HttpRequest& request);
  Answer AnswerQuery(const IndexerQuery& query, bool by_hash);
  Answer Dump(const HttpRequest& request);
  Answer RegisterPeer(const HttpRequest& request);
  Answer DeregisterPeer(const HttpRequest& request);
  Answer Peers(const HttpRequest& request);
  Answer Health(const HttpRequest& request);
  Answer Metrics(const HttpRequest& request);
  Answer ReopenLogs(const HttpRequest& request);

  const Parts parts_;
  ApiRoutes routes_;
  Mutex mu_;
  std::set<std::string> peers_ ABSL_GUARDED_BY(mu_);
};

std::string InstancesJson(std::span<const Instance> instances);
// Scores in tokens.
std::string ScoresJson(uint32_t block_size_tokens, std::span<const TargetOverlap> overlaps);

}  // namespace kvrouter

#endif  // KVROUTER_ADAPTERS_HTTP_INDEXER_API_H_
