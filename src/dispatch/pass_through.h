#ifndef KVROUTER_DISPATCH_PASS_THROUGH_H_
#define KVROUTER_DISPATCH_PASS_THROUGH_H_

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "dispatch/answer_passing.h"
#include "dispatch/dispatch_context.h"
#include "dispatch/dispatcher.h"
#include "dispatch/engine_leg.h"
#include "dispatch/live_calls.h"
#include "dispatch/request_headers.h"
#include "dispatch/serial_events.h"

namespace kvrouter {

// A request that one worker answers, whichever: embeddings, tokenisation, lists of models. It goes
// to the workers of its model in turn (prefill workers only if there are no others), unbooked, and
// to the next one if a worker cannot be reached or fails.
//
// Thread safety: Start once; events run in turn.
class PassThrough final : public LiveCall, public std::enable_shared_from_this<PassThrough> {
 public:
  PassThrough(std::shared_ptr<DispatchContext> context, DispatchRequest request,
              std::shared_ptr<ClientReply> client);

  // `turn`: counts up from request to request, so that workers take turns.
  void Start(uint64_t number, uint64_t turn);
  void Abort() override;

  // For posted_event.h.
  SerialEvents& events() { return events_; }
  bool ended() const { return ended_; }

 private:
  class Reply;

  void Begin(uint64_t turn);
  void Send();
  void OnEnd(EngineEnd end, std::string_view detail);
  void Fail(int status, std::string_view message, std::string_view code, DispatchOutcome outcome);
  void End(DispatchOutcome outcome, int status);
  void OnDrained();

  const std::shared_ptr<DispatchContext> context_;
  const std::shared_ptr<const DispatchConfig> config_;  // when it came
  const MonotonicTime arrived_at_;
  uint64_t number_ = 0;
  SerialEvents events_;

  // All below: by the event at hand.
  DispatchRequest request_;
  std::shared_ptr<const std::string> body_;
  std::string model_;
  std::shared_ptr<ClientReply> client_;
  AnswerPassing answer_;
  bool ended_ = false;
  std::vector<KnownEngine> engines_;  // to be tried, in order
  size_t next_engine_ = 0;
  uint32_t attempt_ = 0;
  std::shared_ptr<EngineExchange> exchange_;
  std::function<void()> cancel_deadline_;
  bool paused_ = false;
};

// The answer to /v1/models where several models are served, of which each worker knows its own.
std::string ModelList(const std::vector<std::shared_ptr<const KnownPartition>>& partitions);

}  // namespace kvrouter

#endif  // KVROUTER_DISPATCH_PASS_THROUGH_H_
