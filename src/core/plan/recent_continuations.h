#ifndef KVROUTER_CORE_PLAN_RECENT_CONTINUATIONS_H_
#define KVROUTER_CORE_PLAN_RECENT_CONTINUATIONS_H_

#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <optional>
#include <vector>

#include "core/affinity/session_key.h"
#include "kvrouter/types.h"

namespace kvrouter {

// When each session was last seen, for the gate's rule that a conversation which was here within
// the hour continues where its blocks are. Four million sessions in one array:
//
//   buckets of 8 entries of 8 bytes:   | 24 bits of the key | 40 bits: milliseconds |
//
// A session lives in one of two buckets, both given by its key, in the one with more room; with the
// array 5/8 full there is room in one of the two as good as always. About 13 bytes per session, no
// pointers, no allocation after the start; memory that was never written costs nothing.
//
// Oldest out first: sessions are counted by the second they were last seen in, and when there are
// max_sessions and another comes, the oldest such second is forgotten as a whole: entries before
// the horizon are dead, wherever they lie. The same horizon forgets what is older than the window.
// Only when all of them came within this second does the oldest of the new one's two buckets make
// room.
//
// A key is taken for another with a probability of one in a million per look-up. The rule is a
// guess about caches, so that is harmless.
//
// One per Router; keys of different partitions are mixed with the partition's number by the caller.
// Thread safety: thread-compatible.
class RecentContinuations {
 public:
  struct Options {
    uint64_t max_sessions = 4'000'000;  // > 0
    std::chrono::seconds window{3600};  // > 0
  };

  struct Stats {
    uint64_t sessions = 0;
    uint64_t evicted_total = 0;  // forgotten before their time, for room
    uint64_t capacity_bytes = 0;
  };

  explicit RecentContinuations(const Options& options);

  // The session is here now. How long ago it was here before, if that is less than the window.
  std::optional<std::chrono::nanoseconds> Touch(SessionKey key, MonotonicTime now);

  // What Touch would say; remembers nothing.
  std::optional<std::chrono::nanoseconds> Peek(SessionKey key, MonotonicTime now) const;

  Stats GetStats() const;

 private:
  static constexpr size_t kEntriesPerBucket = 8;
  struct Bucket {
    std::array<uint64_t, kEntriesPerBucket> entries;  // 0: never used
  };
  struct Free {
    void operator()(Bucket* buckets) const { std::free(buckets); }
  };
  struct Place {
    uint64_t first = 0;  // buckets
    uint64_t second = 0;
    uint64_t tag = 0;
  };

  Place PlaceOf(SessionKey key) const;
  // The entry of the session if it is alive, else null.
  uint64_t* FindAlive(const Place& place) const;
  struct Room {
    uint64_t* dead = nullptr;    // an entry to write to, in the emptier bucket
    uint64_t* oldest = nullptr;  // of the living in both
  };
  Room RoomAt(const Place& place) const;
  bool IsAlive(uint64_t entry) const;
  uint64_t MillisecondsAt(MonotonicTime now) const;
  // Forgets the seconds that the window has left behind.
  void AdvanceHorizon(uint64_t now_ms);
  // Forgets the oldest second that has sessions, if it is over.
  bool ForgetOldestSecond(uint64_t now_ms);
  void Displace(uint64_t* entry);
  uint32_t& CountOf(uint64_t ms) { return counts_[ms / 1000 % counts_.size()]; }

  const Options options_;
  const uint64_t bucket_count_;
  std::unique_ptr<Bucket[], Free> buckets_;
  std::vector<uint32_t> counts_;  // sessions last seen in each second of the window, a ring
  uint64_t horizon_ms_ = 0;       // a whole second; entries before it are dead
  uint64_t sessions_ = 0;
  uint64_t evicted_total_ = 0;
  bool started_ = false;
  MonotonicTime epoch_{};  // the first call
};

}  // namespace kvrouter

#endif  // KVROUTER_CORE_PLAN_RECENT_CONTINUATIONS_H_
