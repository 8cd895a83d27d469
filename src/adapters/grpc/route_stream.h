#ifndef KVROUTER_ADAPTERS_GRPC_ROUTE_STREAM_H_
#define KVROUTER_ADAPTERS_GRPC_ROUTE_STREAM_H_

#include <grpcpp/server_context.h>
#include <grpcpp/support/server_callback.h>

#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <string>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "absl/status/statusor.h"
#include "base/mutex.h"
#include "kvrouter/v1/router.pb.h"
#include "service/routing_service.h"

namespace kvrouter {

// One RouteStream call: the calls of Router as messages, each answered once under its correlation
// id.
//
//   read one message ─> call the service ─> queue the answer ─> write one message
//        ▲ only while fewer than kMaxUnsentAnswers are queued or being decided: a caller that does
//          not read is not read from either, and HTTP/2 flow control holds it up
//
// A stream that ends in any way but the clean one (the caller half-closes and gets its last answer
// and OK) gives back the bookings made on it: its caller is gone and will not free them. What was
// freed since, here or elsewhere, or booked anew under the same id by somebody else, is left alone.
//
// At most one read and one write are outstanding. The state decides under the mutex what to do
// next; gRPC is called after it is released, since reactions may run inside such a call. Owns
// itself until OnDone; completions of waiting requests hold it longer.
class RouteStream final : public grpc::ServerBidiReactor<v1::StreamRequest, v1::StreamResponse>,
                          public std::enable_shared_from_this<RouteStream> {
 public:
  static constexpr size_t kMaxUnsentAnswers = 64;

  // A running call. `routing` and `context` outlive it.
  static RouteStream* Start(RoutingService* routing, const grpc::CallbackServerContext* context);

  RouteStream(RoutingService* routing, const grpc::CallbackServerContext* context)
      : routing_(routing), context_(context) {}

  void OnReadDone(bool ok) override;
  void OnWriteDone(bool ok) override;
  void OnCancel() override;
  void OnDone() override;

 private:
  using Bookings = absl::flat_hash_map<std::string, BookingId>;

  void Handle(const v1::StreamRequest& message);
  void Route(uint64_t correlation_id, const v1::RouteRequest& message);
  // Of a request that waited; `decided` is guarded by mu_.
  void Resolve(uint64_t correlation_id, const std::string& request_id, TicketId ticket,
               RoutingService::Answer answer, bool* decided);
  void Decided(uint64_t correlation_id, const std::string& request_id,
               RoutingService::Answer answer);
  void Fail(uint64_t correlation_id, const absl::Status& status,
            const std::string& request_id = "");
  void Answer(v1::StreamResponse response);
  // Holds an empty RouteResponse.
  v1::StreamResponse NewRouteAnswer();
  void Remember(const std::string& request_id, BookingId booking);

  // Whatever can be done now.
  void Proceed();

  RoutingService* const routing_;
  const grpc::CallbackServerContext* const context_;
  std::shared_ptr<RouteStream> self_;  // until OnDone

  // Each belongs to the one read, or the one write, that is outstanding.
  v1::StreamRequest incoming_;
  v1::StreamResponse outgoing_;

  Mutex mu_;
  bool reading_ ABSL_GUARDED_BY(mu_) = false;
  bool writing_ ABSL_GUARDED_BY(mu_) = false;
  bool half_closed_ ABSL_GUARDED_BY(mu_) = false;  // nothing more to read
  bool broken_ ABSL_GUARDED_BY(mu_) = false;
  bool finished_ ABSL_GUARDED_BY(mu_) = false;
  bool done_ ABSL_GUARDED_BY(mu_) = false;
  std::deque<v1::StreamResponse> answers_ ABSL_GUARDED_BY(mu_);
  // An answer to Route that was written: its list of candidates serves the next one.
  std::optional<v1::StreamResponse> spare_ ABSL_GUARDED_BY(mu_);
  size_t deciding_ ABSL_GUARDED_BY(mu_) = 0;
  // Requests that wait, with their ids.
  absl::flat_hash_map<TicketId, std::string> waiting_ ABSL_GUARDED_BY(mu_);
  Bookings bookings_ ABSL_GUARDED_BY(mu_);       // made here
  size_t sweep_at_ ABSL_GUARDED_BY(mu_) = 1024;  // then bookings freed elsewhere are forgotten
};

}  // namespace kvrouter

#endif  // KVROUTER_ADAPTERS_GRPC_ROUTE_STREAM_H_
