#ifndef KVROUTER_TESTS_PROPERTY_TRUTH_WITNESS_H_
#define KVROUTER_TESTS_PROPERTY_TRUTH_WITNESS_H_

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include "property/truth/engine.h"
#include "property/truth/timeline.h"

namespace kvrouter::truth {

// What a router with perfect manners could know of one engine, from what the sockets carried. It
// never looks at the feed.
//
// - When was a loss noticeable? With the first live message that is not older than the batch in
//   question, or with the first connection after it.
// - Was all that was lost still to be had by replay? A replay is asked for within kReplayGrace of
//   the moment that shows the loss, and brings what the engine keeps.
class Witness {
 public:
  static constexpr MonotonicTime kReplayGrace = std::chrono::seconds(1);

  // Both must outlive it.
  Witness(const Engine* engine, const Timeline* timeline, MonotonicTime recovery_limit)
      : engine_(*engine), timeline_(*timeline), recovery_limit_(recovery_limit) {}

  // True: look again after kReplayGrace, with OnGraceOver.
  bool OnConnected() {
    connected_ = true;
    const Said next = engine_.Next();
    Notice(next.sequence > 0 ? Said{next.life, next.sequence - 1} : next);
    return BeginGrace();
  }
  bool OnLive(Said said, bool intact) {
    last_live_ = said;
    Notice(said);
    // Of a life that is over: a connection will follow.
    if (said.life != life_) return false;
    if (intact && said.sequence == next_) ++next_;
    return said.sequence >= next_ && BeginGrace();
  }
  void OnDisconnected() {
    connected_ = false;
    in_grace_ = false;
  }
  void OnGraceOver() {
    if (!connected_ || timeline_.Now() < grace_over_) return;  // broke meanwhile
    in_grace_ = false;
    NoteHeld();
    const Said next = engine_.Next();
    if (next.life != life_) return;  // a connection will follow
    const auto& history = engine_.History();
    // The last one that is there must come once more: it proves that the engine is the same.
    const uint64_t needed = next_ > 0 ? next_ - 1 : 0;
    if (!history.empty() && history.front().said.sequence > needed) covered_ = false;
    // What was said since then and did not arrive is a loss that nobody could notice yet.
    if (last_live_.life == life_) reach_ = std::max(reach_, last_live_.sequence + 1);
    next_ = std::max(next_, reach_);
  }
  // An old message once more. Behind a newer one it is taken for a restart: whatever was known is
  // asked for anew, and the engine's past passes by once more.
  // Without replay what came between is lost, as the next batch will show.
  void OnLate(Said said, bool can_replay) {
    if (said >= last_live_) return;
    covered_ = false;
    seen_.clear();
    if (!can_replay) return;
    const Said next = engine_.Next();
    Notice(next.sequence > 0 ? Said{next.life, next.sequence - 1} : next);
  }
  // A replay was tampered with.
  void OnSpoiledReplay() { covered_ = false; }
  // No replay can be asked for until then.
  void OnReplaysHeld(MonotonicTime until) {
    held_until_ = until;
    OnSlowAnswer(until);
  }
  // ... and kept coming until then.
  void OnSlowAnswer(MonotonicTime until) {
    if (until > answer_comes_until_) answer_comes_until_ = until;
  }

  // From one router process to the next.
  struct Memory {
    uint64_t life = 0;
    bool covered = false;
  };
  Memory Remember() const { return {life_, covered_ && connected_ && !in_grace_}; }
  void Restore(const Memory& memory, uint64_t next) {
    life_ = memory.life;
    covered_ = memory.covered;
    next_ = next;
  }

  bool Covered() const { return covered_; }

  // When the router could know that the batch was said, and nothing could be hoped for any more
  // from an answer that was still coming. Nothing: not yet.
  std::optional<MonotonicTime> NoticedAt(Said said) const {
    for (const Seen& seen : seen_) {
      if (seen.said < said) continue;
      return std::clamp(answer_comes_until_, seen.at, seen.at + recovery_limit_);
    }
    return std::nullopt;
  }

 private:
  struct Seen {
    MonotonicTime at{};
    Said said;
  };

  void Notice(Said said) {
    if (seen_.empty() || seen_.back().said < said) seen_.push_back({timeline_.Now(), said});
  }
  void NoteHeld() {
    if (timeline_.Now() < held_until_ + kReplayGrace) covered_ = false;
  }
  bool BeginGrace() {
    const bool new_life = life_ != engine_.publisher_life();
    if (new_life) {
      life_ = engine_.publisher_life();
      next_ = 0;
      covered_ = true;
    }
    NoteHeld();
    if (std::exchange(in_grace_, true) && !new_life) return false;
    grace_over_ = timeline_.Now() + kReplayGrace;
    reach_ = engine_.Next().sequence;
    return true;
  }

  const Engine& engine_;
  const Timeline& timeline_;
  const MonotonicTime recovery_limit_;
  std::vector<Seen> seen_;  // ascending in both
  MonotonicTime answer_comes_until_{};
  MonotonicTime held_until_ = -kReplayGrace;
  uint64_t life_ = 0;  // of the publisher
  uint64_t next_ = 0;  // everything before was to be had
  bool covered_ = true;
  Said last_live_;
  bool connected_ = false;
  bool in_grace_ = false;
  MonotonicTime grace_over_{};
  uint64_t reach_ = 0;  // what the replay brings that is asked for as the grace begins
};

}  // namespace kvrouter::truth

#endif  // KVROUTER_TESTS_PROPERTY_TRUTH_WITNESS_H_
