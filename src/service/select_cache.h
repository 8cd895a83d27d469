#ifndef KVROUTER_SERVICE_SELECT_CACHE_H_
#define KVROUTER_SERVICE_SELECT_CACHE_H_

#include <chrono>
#include <cstdint>
#include <list>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "base/mutex.h"
#include "kvrouter/decision.h"

namespace kvrouter {

struct SelectCacheConfig {
  std::chrono::seconds ttl{120};
  uint64_t max_entries = 4096;
  uint64_t max_bytes = 256ull << 20;
};

// What booking an earlier /select takes: the place it named and the prompt as hashes.
struct CachedSelection {
  std::string selection_id;
  std::string model_name;
  std::string routing_group;
  Target target;
  std::vector<LocalBlockHash> block_hashes;
  std::vector<SequenceHash> sequence_hashes;
  uint64_t isl_tokens = 0;
  uint64_t effective_prefill_tokens = 0;
  ConfigOverride overrides;
  std::optional<uint64_t> expected_output_tokens;
  std::string session_id = {};
  MonotonicTime expires_at{};  // set by Put
};

// Inputs of /select calls that named a selection_id, for a later /reservations that sends only the
// id. Single use: Take removes. The oldest entries leave when a bound is passed, counted; one entry
// over max_bytes alone is not kept.
//
// Thread safety: thread-safe, one mutex, held for list operations only.
class SelectCache {
 public:
  explicit SelectCache(SelectCacheConfig config) : config_(config) {}

  // An entry of the same id is replaced.
  void Put(CachedSelection selection, MonotonicTime now);
  // Back in after a booking that failed; keeps its time of expiry, and gives way to a newer entry.
  void Restore(CachedSelection selection);
  // nullopt if unknown, expired, or of another partition (such an entry stays).
  std::optional<CachedSelection> Take(const std::string& selection_id,
                                      const std::string& model_name,
                                      const std::string& routing_group, MonotonicTime now);
  // Drops what has expired.
  void Expire(MonotonicTime now);

  struct Counters {
    uint64_t entries = 0;
    uint64_t bytes = 0;
    uint64_t evicted = 0;  // by max_entries or max_bytes
    uint64_t expired = 0;
  };
  Counters Read() const;

 private:
  using Order = std::list<CachedSelection>;  // oldest first

  void InsertLocked(CachedSelection selection) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  void EraseLocked(Order::iterator entry) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  void ExpireLocked(MonotonicTime now) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);

  const SelectCacheConfig config_;
  mutable Mutex mu_;
  Order order_ ABSL_GUARDED_BY(mu_);
  std::unordered_map<std::string, Order::iterator> by_id_ ABSL_GUARDED_BY(mu_);
  uint64_t bytes_ ABSL_GUARDED_BY(mu_) = 0;
  uint64_t evicted_ ABSL_GUARDED_BY(mu_) = 0;
  uint64_t expired_ ABSL_GUARDED_BY(mu_) = 0;
};

}  // namespace kvrouter

#endif  // KVROUTER_SERVICE_SELECT_CACHE_H_
