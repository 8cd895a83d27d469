#ifndef KVROUTER_DISPATCH_DISPATCH_OBSERVER_H_
#define KVROUTER_DISPATCH_DISPATCH_OBSERVER_H_

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "dispatch/engine_link.h"
#include "kvrouter/decision.h"
#include "kvrouter/plan.h"
#include "kvrouter/types.h"

namespace kvrouter {

// What the dispatcher tells of its work, for metrics and logs.

// How a request of a client ended.
enum class DispatchOutcome : uint8_t {
  kSuccess,
  kRejected,       // by the router: malformed, unknown model, over a limit, no worker
  kEngineRefused,  // the engine answered 4xx, which was passed on
  kFailed,         // of what was tried nothing worked
  kDeadline,       // over the total time
  kClientGone,     // the client left first
  kShuttingDown,
};
inline constexpr int kDispatchOutcomeCount = 7;
// E.g. "client_gone".
std::string_view DispatchOutcomeName(DispatchOutcome outcome);

// How one leg ended.
enum class LegResult : uint8_t {
  kSucceeded,
  kRefused,       // 4xx
  kServerError,   // 5xx, or an error in its stream
  kUnreachable,   // nothing was sent, or not executed
  kTimedOut,      // no head in time, silence, or over the leg's time
  kCut,           // the answer is not whole
  kBadHandshake,  // answered, but not with what the next leg needs
  kNotSent,       // for a bound of ours
  kCancelled,     // the client left, or the total time is over
};
inline constexpr int kLegResultCount = 9;
// E.g. "server_error".
std::string_view LegResultName(LegResult result);

// Why a request was not served as planned or wished. Each is counted; none alone fails a request.
enum class DispatchFallback : uint8_t {
  kNotTokenized,      // routed by load alone
  kPrefillFailed,     // served by the decode worker alone
  kSourceFailed,      // the target computes what it would have pulled
  kHandshakeMissing,  // the producer returned none
  kHandshakeInvalid,  // incomplete, or not of the shape that engines take
  kHandshakeLocal,    // names this host as the producer's, which it is not
  kLeaseOver,         // too late to pull
  kProducerReplaced,  // the producer's process is another one than that which answered
  kPromptsMayDiffer,  // chat: the two workers are not known to render alike
  kDecodeRefused,     // no worker for the decode leg at once: routed again, whole
  kConsumerFailed,    // retried without parameters
  kRetriedElsewhere,  // a leg without parameters failed before the first byte
  kUsageRefused,      // asked for the usage on our account it answered 400 or 422: sent as it came
};
inline constexpr int kDispatchFallbackCount = 13;
// E.g. "handshake_missing".
std::string_view DispatchFallbackName(DispatchFallback fallback);

// Where a text's token ids came from.
enum class TokenizeOutcome : uint8_t {
  kCached,
  kShared,  // from another request's call that was on its way
  kEngine,
  kTimedOut,
  kFailed,   // transport or 5xx
  kRefused,  // 4xx: the engine does not offer it, or does not take this text
  kBadAnswer,
  kBreakerOpen,
  kOverLimit,  // too many on their way
  kNoWorker,
  kDisabled,
};
inline constexpr int kTokenizeOutcomeCount = 11;
// E.g. "breaker_open".
std::string_view TokenizeOutcomeName(TokenizeOutcome outcome);

// An answer of an engine is held so that its failure can be made good before the client gets any of
// it. What outgrew what is held of it:
enum class OutgrownHold : uint8_t {
  kReply,       // an answer that does not stream, max_held_reply_bytes: not retried any more
  kStreamHead,  // a stream's events before its first output, 64 KiB: the same
  kFirstEvent,  // the event with it, 1 MiB: the same
  kError,       // an engine's error, max_held_reply_bytes: its end is lost
  kProducer,    // a producer's answer, the same: it is of no use
};
inline constexpr int kOutgrownHoldCount = 5;
// E.g. "stream_head".
std::string_view OutgrownHoldName(OutgrownHold hold);

struct DispatchEnd {
  std::string_view path;   // e.g. /v1/completions
  std::string_view model;  // as the client names it; empty: unknown
  DispatchOutcome outcome = DispatchOutcome::kSuccess;
  int status = 0;  // that the client got, or would have got; 0: it left before
  bool streaming = false;
  std::optional<Plan> plan = {};  // of the first decision; absent: there was none
  std::chrono::nanoseconds since_arrival{};
  std::optional<std::chrono::nanoseconds> first_token = {};  // since arrival; streams only
  uint64_t prompt_tokens = 0;  // as the engine counts them, else as the router knows them
  uint64_t output_tokens = 0;
  uint32_t retries = 0;
};

// What a decision expected of an engine's cache, and what the engine says it found there.
struct DeliveredOverlap {
  Target target;
  Plan plan = Plan::kLocal;
  uint64_t prompt_tokens = 0;
  uint64_t predicted_tokens = 0;
  uint64_t delivered_tokens = 0;  // usage.prompt_tokens_details.cached_tokens
  std::string_view model = {};    // of the partition
};

// Latencies and lengths by worker come to RequestObserver, like those of any other caller; this
// tells what only the dispatcher knows.
//
// Thread safety: called concurrently, under no lock of the dispatcher. Must not block.
class DispatchObserver {
 public:
  virtual ~DispatchObserver() = default;
  // To the client, as far as the dispatcher sees it.
  virtual void OnFirstToken(std::string_view path, std::chrono::nanoseconds since_arrival) = 0;
  virtual void OnLeg(LegKind kind, const Target& target, LegResult result,
                     std::chrono::nanoseconds took) = 0;
  virtual void OnFallback(DispatchFallback fallback) = 0;
  virtual void OnOutgrown(OutgrownHold hold) = 0;
  virtual void OnTokenize(TokenizeOutcome outcome, std::chrono::nanoseconds took) = 0;
  virtual void OnOverlap(const DeliveredOverlap& overlap) = 0;
  // A producer holds blocks that nobody will pull, until its lease is over.
  virtual void OnLeaseLeft(const Target& producer) = 0;
  // Once per request, last.
  virtual void OnEnd(const DispatchEnd& end) = 0;
  // One line for the log, without a line break. The fork's markers of migrations come with what the
  // router is reported (RequestObserver), but for a producer that failed in a way that speaks
  // against no worker: that line comes here.
  enum class LogLevel : uint8_t { kDebug, kInfo, kWarning };
  virtual void OnLog(LogLevel level, const std::string& line) = 0;
};

}  // namespace kvrouter

#endif  // KVROUTER_DISPATCH_DISPATCH_OBSERVER_H_
