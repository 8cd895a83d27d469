#ifndef KVROUTER_FEED_FEED_CURSOR_H_
#define KVROUTER_FEED_FEED_CURSOR_H_

#include <cstdint>
#include <optional>

namespace kvrouter {

// Where we are in one engine's sequence of batches, and what a live sequence number means there.
//
//   sequence < last live                      restart: the engine counts anew
//   sequence = last live, same timestamp      duplicate
//   sequence = last live, other timestamp     restart
//   last live < sequence <= last applied      already replayed
//   sequence = last applied + 1               next
//   sequence > last applied + 1               gap
//
// Two marks, because a replay runs ahead of the live socket: only the live one can tell a restart.
// Sequences on the replay socket never do. With nothing applied the next one is 0, or any if
// history before it is given up.
//
// Thread-compatible.
class FeedCursor {
 public:
  enum class Verdict : uint8_t { kNext, kDuplicate, kAlreadyReplayed, kRestart, kGap };

  // One batch. The timestamp names it together with its sequence; absent if the batch could not be
  // read.
  struct Mark {
    uint64_t sequence = 0;
    std::optional<double> ts_seconds;

    friend bool operator==(const Mark&, const Mark&) = default;
  };

  Verdict Classify(const Mark& live) const;
  bool IsNext(uint64_t sequence) const;

  void OnLive(const Mark& mark) { last_live_ = mark; }
  void OnApplied(const Mark& mark) {
    last_applied_ = mark;
    any_base_ = false;
  }

  // Nothing is applied any more. `any_base`: whatever comes next is taken as the beginning.
  void ForgetApplied(bool any_base) {
    last_applied_.reset();
    any_base_ = any_base;
  }
  // Applied is what `other` has applied.
  void AdoptApplied(const FeedCursor& other) {
    last_applied_ = other.last_applied_;
    any_base_ = other.any_base_;
  }
  // A new life of the engine.
  void Restart(bool any_base) {
    last_live_.reset();
    ForgetApplied(any_base);
  }

  const std::optional<Mark>& LastLive() const { return last_live_; }
  const std::optional<Mark>& LastApplied() const { return last_applied_; }

 private:
  std::optional<Mark> last_live_;
  std::optional<Mark> last_applied_;
  bool any_base_ = false;
};

}  // namespace kvrouter

#endif  // KVROUTER_FEED_FEED_CURSOR_H_
