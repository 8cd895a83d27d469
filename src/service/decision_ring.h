#ifndef KVROUTER_SERVICE_DECISION_RING_H_
#define KVROUTER_SERVICE_DECISION_RING_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string_view>
#include <vector>

#include "base/mutex.h"
#include "kvrouter/decision.h"
#include "service/booked_request.h"

namespace kvrouter {

struct RecordedDecision {
  RouteDecision decision;  // with its lists
  MonotonicTime decided_at{};
};

// The last decisions that booked, by request id, so that "why this worker?" can be answered after
// the fact. The oldest goes when either bound is passed, and is counted. An id that was used again
// means its last decision.
//
// Every decision enters and few are asked for, so entering is what has to be cheap: an entry shares
// the request's record and its candidates instead of copying them, and there is no map; looking one
// up passes over the hashes of all ids.
//
// Thread safety: thread-safe. One mutex, held for moves of pointers or for one stretch of a look-up
// (kEntriesPerStretch); what leaves is freed after.
class DecisionRing {
 public:
  struct Bounds {
    uint32_t max_entries = 0;  // 0: nothing is kept
    uint64_t max_bytes = 0;    // estimate, over all entries
  };
  explicit DecisionRing(Bounds bounds) : bounds_(bounds) {}

  // The lists are those of the request's decision.
  void Record(std::shared_ptr<const BookedRequest> request, CandidateList candidates,
              std::vector<FilteredTarget> filtered_targets);

  // Nothing if it was never recorded or has been evicted.
  std::optional<RecordedDecision> Find(std::string_view request_id) const;

  // The last `count` requests, newest first.
  std::vector<std::shared_ptr<const BookedRequest>> Newest(size_t count) const;

  struct Figures {
    uint64_t entries = 0;
    uint64_t bytes = 0;
    uint64_t evicted_total = 0;
  };
  Figures Read() const;

 private:
  struct Entry {
    std::shared_ptr<const BookedRequest> request;
    CandidateList candidates;
    std::vector<FilteredTarget> filtered_targets;
    uint64_t bytes = 0;
  };
  static constexpr uint64_t kEntriesPerStretch = 16'384;

  static uint64_t BytesOf(const Entry& entry);
  void FetchOldest() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  Entry PopOldest() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  // The last entry of this id in [first, end), as far as those are still there.
  const Entry* FindAmong(std::string_view request_id, size_t id_hash, uint64_t first,
                         uint64_t end) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);

  const Bounds bounds_;
  mutable Mutex mu_;
  // Entry n since the start is at n % max_entries; [oldest_, next_) are there.
  std::vector<Entry> entries_ ABSL_GUARDED_BY(mu_);
  std::vector<size_t> id_hashes_ ABSL_GUARDED_BY(mu_);
  uint64_t oldest_ ABSL_GUARDED_BY(mu_) = 0;
  uint64_t next_ ABSL_GUARDED_BY(mu_) = 0;
  uint64_t bytes_ ABSL_GUARDED_BY(mu_) = 0;
};

}  // namespace kvrouter

#endif  // KVROUTER_SERVICE_DECISION_RING_H_
