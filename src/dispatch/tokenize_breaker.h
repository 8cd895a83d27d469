#ifndef KVROUTER_DISPATCH_TOKENIZE_BREAKER_H_
#define KVROUTER_DISPATCH_TOKENIZE_BREAKER_H_

#include <chrono>
#include <cstdint>
#include <limits>

#include "base/clock.h"

namespace kvrouter {

// Whether the engines of one model are asked to tokenise a text, by what became of those before.
//
// An error speaks against the engines. A time-out speaks against them as far as texts of that
// length are concerned, and longer ones: a text of megabytes may just take its time, and no such
// text shall cost the short ones their tokens. So the breaker opens, after so many failures in a
// row, for texts from the shortest on that failed: for all, if an error or a short text is among
// them. While it is open for some, one more time-out of a shorter one opens it for that length,
// too: engines that hang are soon asked nothing.
//
// In a row: no text at least as long as the shortest that failed succeeded in between.
//
// Pure; thread-compatible.
class TokenizeBreaker {
 public:
  // A time-out of one that is no longer is the engine's fault: this takes milliseconds.
  static constexpr uint64_t kShortTextBytes = 16 << 10;

  struct Limits {
    uint32_t failures = 1;               // in a row, > 0
    std::chrono::nanoseconds open = {};  // for how long, > 0
  };

  bool IsOpen(MonotonicTime now, uint64_t text_bytes) const {
    return now < open_until_ && text_bytes >= open_from_bytes_;
  }
  // For whatever length.
  bool IsOpenForSome(MonotonicTime now) const { return now < open_until_; }

  void OnSuccess(uint64_t text_bytes);
  void OnTimeOut(uint64_t text_bytes, const Limits& limits, MonotonicTime now);
  void OnError(const Limits& limits, MonotonicTime now) { Count(0, limits, now); }
  // One of these is enough.
  void OnNotOffered(const Limits& limits, MonotonicTime now);

 private:
  static constexpr uint64_t kNone = std::numeric_limits<uint64_t>::max();

  void Count(uint64_t from_bytes, const Limits& limits, MonotonicTime now);

  uint32_t failures_ = 0;               // in a row
  uint64_t failed_from_bytes_ = kNone;  // the shortest of them
  MonotonicTime open_until_{};
  uint64_t open_from_bytes_ = kNone;
};

}  // namespace kvrouter

#endif  // KVROUTER_DISPATCH_TOKENIZE_BREAKER_H_
