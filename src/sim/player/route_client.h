#ifndef KVROUTER_SIM_PLAYER_ROUTE_CLIENT_H_
#define KVROUTER_SIM_PLAYER_ROUTE_CLIENT_H_

#include <boost/asio/io_context.hpp>
#include <chrono>
#include <functional>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "kvrouter/v1/router.pb.h"

namespace kvrouter::sim {

// Calls on a daemon's Router service that do not wait: answers arrive on the io_context.
//
// Thread safety: used on the io_context's only thread, where the callbacks run too. Calls that are
// still open when the client goes are cancelled.
class RouteClient {
 public:
  using RouteDone = std::function<void(absl::StatusOr<v1::RouteResponse>)>;
  using Done = std::function<void(absl::Status)>;

  RouteClient(boost::asio::io_context* io, const std::string& host_port,
              std::chrono::milliseconds timeout);
  ~RouteClient();

  void Route(v1::RouteRequest request, RouteDone done);
  void PrefillComplete(const std::string& request_id, Done done);
  void Free(const std::string& request_id, Done done);

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace kvrouter::sim

#endif  // KVROUTER_SIM_PLAYER_ROUTE_CLIENT_H_
