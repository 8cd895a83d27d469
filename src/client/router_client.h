#ifndef KVROUTER_CLIENT_ROUTER_CLIENT_H_
#define KVROUTER_CLIENT_ROUTER_CLIENT_H_

#include <chrono>
#include <functional>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "kvrouter/v1/router.pb.h"
#include "kvrouter/v1/workers.pb.h"

namespace kvrouter::client {

// Blocking calls on a daemon's gRPC door. Each but Dump takes at most `timeout`. Errors are one
// line that says which server, the code, the reason from the error's detail and, for a duplicate,
// where the live booking is.
class RouterClient {
 public:
  RouterClient(std::string host_port, std::chrono::milliseconds timeout);
  ~RouterClient();

  absl::StatusOr<v1::ListResponse> ListWorkers();
  absl::StatusOr<v1::RouteResponse> Route(const v1::RouteRequest& request);
  absl::StatusOr<v1::Worker> Register(const v1::WorkerSpec& worker);
  absl::StatusOr<v1::Worker> Drain(uint64_t worker_id);
  absl::Status Remove(uint64_t worker_id);
  absl::StatusOr<v1::OverlapScoresResponse> OverlapScores(const v1::RouteRequest& request);
  absl::StatusOr<v1::ExplainResponse> Explain(const std::string& request_id);
  absl::StatusOr<v1::FreeResponse> Free(const std::string& request_id);
  absl::StatusOr<v1::LoadsResponse> Loads();
  // `timeout` bounds the wait for each event. `on_event` ends the dump by returning an error.
  absl::StatusOr<v1::DumpCounts> Dump(
      const v1::DumpRequest& request,
      const std::function<absl::Status(const v1::DumpedEvent&)>& on_event);

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace kvrouter::client

#endif  // KVROUTER_CLIENT_ROUTER_CLIENT_H_
