#ifndef KVROUTER_DISPATCH_ROUTE_TEXT_CALL_H_
#define KVROUTER_DISPATCH_ROUTE_TEXT_CALL_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "dispatch/dispatch_context.h"
#include "dispatch/dispatcher.h"
#include "dispatch/live_calls.h"
#include "dispatch/prepared_request.h"
#include "dispatch/serial_events.h"

namespace kvrouter {

// A text that is only to be routed: read and tokenised like a dispatched request, then the router's
// answer is the caller's.
//
// Thread safety: Start once, Leave any time; events run in turn.
class RouteTextCall final : public LiveCall, public std::enable_shared_from_this<RouteTextCall> {
 public:
  RouteTextCall(std::shared_ptr<DispatchContext> context, RouteTextRequest asked,
                OpenAiEndpoint endpoint, Dispatcher::RouteTextDone done);

  void Start(uint64_t number);
  // Whoever asked is not there any more.
  void Leave();
  void Abort() override;

  // For posted_event.h.
  SerialEvents& events() { return events_; }
  bool ended() const { return ended_; }

 private:
  void Begin();
  void OnIds(TokenIds ids);
  void OnDecision(RoutingService::Answer answer);
  void End(std::optional<absl::StatusOr<RouteTextAnswer>> answer);

  const std::shared_ptr<DispatchContext> context_;
  const OpenAiEndpoint endpoint_;
  uint64_t number_ = 0;
  SerialEvents events_;

  // All below: by the event at hand.
  RouteTextRequest asked_;
  Dispatcher::RouteTextDone done_;
  bool ended_ = false;
  std::optional<PreparedRequest> request_;
  std::string id_;
  TicketId ticket_ = kNoTicket;
};

}  // namespace kvrouter

#endif  // KVROUTER_DISPATCH_ROUTE_TEXT_CALL_H_
