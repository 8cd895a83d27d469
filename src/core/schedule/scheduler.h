#ifndef KVROUTER_CORE_SCHEDULE_SCHEDULER_H_
#define KVROUTER_CORE_SCHEDULE_SCHEDULER_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "absl/status/statusor.h"
#include "base/mutex.h"
#include "core/index/block_index.h"
#include "core/schedule/eligibility.h"
#include "core/schedule/load_ledger.h"
#include "core/schedule/pick.h"
#include "core/schedule/scorer.h"
#include "kvrouter/config.h"
#include "kvrouter/decision.h"
#include "kvrouter/router.h"
#include "kvrouter/types.h"
#include "kvrouter/worker.h"

namespace kvrouter {

// A request as the scheduler sees it: everything that could be worked out before the lock. Borrows
// its spans and filter.
struct ScheduleRequest {
  const EligibilityFilter* filter = nullptr;
  EffectiveWeights weights;
  std::span<const OverlapMatch> overlaps;          // ascending target
  std::span<const LowerTierMatch> lower_overlaps;  // ascending target
  std::span<const SequenceHash> chain;             // of the prompt's full blocks
  uint64_t isl_tokens = 0;
  uint32_t block_size_tokens = 1;
  bool decode_pool = false;
  bool book = true;
  bool list_filtered = false;  // fill CandidateTable::filtered
  std::optional<uint64_t> expected_output_tokens = {};
  // Replaces what `overlaps` says of the candidates; for a caller that names the target and knows.
  std::optional<double> stated_overlap_blocks = {};
};

// The candidates of one decision. Belongs to the calling thread and is reused, so that the lock is
// held without allocating, and explanations are built from it after the lock is released.
struct CandidateTable {
  std::vector<SeenCandidate> seen;  // ascending target
  std::vector<double> costs;        // of seen[i]
  // Of seen[i]; empty if the prompt has nothing on lower tiers.
  std::vector<LowerTierOverlap> lower;
  ScoreContext context;
  CostsSummary summary;
  std::vector<FilteredTarget> filtered;  // at most kMaxFilteredTargets, ascending target

  LowerTierOverlap LowerOf(size_t i) const { return lower.empty() ? LowerTierOverlap{} : lower[i]; }

  std::vector<uint32_t> live_blocks;  // by slot; of use to the scheduler only
};

// What the scheduler decided. The candidates are in the caller's CandidateTable.
struct Placement {
  size_t index = 0;  // of the chosen candidate in the table
  std::shared_ptr<const WorkerSpec> worker;
  TargetSlot slot{};  // its place in the ledger
  BookingId booking = kNoBooking;
  DecisionReason reason = DecisionReason::kLowestCost;
  Pick pick;
  FilterCounts filtered;
  double best_overlap_blocks = 0;  // over all targets, eligible or not
  std::optional<Target> best_overlap_target;
};

// The loads of one partition and the choice among its targets, under one mutex: pick and book are
// one critical section, so requests that arrive together do not all see the same idle target.
//
// A pick is eligible -> load -> score -> pick -> book. Under the lock it costs a few dozen
// nanoseconds per target plus one walk over the live prompts; nothing is allocated per candidate.
//
// Thread safety: thread-safe; the ledger and the random source are thread-compatible and guarded by
// the mutex.
class Scheduler {
 public:
  struct Options {
    SchedulerConfig config;
    uint32_t partition = 0;
    uint32_t first_generation = 1;
    uint64_t random_seed = 0;
  };

  explicit Scheduler(const Options& options);

  // Makes the worker's targets those of `spec`. Ranks that stay keep their bookings; those of
  // vanished ranks are void.
  void SetWorker(std::shared_ptr<const WorkerSpec> spec);
  // Its bookings are void. No reply after this names it.
  void RemoveWorker(WorkerId id);

  // Errors: kPinnedNotAllowed, kPinnedUnavailable, kNoWorkers, kLimitReached.
  absl::StatusOr<Placement> PickAndBook(const ScheduleRequest& request, CandidateTable* table,
                                        MonotonicTime now);

  // Of every target, ascending. Reads the request's overlaps, chain, weights and isl_tokens only.
  std::vector<TargetPotentialLoad> PotentialLoads(const ScheduleRequest& request) const;

  // As in Router.
  bool PrefillComplete(BookingId id, MonotonicTime now);
  bool OutputTokens(BookingId id, uint64_t output_tokens, std::optional<double> fraction,
                    MonotonicTime now);
  bool OutputBlock(BookingId id, std::optional<double> fraction, MonotonicTime now);
  bool KeepAlive(BookingId id, MonotonicTime now);
  bool Finish(BookingId id);
  bool IsLive(BookingId id) const;
  void Expire(MonotonicTime now, std::vector<BookingId>* expired);

  struct LoadSnapshot {
    std::vector<TargetLoad> loads;  // ascending target; the blocks are the partition's affair
    uint64_t bookings = 0;
    uint64_t expired_total = 0;
  };
  LoadSnapshot Loads() const;

  // For a successor that takes over the partition number.
  uint32_t NextGeneration() const;

 private:
  struct Row {
    Target target;
    TargetSlot slot{};
    bool draining = false;  // worker->draining, without a cache miss per target
    std::shared_ptr<const WorkerSpec> worker;
  };

  // The steps of PickAndBook.
  void CollectCandidates(const ScheduleRequest& request, CandidateTable* table,
                         Placement* placement) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  // Notes why the row's target is no candidate.
  static void Exclude(const Row& row, EligibilityFilter::Verdict verdict, double overlap_blocks,
                      const ScheduleRequest& request, CandidateTable* table, Placement* placement);
  static void ScoreCandidates(const ScheduleRequest& request, CandidateTable* table);
  void PickCandidate(const ScheduleRequest& request, const CandidateTable& table,
                     Placement* placement) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  // False if the ledger is full.
  bool Book(const ScheduleRequest& request, const CandidateTable& table, MonotonicTime now,
            Placement* placement) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);

  std::vector<Row>::iterator FirstRowOf(WorkerId id) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);

  const SchedulerConfig config_;
  mutable Mutex mu_;
  LoadLedger ledger_ ABSL_GUARDED_BY(mu_);
  UniformSource random_ ABSL_GUARDED_BY(mu_);
  std::vector<Row> rows_ ABSL_GUARDED_BY(mu_);  // ascending target
};

}  // namespace kvrouter

#endif  // KVROUTER_CORE_SCHEDULE_SCHEDULER_H_
