#include "adapters/http/selection_api.h"

namespace kvrouter {

std::span<const SelectionApi::RouteEntry> SelectionApi::Routes() {
  static constexpr RouteEntry kRoutes[] = {
      {"POST", "/workers", &SelectionApi::PostWorker},
      {"GET", "/workers", &SelectionApi::GetWorkers},
      {"PATCH", "/workers/{}", &SelectionApi::PatchWorker},
      {"DELETE", "/workers/{}", &SelectionApi::DeleteWorker},
      {"POST", "/reservations", &SelectionApi::PostReservation},
      {"POST", "/reservations/{}/prefill_complete", &SelectionApi::PrefillComplete},
      {"POST", "/reservations/{}/output_block", &SelectionApi::OutputBlock},
      {"POST", "/reservations/{}/legs", &SelectionApi::ReportLeg},
      {"DELETE", "/reservations/{}", &SelectionApi::DeleteReservation},
      {"GET", "/loads", &SelectionApi::GetLoads},
      {"POST", "/potential_loads", &SelectionApi::PotentialLoads},
      {"POST", "/overlap_scores", &SelectionApi::OverlapScores},
      {"GET", "/dump", &SelectionApi::Dump},
      {"GET", "/explain/{}", &SelectionApi::Explain},
      {"GET", "/health", &SelectionApi::Health},
      {"GET", "/ready", &SelectionApi::Ready},
  };
  return kRoutes;
}

void SelectionApi::AddRoutes(HttpServer* server) {
  for (const bool book : {false, true}) {
    routes_.AddAsync(
        server, "POST", book ? "/select_and_reserve" : "/select",
        [this, book](const HttpRequest& request, const std::shared_ptr<ApiRoutes::Reply>& reply) {
          Select(request, book, reply);
        });
  }
  for (const RouteEntry& route : Routes()) {
    routes_.Add(
        server, route.method, route.path,
        [this, call = route.call](const HttpRequest& request) { return (this->*call)(request); });
  }
}

}  // namespace kvrouter
