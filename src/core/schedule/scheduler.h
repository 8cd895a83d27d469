#ifndef KVROUTER_CORE_SCHEDULE_SCHEDULER_H_
#define KVROUTER_CORE_SCHEDULE_SCHEDULER_H_

#include <array>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/statusor.h"
#include "base/mutex.h"
#include "core/index/block_index.h"
#include "core/schedule/busy_thresholds.h"
#include "core/schedule/candidate_filter.h"
#include "core/schedule/load_ledger.h"
#include "core/schedule/outlier_ejection.h"
#include "core/schedule/pick.h"
#include "core/schedule/request_queue.h"
#include "core/schedule/scorer.h"
#include "core/schedule/seen_candidates.h"
#include "core/schedule/session_binding.h"
#include "core/schedule/target_pool.h"
#include "kvrouter/config.h"
#include "kvrouter/decision.h"
#include "kvrouter/router.h"
#include "kvrouter/shared_cache.h"
#include "kvrouter/types.h"
#include "kvrouter/worker.h"

namespace kvrouter {

// What a request wants of the queue (RouteRequest has the fields).
struct QueueWish {
  std::string_view policy_class;
  uint32_t strict_priority = 0;
  double priority_jump = 0;
  MonotonicTime deadline = MonotonicTime::max();
};

// A request as the scheduler sees it: everything that could be worked out before the lock. Borrows
// its spans and what it points to.
struct ScheduleRequest {
  const CandidateFilter* filter = nullptr;
  const QueueWish* queue = nullptr;  // null: it never waits
  EffectiveWeights weights;
  // Null: those that the scheduler was made with.
  const OverloadThresholds* overload = nullptr;
  std::span<const OverlapMatch> overlaps;          // ascending target
  std::span<const LowerTierMatch> lower_overlaps;  // ascending target
  std::span<const BlockRange> shared_hits = {};    // of the prompt in a shared cache
  std::span<const SequenceHash> chain;             // of the prompt's full blocks
  uint64_t isl_tokens = 0;
  uint32_t block_size_tokens = 1;
  TargetPool pool = TargetPool::kDecode;
  bool decode_pool = false;
  bool book = true;
  bool list_filtered = false;  // fill CandidateTable::filtered
  std::optional<uint64_t> expected_output_tokens = {};
  SessionBinding::Claim session = {};
  // Replaces what `overlaps` says of the candidates; for a caller that names the target and knows.
  std::optional<double> stated_overlap_blocks = {};
};

// The candidates of one decision. Belongs to the calling thread and is reused, so that the lock is
// held without allocating, and explanations are built from it after the lock is released.
struct CandidateTable {
  SeenCandidates seen;        // ascending target
  std::vector<double> costs;  // of seen[i]
  // Of seen[i]; empty if the prompt has nothing on lower tiers or in a shared cache.
  std::vector<LowerTierOverlap> lower;
  std::vector<double> taint_multipliers;  // of seen[i]; empty if all are 1
  ScoreContext context;
  CostsSummary summary;
  std::vector<FilteredTarget> filtered;  // at most kMaxFilteredTargets, ascending target

  LowerTierOverlap LowerOf(size_t i) const { return lower.empty() ? LowerTierOverlap{} : lower[i]; }
  double TaintMultiplierOf(size_t i) const {
    return taint_multipliers.empty() ? 1 : taint_multipliers[i];
  }

  // Of use to the scheduler only.
  std::vector<uint32_t> live_blocks;  // by slot
  std::vector<RankLoad> rank_loads;   // by row
  std::vector<bool> overloaded;       // by row; empty: nobody
};

// What the scheduler decided. The candidates are in the caller's CandidateTable.
struct Placement {
  size_t index = 0;  // of the chosen candidate in the table
  std::shared_ptr<const WorkerSpec> worker;
  TargetSlot slot{};  // its place in the ledger
  BookingId booking = kNoBooking;
  DecisionReason reason = DecisionReason::kLowestCost;
  Pick pick;
  CandidateFilter::Counts filtered{};
  double best_overlap_blocks = 0;  // over all targets, eligible or not
  std::optional<Target> best_overlap_target;
  // Nothing of the above: it has to wait, with these figures (Scheduler::Park).
  std::optional<RequestQueue::Request> must_wait;
  SessionOutcome session = SessionOutcome::kNone;
};

// A request that waits, owning all that deciding it later takes.
// Whoever parks it adds what it needs itself.
struct WaitingRequest {
  virtual ~WaitingRequest() = default;
  ScheduleRequest schedule;
  std::string policy_class;  // as its caller wished
};

// The loads of one partition, the choice among its targets and the queue for them, under one mutex:
// pick and book are one critical section, so requests that arrive together do not all see the same
// idle target.
//
// A pick is wait? -> eligible -> load -> score -> pick -> book. Under the lock it costs a few dozen
// nanoseconds per target plus one walk over the live prompts; nothing is allocated per candidate.
//
//   PickAndBook ──must_wait──> Park ──> ticket ──> PumpOne ──> placed, when a target is less busy
//                                         └ Cancel, ExpireWaiting
//
// Thread safety: thread-safe; the ledger, the queue, the ejection and the random source are
// thread-compatible and guarded by the mutex.
class Scheduler {
 public:
  struct Options {
    SchedulerConfig config;
    uint32_t partition = 0;
    uint32_t first_generation = 1;
    uint64_t random_seed = 0;
    std::string model_name = "default";  // chooses the policy profile
    SessionConfig sessions = {};
  };

  explicit Scheduler(const Options& options);

  // Makes the worker's targets those of `spec`. Ranks that stay keep their bookings; those of
  // vanished ranks are void.
  void SetWorker(std::shared_ptr<const WorkerSpec> spec);
  // Its bookings are void. No reply after this names it.
  void RemoveWorker(WorkerId id);

  // Decides, or says that the request has to wait. Errors: kPinned*, kNoWorkers, kAllOverloaded,
  // kLimitReached.
  absl::StatusOr<Placement> PickAndBook(const ScheduleRequest& request, CandidateTable* table,
                                        MonotonicTime now);

  // ---- The queue ----

  // Takes in a request that has to wait. Between the two calls it may have become able to go: call
  // PumpOne. Errors: kQueueLimit; kNoWorkers if all workers have left.
  absl::StatusOr<TicketId> Park(const RequestQueue::Request& turn,
                                std::shared_ptr<WaitingRequest> request, MonotonicTime now);

  struct Released {
    TicketId ticket{};
    std::shared_ptr<WaitingRequest> request;
    std::chrono::nanoseconds waited{};
    // Absent: it waited so long that its overlaps must be looked up again; then the caller decides
    // it by PickAndBook.
    std::optional<absl::StatusOr<Placement>> placement;
  };
  // The next waiting request that can go, decided in the same critical section. Nothing: nobody.
  std::optional<Released> PumpOne(CandidateTable* table, MonotonicTime now);
  // A waiting request leaves. False if the ticket waits no more.
  bool Cancel(TicketId ticket);
  // Requests whose deadline is over leave; appends their tickets.
  void ExpireWaiting(MonotonicTime now, std::vector<TicketId>* expired);
  // Queue and ejection as configured from now on, in one step. Who waits stays (RequestQueue); it
  // is put into the class that its words and tokens ask for. Call PumpOne.
  void Reconfigure(const SchedulerConfig& config);
  uint64_t WaitingCount() const { return waiting_count_.load(std::memory_order_relaxed); }

  // ---- Health ----

  void ReportLoad(const ReportedLoad& load);
  void ReportLeg(const LegReport& leg, MonotonicTime now);
  // Whether the target's worker is no candidate for its load. False if unknown.
  bool IsOverloaded(const Target& target, const OverloadThresholds& thresholds) const;
  // Booked on the target and not computed yet. 0 if unknown.
  uint64_t PendingPrefillTokens(const Target& target) const;

  // Of every target, ascending. Reads the request's overlaps, chain, weights and isl_tokens only.
  std::vector<TargetPotentialLoad> PotentialLoads(const ScheduleRequest& request) const;

  // Targets of the pool that take new requests. Costs a load, takes no lock.
  uint32_t OpenTargets(TargetPool pool) const {
    return open_targets_[static_cast<size_t>(pool)].load(std::memory_order_relaxed);
  }

  // Whether a worker that only decodes takes new requests: the group is disaggregated, also while
  // it has no prefill worker.
  bool HasDecodeWorkers() const { return has_decode_workers_.load(std::memory_order_relaxed); }

  // As in Router.
  bool PrefillComplete(BookingId id, MonotonicTime now);
  bool OutputTokens(BookingId id, uint64_t output_tokens, std::optional<double> fraction,
                    MonotonicTime now);
  bool OutputBlock(BookingId id, std::optional<double> fraction, MonotonicTime now);
  bool KeepAlive(BookingId id, MonotonicTime now);
  bool Finish(BookingId id, MonotonicTime now);
  bool DropSession(BookingId id);
  bool IsLive(BookingId id) const;
  void Expire(MonotonicTime now, std::vector<BookingId>* expired);

  struct LoadSnapshot {
    std::vector<TargetLoad> loads;  // ascending target; the blocks are the partition's affair
    uint64_t bookings = 0;
    uint64_t expired_total = 0;
    uint64_t ejections_total = 0;
    uint64_t ejections_refused_total = 0;
    std::vector<QueueClassSnapshot> queue;
    SessionFigures decode_sessions = {};
    SessionFigures prefill_sessions = {};
  };
  // Overloaded by these thresholds; null: by those that the scheduler was made with.
  LoadSnapshot Loads(const OverloadThresholds* overload = nullptr) const;

  // For a successor that takes over the partition number: of bookings and of tickets.
  uint32_t NextGeneration() const;

 private:
  // What of a worker's record is looked at per request, ready to be compared.
  struct WorkerFacts {
    std::vector<std::string> taints;                   // TaintsOf
    std::optional<std::vector<std::string>> adapters;  // sorted
  };

  struct Row {
    Target target;
    TargetSlot slot{};
    WorkerRole role = WorkerRole::kAggregated;  // worker->role, and
    bool draining = false;                      // worker->draining, without a cache miss per target
    std::shared_ptr<const WorkerSpec> worker;
    std::shared_ptr<const WorkerFacts> facts;
    DecodeSignals reported;
  };

  // The steps of PickAndBook.
  absl::StatusOr<Placement> PickAndBookLocked(const ScheduleRequest& request, CandidateTable* table,
                                              MonotonicTime now) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  void FindOverloaded(const OverloadThresholds& thresholds, CandidateTable* table) const
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  enum class Ejected : uint8_t { kOut, kServe };
  void CollectCandidates(const ScheduleRequest& request, Ejected ejected, MonotonicTime now,
                         CandidateTable* table, Placement* placement) const
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  CandidateFilter::Verdict Judge(const ScheduleRequest& request, const Row& row, bool overloaded,
                                 MonotonicTime now) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  // Notes why the row's target is no candidate.
  static void Exclude(const Row& row, CandidateFilter::Verdict verdict, double overlap_blocks,
                      const ScheduleRequest& request, CandidateTable* table);
  static void ScoreCandidates(const ScheduleRequest& request, CandidateTable* table);
  void PickCandidate(const ScheduleRequest& request, const CandidateTable& table,
                     const SessionBinding::Choice& session, Placement* placement)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  SessionBinding::Choice ChooseBySession(const ScheduleRequest& request,
                                         const CandidateTable& table, MonotonicTime now) const
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  // False if the ledger is full.
  bool Book(const ScheduleRequest& request, const CandidateTable& table, MonotonicTime now,
            Placement* placement) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);

  // What the queue looks at: the targets that could serve the request, overloaded ones included.
  // Nothing: it need not wait.
  std::optional<RequestQueue::Request> TurnOf(const ScheduleRequest& request,
                                              MonotonicTime now) const
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  RequestQueue::Readiness ReadinessOf(const ScheduleRequest& request, uint32_t policy_class,
                                      MonotonicTime now) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  uint64_t MostCachedTokens(const ScheduleRequest& request, MonotonicTime now) const
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  // The target that the request waits for by its session, while it could serve it.
  std::optional<Target> SessionPinOf(const ScheduleRequest& request, MonotonicTime now) const
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  uint32_t ClassOf(const WaitingRequest& request, uint64_t uncached_tokens) const
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  std::shared_ptr<WaitingRequest> TakeWaiting(TicketId ticket) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  std::vector<QueueClassSnapshot> QueueLocked() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  uint64_t WorkerCount() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  // Null if unknown.
  const Row* FindRow(Target target) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);

  std::vector<Row>::iterator FirstRowOf(WorkerId id) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  // The target's row. REQUIRES: it has one.
  static const Row& RowOf(const Target& target, std::span<const Row> rows);
  void CountOpenTargets() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  // The target's bookings are void.
  void DropTarget(TargetSlot slot) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);

  const SchedulerConfig config_;  // but for queue and ejection, which have theirs
  const std::string model_name_;
  mutable Mutex mu_;
  LoadLedger ledger_ ABSL_GUARDED_BY(mu_);
  UniformSource random_ ABSL_GUARDED_BY(mu_);
  std::vector<Row> rows_ ABSL_GUARDED_BY(mu_);  // ascending target
  OutlierEjection ejection_ ABSL_GUARDED_BY(mu_);
  RequestQueue queue_ ABSL_GUARDED_BY(mu_);
  absl::flat_hash_map<TicketId, std::shared_ptr<WaitingRequest>> waiting_
      ABSL_GUARDED_BY(mu_);                 // of the queue
  std::atomic<uint64_t> waiting_count_{0};  // of waiting_, written under mu_
  SessionBinding sessions_ ABSL_GUARDED_BY(mu_);
  std::array<std::atomic<uint32_t>, 2> open_targets_{};  // kDecode, kPrefill; written under mu_
  std::atomic<bool> has_decode_workers_{false};          // likewise
};

}  // namespace kvrouter

#endif  // KVROUTER_CORE_SCHEDULE_SCHEDULER_H_
