#ifndef KVROUTER_DISPATCH_LIVE_CALLS_H_
#define KVROUTER_DISPATCH_LIVE_CALLS_H_

#include <array>
#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>

#include "absl/container/flat_hash_map.h"
#include "base/mutex.h"
#include "dispatch/dispatch_observer.h"

namespace kvrouter {

// Something the dispatcher works on that can be told to end.
class LiveCall {
 public:
  virtual ~LiveCall() = default;
  // The dispatcher stops. Any thread; the call leaves the set by itself.
  virtual void Abort() = 0;
};

// What the dispatcher works on. Thread safety: thread-safe; holds its lock across nothing else.
class LiveCalls {
 public:
  explicit LiveCalls(uint32_t max_calls) : max_calls_(max_calls) {}

  enum class Refusal : uint8_t { kNone, kFull, kStopped };
  // kNone: it is in, and owned until it leaves; its number is in *number.
  Refusal Enter(std::shared_ptr<LiveCall> call, uint64_t* number);
  // The last owner may be the caller itself. `outcome` absent: it was no client's request.
  void Leave(uint64_t number, std::optional<DispatchOutcome> outcome);
  // Of a request that did not get in.
  void CountNeverLive(DispatchOutcome outcome);

  // Nobody gets in any more; waits until all have left, but no longer than `grace`, has the rest
  // end, and waits for that. Not from a call's own event.
  void Stop(std::chrono::nanoseconds grace);

  struct Figures {
    uint64_t live = 0;
    uint64_t started = 0;
    std::array<uint64_t, kDispatchOutcomeCount> ended = {};
  };
  Figures Read() const;

 private:
  // False: some are left after this long.
  bool WaitUntilEmpty(std::chrono::nanoseconds patience) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);

  const uint32_t max_calls_;
  mutable Mutex mu_;
  CondVar empty_;
  bool stopped_ ABSL_GUARDED_BY(mu_) = false;
  uint64_t next_number_ ABSL_GUARDED_BY(mu_) = 1;
  absl::flat_hash_map<uint64_t, std::shared_ptr<LiveCall>> calls_ ABSL_GUARDED_BY(mu_);
  Figures figures_ ABSL_GUARDED_BY(mu_);
};

}  // namespace kvrouter

#endif  // KVROUTER_DISPATCH_LIVE_CALLS_H_
