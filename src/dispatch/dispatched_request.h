#ifndef KVROUTER_DISPATCH_DISPATCHED_REQUEST_H_
#define KVROUTER_DISPATCH_DISPATCHED_REQUEST_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "dispatch/answer_passing.h"
#include "dispatch/client_reply.h"
#include "dispatch/dispatch_context.h"
#include "dispatch/dispatcher.h"
#include "dispatch/engine_leg.h"
#include "dispatch/live_calls.h"
#include "dispatch/prepared_request.h"
#include "dispatch/serial_events.h"

namespace kvrouter {

// A client's request on its way through the fleet.
//
//   Start ─> OnIds ─> Route ─> OnDecision ─┬─> serve leg ───────────────────────────> End
//                       ▲                  └─> producer leg ─> (PlaceDecode) ─> serve leg
//                       └──────── serve leg failed, nothing sent to the client yet
//
// Every event runs in turn (serial_events.h) and finds the request in one of these places; what
// comes for a leg, a decision or a timer of before finds another number and is dropped, as is
// everything after End. What the request owes (a booking, a place in the queue, an exchange,
// timers) is given back by End, whatever led there.
//
// Thread safety: Start once; everything else comes through the callbacks it gives away.
class DispatchedRequest final : public LiveCall,
                                public std::enable_shared_from_this<DispatchedRequest> {
 public:
  DispatchedRequest(std::shared_ptr<DispatchContext> context, DispatchRequest request,
                    OpenAiEndpoint endpoint, std::shared_ptr<ClientReply> client);

  // `number`: under which it is live.
  void Start(uint64_t number);
  void Abort() override;

  // For posted_event.h.
  SerialEvents& events() { return events_; }
  bool ended() const { return ended_; }

 private:
  class LegReply;

  // What became of the request at the router.
  enum class Place : uint8_t { kNowhere, kAsked, kBooked };
  // How the router is asked.
  enum class Ask : uint8_t {
    kPlanned,      // the gate and the planner have their say
    kPlain,        // one leg
    kDecode,       // the second leg of a remote prefill
    kDecodePlain,  // the same without its blocks
  };
  struct Ended {
    DispatchOutcome outcome = DispatchOutcome::kSuccess;
    int status = 0;
  };
  // Why the last attempt failed, in case there is no other one.
  struct Failure {
    LegResult result = LegResult::kCut;
    std::string message;
    // The engine's own answer, if it gave one.
    std::optional<AnswerPassing::HeldAnswer> answer;
  };
  struct LegMessage {
    std::shared_ptr<const std::string> body;
    std::string request_id;
    std::chrono::nanoseconds head_timeout{};
  };

  // ---- dispatched_request.cc: the way to a target ----
  void Begin();
  void OnIds(TokenIds ids);
  void Route(Ask ask);
  RouteRequest RouteFor(Ask ask) const;
  void OnDecision(uint32_t turn, RoutingService::Answer answer);
  void OnRefusal(Ask ask, const absl::Status& status);
  void FollowPlan();
  // Whether the consumer may use the producer's blocks of this prompt.
  bool MayPull(WorkerId producer, WorkerId consumer);
  void RefuseClient(const absl::Status& status);
  void OnGone();
  void OnDeadline();
  void OnAbort();
  void OnDrained();
  void ArmKeepAlive();
  void FreeBooking();
  void End(const Ended& ended);
  DispatchEnd EndOf(const Ended& ended) const;

  // ---- dispatched_legs.cc: legs and what comes of them ----
  bool IsOut(uint32_t leg) const { return leg_ && leg_->number == leg; }
  void SendLeg(EngineLeg leg, const LegMessage& message);
  void SendProducer(const Leg& planned);
  void SendServe(const LegTarget& where, std::optional<HeldHandshake> handshake);
  bool IsUsable(const HeldHandshake& handshake, const LegTarget& consumer);
  void OnHead(EngineReplyHead head);
  void OnBody(std::string_view piece);
  void OnLegEnd(EngineEnd end, std::string_view detail);
  void OnHandshake();
  void OnProducerFailed(LegResult result, std::string_view detail);
  void GoOnWithoutProducer(LegKind kind);
  void OnUsageRefused();
  void OnServed(LegResult result);
  void OnServeFailed(LegResult result, std::string detail);
  void GiveUp();
  void NoteProgress();
  void NoteOverlap();
  // To the router, which counts failures, and logs what becomes of migrations.
  void Report(const LegTarget& where, LegOutcome outcome, std::chrono::nanoseconds took);
  void CloseLeg(LegResult result);
  void StopLeg();
  void DropHandshake();
  void Fallback(DispatchFallback why) { context_->observer->OnFallback(why); }
  void Log(DispatchObserver::LogLevel level, std::string_view what, const LegTarget& where,
           std::string_view detail = {});
  std::chrono::nanoseconds TimeLeft() const;

  const std::shared_ptr<DispatchContext> context_;
  const std::shared_ptr<const DispatchConfig> config_;  // when it came
  const OpenAiEndpoint endpoint_;
  const std::string path_;
  const std::string target_;  // with the query
  const MonotonicTime arrived_at_;
  uint64_t number_ = 0;
  SerialEvents events_;

  // All below: by the event at hand.
  DispatchRequest received_;
  std::shared_ptr<ClientReply> client_;
  AnswerPassing answer_;
  std::optional<PreparedRequest> request_;
  bool ended_ = false;
  std::function<void()> cancel_deadline_;
  std::function<void()> cancel_keep_alive_;

  Place place_ = Place::kNowhere;
  std::string id_;           // the router's for the request; empty: not given yet
  bool id_is_ours_ = false;  // generated, since the client's was taken
  uint32_t turn_ = 0;        // of asking the router
  Ask ask_ = Ask::kPlanned;
  TicketId ticket_ = kNoTicket;  // while it waits
  std::optional<RouteDecision> decision_;
  std::optional<Plan> first_plan_;
  std::string explanation_;  // of the plan, for who asked for it; later legs only carry it out
  bool strict_ = false;      // what was planned fails rather than falls back
  std::vector<TargetSelector> excluded_;
  // Failed with blocks of another one, so without them it may do, if there is nobody else.
  std::optional<WorkerId> last_resort_;
  uint32_t retries_ = 0;
  std::optional<Failure> failure_;

  uint32_t leg_number_ = 0;
  std::optional<EngineLeg> leg_;            // that is out
  std::optional<HeldHandshake> handshake_;  // while a target is asked for
  std::optional<LegTarget> held_at_;        // blocks are held there for us, not pulled yet
  bool paused_ = false;
  std::optional<MonotonicTime> first_token_at_;
  uint64_t reported_blocks_ = 0;
};

}  // namespace kvrouter

#endif  // KVROUTER_DISPATCH_DISPATCHED_REQUEST_H_
