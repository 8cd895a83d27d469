#ifndef KVROUTER_SERVICE_DECISION_RING_H_
#define KVROUTER_SERVICE_DECISION_RING_H_

#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <string>
#include <string_view>

#include "absl/container/flat_hash_map.h"
#include "absl/hash/hash.h"
#include "base/mutex.h"
#include "kvrouter/decision.h"

namespace kvrouter {

struct RecordedDecision {
  RouteDecision decision;
  MonotonicTime decided_at{};
};

// The last decisions that booked, by request id, so that "why this worker?" can be answered after
// the fact. The oldest goes when either bound is passed, and is counted. An id that was used again
// means its last decision.
//
// Thread safety: thread-safe. One mutex, held for moves of pointers only: decisions are copied
// before and freed after.
class DecisionRing {
 public:
  struct Bounds {
    uint32_t max_entries = 0;  // 0: nothing is kept
    uint64_t max_bytes = 0;    // estimate, over all entries
  };
  explicit DecisionRing(Bounds bounds) : bounds_(bounds) {}

  void Record(std::string_view request_id, const RouteDecision& decision, MonotonicTime now);

  // Null if it was never recorded or has been evicted.
  std::shared_ptr<const RecordedDecision> Find(std::string_view request_id) const;

  struct Figures {
    uint64_t entries = 0;
    uint64_t bytes = 0;
    uint64_t evicted_total = 0;
  };
  Figures Read() const;

 private:
  struct Entry {
    std::string request_id;
    RecordedDecision recorded;
    uint64_t bytes = 0;
  };
  using EntryPtr = std::shared_ptr<const Entry>;
  // Abseil's own string hash takes only absl::string_view, another type than std::string_view here.
  struct IdHash {
    size_t operator()(std::string_view id) const { return absl::Hash<std::string_view>{}(id); }
  };

  // The oldest entry, taken out of both containers.
  EntryPtr PopOldest() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);

  const Bounds bounds_;
  mutable Mutex mu_;
  std::deque<EntryPtr> entries_ ABSL_GUARDED_BY(mu_);  // oldest first
  // Keys are the ids inside the entries they map to.
  absl::flat_hash_map<std::string_view, EntryPtr, IdHash> by_id_ ABSL_GUARDED_BY(mu_);
  uint64_t bytes_ ABSL_GUARDED_BY(mu_) = 0;
  uint64_t evicted_total_ ABSL_GUARDED_BY(mu_) = 0;
};

}  // namespace kvrouter

#endif  // KVROUTER_SERVICE_DECISION_RING_H_
