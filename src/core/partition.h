#ifndef KVROUTER_CORE_PARTITION_H_
#define KVROUTER_CORE_PARTITION_H_

#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "base/mutex.h"
#include "core/affinity/partition_sessions.h"
#include "core/index/block_index.h"
#include "core/index/routed_blocks.h"
#include "core/schedule/scheduler.h"
#include "kvrouter/block_hash.h"
#include "kvrouter/events.h"
#include "kvrouter/router.h"
#include "kvrouter/worker.h"

namespace kvrouter {

// Everything about one (model_name, routing_group): the index of the blocks its workers hold, the
// scheduler that knows their load, and which lives of which workers may speak.
//
// Each worker has a *gate*: its spec and a mutex that is held while one of its events enters the
// index. To remove a worker (or a rank, or a life) the gate is closed first and the blocks are
// dropped after, so that an event that was under way has finished and a later one is refused:
// nothing re-creates what was dropped.
//
// Where overlaps come from is settled at construction (OverlapSource): events, the partition's own
// bookings instead (they pass the same gates), or nothing; events may have a second index of
// bookings beside theirs, the *predictions*.
//
// Thread safety: thread-safe, except that changes of workers (PutWorker, RemoveWorker) must be
// serialised by the caller. Lock order: gate, then that of the routed blocks, then the index's own
// lock. No other two locks are held at once.
class Partition {
 public:
  struct Identity {
    std::string model_name;
    std::string routing_group;
    uint32_t number = 0;            // in booking ids
    uint32_t first_generation = 1;  // of booking ids
    uint64_t random_seed = 0;
  };

  Partition(Identity identity, const RouterConfig& config);
  Partition(const Partition&) = delete;
  Partition& operator=(const Partition&) = delete;

  const std::string& model_name() const { return identity_.model_name; }
  const std::string& routing_group() const { return identity_.routing_group; }
  uint32_t number() const { return identity_.number; }
  // Of the workers it has, or last had. No block size before the first.
  BlockNaming naming() const;

  const BlockIndex& index() const { return index_; }
  Scheduler& scheduler() { return scheduler_; }
  const Scheduler& scheduler() const { return scheduler_; }
  PartitionSessions& sessions() { return sessions_; }
  const PartitionSessions& sessions() const { return sessions_; }

  // ---- Workers (serialised by the caller) ----

  // kIncarnationConflict if the worker lives here as a newer incarnation.
  absl::Status CheckIncarnation(const WorkerSpec& spec) const;
  // kBlockSizeConflict or kBlockNamingConflict if other workers here name their blocks otherwise.
  absl::Status CheckNaming(const WorkerSpec& spec) const;

  // Adds the worker or replaces what is known of it, as Router::UpsertWorker says. On error nothing
  // has changed.
  absl::Status PutWorker(const WorkerSpec& spec);

  // False if unknown.
  bool RemoveWorker(WorkerId id);

  size_t WorkerCount() const;
  // Null if unknown.
  std::shared_ptr<const WorkerSpec> FindWorker(WorkerId id) const { return FindMember(id).spec; }

  // ---- What targets hold ----

  // As Router::Apply.
  ApplyResult Apply(const KvEvent& event);

  // A booking: the prompt's blocks are now held by its target, if bookings say so. Void for an
  // older life of the worker.
  void Record(Target target, Incarnation incarnation, std::span<const LocalBlockHash> local_hashes,
              std::span<const SequenceHash> sequence_hashes, MonotonicTime now);
  // Forgets some of what such bookings said too long ago; true: there is more.
  bool ForgetRouted(MonotonicTime now) { return routed_ && routed_->ExpireSome(now); }

  // How much of what engines announce is held (BlockIndex::Size), and the target with the largest
  // part of it; without events nothing is. What is remembered of bookings has a bound of its own.
  uint64_t IndexSize() const { return source_ == OverlapSource::kEvents ? index_.Size() : 0; }
  std::optional<Target> LargestTarget() const { return index_.LargestTarget(); }
  void ForgetBlocks(Target target) { index_.Forget(target); }

  // As BlockIndex::FindOverlap, of what targets hold according to all sources.
  void FindOverlap(std::span<const LocalBlockHash> query, std::vector<OverlapMatch>* out,
                   std::vector<LowerTierMatch>* lower) const;

  // `config`: in force now.
  PartitionSnapshot Snapshot(const SchedulerConfig& config) const;

 private:
  class Gate {
   public:
    explicit Gate(std::shared_ptr<const WorkerSpec> spec) : spec_(std::move(spec)) {}

    // The event's result; `index` is touched only while the gate is open to it.
    ApplyResult Pass(const KvEvent& event, BlockIndex* index);
    // Calls `enter` while the gate is open to this life and rank; else not.
    template <typename Enter>
    void PassBooking(Target target, Incarnation incarnation, const Enter& enter);
    // From now on events are judged by `spec`; opens a closed gate.
    void Set(std::shared_ptr<const WorkerSpec> spec);
    // When it returns, no event is under way and none will pass.
    void Close();

   private:
    Mutex mu_;
    std::shared_ptr<const WorkerSpec> spec_ ABSL_GUARDED_BY(mu_);
    // Turns events away before the mutex, so that a busy feed cannot keep Close() waiting.
    std::atomic<bool> closed_{false};
  };

  struct Member {
    std::shared_ptr<const WorkerSpec> spec;
    std::shared_ptr<Gate> gate;
  };

  // Both null if unknown.
  Member FindMember(WorkerId id) const;
  void DropTarget(Target target);
  void DropBlocks(const WorkerSpec& spec);
  // Ranks of `before` that `after` does not have.
  void DropBlocksOfVanishedRanks(const WorkerSpec& before, const WorkerSpec& after);

  const Identity identity_;
  const OverlapSource source_;
  std::atomic<uint64_t> events_ignored_{0};
  // A BlockNaming in one word, so that a look-up never sees half of a change.
  std::atomic<uint64_t> naming_{0};
  BlockIndex index_;
  const std::unique_ptr<BlockIndex> predictions_;  // null: none
  const std::unique_ptr<RoutedBlocks> routed_;  // feeds one of the two; null: bookings say nothing
  Scheduler scheduler_;
  PartitionSessions sessions_;
  mutable Mutex members_mu_;
  absl::flat_hash_map<WorkerId, Member> members_ ABSL_GUARDED_BY(members_mu_);
};

}  // namespace kvrouter

#endif  // KVROUTER_CORE_PARTITION_H_
