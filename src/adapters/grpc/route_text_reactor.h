#ifndef KVROUTER_ADAPTERS_GRPC_ROUTE_TEXT_REACTOR_H_
#define KVROUTER_ADAPTERS_GRPC_ROUTE_TEXT_REACTOR_H_

#include <grpcpp/server_context.h>
#include <grpcpp/support/server_callback.h>

#include <functional>
#include <memory>

#include "base/mutex.h"
#include "dispatch/dispatcher.h"
#include "kvrouter/v1/router.pb.h"
#include "service/routing_service.h"

namespace kvrouter {

// A RouteText call: answered on whatever thread its text has been tokenised and decided.
//
// Held by gRPC until OnDone and by the dispatcher until it has answered or was called off. A call
// that is cancelled calls its request off; a booking whose answer did not reach the caller goes
// back.
//
// Thread safety: thread-safe.
class RouteTextReactor final : public grpc::ServerUnaryReactor {
 public:
  // `route_text` null: finished with UNIMPLEMENTED. `routing` outlives the call.
  static grpc::ServerUnaryReactor* Start(const RouteTextFunction& route_text,
                                         RoutingService* routing,
                                         grpc::CallbackServerContext* context,
                                         const v1::RouteTextRequest& request,
                                         v1::RouteTextResponse* response);

  void OnCancel() override;
  void OnDone() override;

 private:
  RouteTextReactor(RoutingService* routing, grpc::CallbackServerContext* context,
                   v1::RouteTextResponse* response)
      : routing_(routing), context_(context), response_(response) {}

  void Answer(absl::StatusOr<RouteTextAnswer> answer);
  // False: it was finished before.
  bool TakeFinish();

  RoutingService* const routing_;
  grpc::CallbackServerContext* const context_;
  v1::RouteTextResponse* const response_;
  Mutex mu_;
  bool cancelled_ ABSL_GUARDED_BY(mu_) = false;
  bool finished_ ABSL_GUARDED_BY(mu_) = false;
  std::function<void()> call_off_ ABSL_GUARDED_BY(mu_);
  // Written before Finish, read in OnDone.
  std::string request_id_;
  BookingId booking_ = kNoBooking;
  std::shared_ptr<RouteTextReactor> self_;  // until OnDone
};

}  // namespace kvrouter

#endif  // KVROUTER_ADAPTERS_GRPC_ROUTE_TEXT_REACTOR_H_
