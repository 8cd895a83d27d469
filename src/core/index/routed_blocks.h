#ifndef KVROUTER_CORE_INDEX_ROUTED_BLOCKS_H_
#define KVROUTER_CORE_INDEX_ROUTED_BLOCKS_H_

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <map>
#include <span>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/container/flat_hash_map.h"
#include "base/mutex.h"
#include "core/index/block_index.h"
#include "core/index/probe_table.h"
#include "core/index/slab.h"
#include "kvrouter/router.h"
#include "kvrouter/types.h"

namespace kvrouter {

struct RoutedBlocksConfig {
  std::chrono::nanoseconds ttl{};  // >= 0
  uint64_t max_blocks = 1;         // > 0
};

// Which blocks targets hold if every prompt that was sent to one stays there for a while: an index
// fed by bookings instead of events.
//
// Each booking stores the prompt's blocks for its target, named by their sequence hashes, until
// now + ttl; a later booking of the same blocks there moves their end. Ends are rounded up to whole
// steps of 100 ms, and all blocks of a step leave together, each target's in ascending position:
//
//   step        1201         1203         1204
//   blocks      W1: c d      W2: a b      W1: a b        "a b c d" went to W1, later "a b" again
//
// A booking touches a block only with all before it, so ends never rise along a prompt, and what is
// held is always held from its start. Beyond max_blocks those of the earliest step leave, the
// deepest first. Names may come from callers: one that contradicts what the target is known to hold
// is refused, counted, and changes nothing.
//
// Parity: Dynamo v1.4.1 lib/kv-router/src/indexer/pruning.rs.
//
// Thread safety: thread-safe. Lock order: ours, then the index's. Nothing is held for longer than
// the blocks of one booking, or some thousand, take.
class RoutedBlocks {
 public:
  static constexpr std::chrono::milliseconds kStep{100};

  // `index` is fed by nobody else, and outlives this object.
  RoutedBlocks(const RoutedBlocksConfig& config, BlockIndex* index);
  RoutedBlocks(const RoutedBlocks&) = delete;
  RoutedBlocks& operator=(const RoutedBlocks&) = delete;

  // The prompt's blocks were sent to `target`. REQUIRES: equal lengths.
  void Record(Target target, std::span<const LocalBlockHash> local_hashes,
              std::span<const SequenceHash> sequence_hashes, MonotonicTime now);

  // Whether some block's time is over. Takes no lock.
  bool IsDue(MonotonicTime now) const {
    return next_due_ns_.load(std::memory_order_relaxed) <= now.count();
  }
  // Forgets blocks whose time is over: a few thousand of them. False: none is left.
  bool ExpireSome(MonotonicTime now);
  void Expire(MonotonicTime now) {
    while (ExpireSome(now)) {
    }
  }

  // With what the index has of it. REQUIRES: no Record of the target during the call.
  void RemoveTarget(Target target);

  // `bytes` are without the index's.
  RoutedBlocksFigures Read() const;

 private:
  using Step = int64_t;  // number of 100 ms since the fixed point of MonotonicTime
  static constexpr size_t kExpiredAtOnce = 4096;
  static constexpr int64_t kNeverDue = std::numeric_limits<int64_t>::max();

  // A block that one target is taken to hold. In two rings: those of its step and its target's.
  struct Entry {
    uint64_t name = 0;
    Step step = 0;
    uint32_t target = 0;  // number in targets_
    uint32_t position = 0;
    uint32_t step_next = kNoId, step_prev = kNoId;
    uint32_t target_next = kNoId, target_prev = kNoId;
  };
  struct TargetEntries {
    Target target;
    uint32_t first = kNoId;
  };

  uint32_t NumberOf(Target target) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  uint32_t Find(uint32_t target, uint64_t name) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  void Insert(uint32_t target, uint64_t name, size_t position, Step step)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  void LinkStep(uint32_t id, Step step) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  void UnlinkStep(uint32_t id) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  void Erase(uint32_t id) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  // Out of the index and forgotten; each target's in ascending position.
  void Drop(std::vector<uint32_t>* ids) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  void TrimToBound() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  void NoteNextDue() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);

  const RoutedBlocksConfig config_;
  BlockIndex* const index_;
  std::atomic<int64_t> next_due_ns_{kNeverDue};

  mutable Mutex mu_;
  Slab<Entry, 1024> entries_ ABSL_GUARDED_BY(mu_);
  HashToId by_name_ ABSL_GUARDED_BY(mu_);
  std::map<Step, uint32_t> steps_ ABSL_GUARDED_BY(mu_);  // to the first of its entries
  std::vector<TargetEntries> targets_ ABSL_GUARDED_BY(mu_);
  std::vector<uint32_t> free_targets_ ABSL_GUARDED_BY(mu_);
  absl::flat_hash_map<Target, uint32_t> target_numbers_ ABSL_GUARDED_BY(mu_);
  RoutedBlocksFigures figures_ ABSL_GUARDED_BY(mu_);
  std::vector<uint32_t> victims_ ABSL_GUARDED_BY(mu_);      // scratch
  std::vector<size_t> new_positions_ ABSL_GUARDED_BY(mu_);  // scratch
};

}  // namespace kvrouter

#endif  // KVROUTER_CORE_INDEX_ROUTED_BLOCKS_H_
