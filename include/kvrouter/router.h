#ifndef KVROUTER_ROUTER_H_
#define KVROUTER_ROUTER_H_

#include <array>
#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "kvrouter/block_hash.h"
#include "kvrouter/config.h"
#include "kvrouter/decision.h"
#include "kvrouter/decision_sink.h"
#include "kvrouter/events.h"
#include "kvrouter/phase_observer.h"
#include "kvrouter/shared_cache.h"
#include "kvrouter/types.h"
#include "kvrouter/worker.h"

namespace kvrouter {

// The only door into the core. It holds one partition per (model_name, routing_group); a partition
// is an index of the blocks its workers hold plus a scheduler that knows their load.
//
//   Submit ──> identify ─> overlap ─> eligible ─> score ─> book ─> report ──> RouteDecision
//                             ▲                              │
//   Apply (KV events) ── index │                              └─ load ledger ── PrefillComplete,
//                                                                             OutputBlock, Finish
//
// Thread safety: thread-safe. Overlap look-ups run concurrently with each other; pick and book are
// one critical section per partition. Owns no thread, reads no clock, does no I/O: `now` comes from
// the caller and must not go back.

// A snapshot of one target's load.
struct TargetLoad {
  Target target;
  Incarnation incarnation{};
  WorkerRole role = WorkerRole::kAggregated;
  bool draining = false;
  uint64_t active_prefill_tokens = 0;
  double active_decode_blocks = 0;
  uint64_t active_requests = 0;
  bool overloaded = false;  // its worker is no candidate for that (SchedulerConfig::overload)
  std::optional<MonotonicTime> ejected_until;  // taken out for its failures, now or lately
  uint32_t ejections = 0;                      // since it was last healthy for long
  uint64_t index_blocks = 0;  // distinct blocks the index believes it holds on the device
  // The same on each tier, by StorageTier; [kDevice] is index_blocks.
  std::array<uint64_t, kStorageTierCount> tier_blocks = {};
};

// What waits in one class of a partition's queue, and what became of the others.
struct QueueClassSnapshot {
  std::string policy_class;
  uint64_t waiting = 0;
  uint64_t waiting_isl_tokens = 0;
  uint64_t waiting_cached_tokens = 0;
  uint64_t parked_total = 0;     // each ends as one of the next three, or waits
  uint64_t released_total = 0;   // to be decided
  uint64_t cancelled_total = 0;  // its caller left
  uint64_t expired_total = 0;    // at its deadline
  // Never parked, by the limit they met.
  uint64_t over_request_limit_total = 0;
  uint64_t over_isl_token_limit_total = 0;
  uint64_t over_cached_token_limit_total = 0;
  uint64_t over_max_waiting_total = 0;
};

// What is remembered of the router's own decisions, where those say which blocks are held
// (OverlapSourceConfig). Counts of blocks are of (target, block) pairs.
struct RoutedBlocksFigures {
  uint64_t blocks = 0;  // remembered now
  uint64_t bytes = 0;   // estimate of the memory, with the index of predictions
  uint64_t stored_total = 0;
  uint64_t refreshed_total = 0;  // booked again before they expired
  uint64_t expired_total = 0;
  uint64_t forgotten_total = 0;  // for max_routed_blocks
  uint64_t refused_total = 0;    // whose names, given by a caller, contradict what is known
};

// Bindings of sessions in one pool of a partition.
struct SessionFigures {
  uint64_t sessions = 0;
  uint64_t leases = 0;  // live bookings of bound sessions
  uint64_t expired_total = 0;
  uint64_t evicted_total = 0;      // idle ones that made room
  uint64_t invalidated_total = 0;  // their target was no candidate any more, or failed
  uint64_t refused_total = 0;      // requests without a binding for want of room
};

// What is known of sessions whose callers name none.
struct DerivedSessionFigures {
  uint64_t ends = 0;  // of prompts shorter than N
  uint64_t aliases = 0;
  uint64_t evicted_total = 0;  // of both, for room
  uint64_t refused_total = 0;  // ends at a boundary with too many others
  uint64_t hot = 0;
  uint64_t turned_hot_total = 0;
};

// What the plans of all partitions remember.
struct PlanningFigures {
  uint64_t continuations = 0;  // sessions seen within the window
  uint64_t continuations_evicted_total = 0;
  uint64_t kv_homes = 0;
  uint64_t kv_homes_evicted_total = 0;
};

struct PartitionSnapshot {
  std::string model_name;
  std::string routing_group;
  uint32_t block_size_tokens = 0;
  bool is_eagle = false;
  std::optional<TokenId> image_token_id;
  uint64_t index_unique_blocks = 0;  // distinct block positions in the tree
  uint64_t index_holder_blocks = 0;  // (target, block held on the device) pairs
  std::array<uint64_t, kStorageTierCount> tier_blocks = {};  // the same of each tier
  uint64_t device_forgotten_total = 0;                       // blocks, for max_device_blocks
  uint64_t lower_tier_forgotten_total = 0;                   // blocks, for max_lower_tier_blocks
  uint64_t whole_forgotten_total = 0;                        // blocks, for max_index_blocks
  uint64_t index_bytes = 0;  // estimate of the memory the index holds
  uint64_t index_nodes = 0;
  uint64_t bookings = 0;
  uint64_t bookings_expired_total = 0;
  uint64_t ejections_total = 0;
  uint64_t ejections_refused_total = 0;   // too many were out, or it was the last one
  std::vector<QueueClassSnapshot> queue;  // as configured
  OverlapSource overlap_source = OverlapSource::kEvents;
  uint64_t events_ignored_total = 0;          // came though the source is another one
  std::optional<RoutedBlocksFigures> routed;  // absent: decisions are not remembered
  std::vector<TargetLoad> loads;              // ascending target
  SessionFigures decode_sessions = {};        // of all workers but prefill workers
  SessionFigures prefill_sessions = {};
  DerivedSessionFigures derived_sessions = {};
};

// What one target's load would be with one more request on it; nothing is booked.
struct TargetPotentialLoad {
  Target target;
  Incarnation incarnation{};
  WorkerRole role = WorkerRole::kAggregated;
  bool draining = false;
  uint64_t overlap_blocks = 0;  // of the prompt, tiers weighted, rounded half away from zero
  uint64_t potential_prefill_tokens =
      0;                               // active + uncached; active alone if prefill is not tracked
  double potential_decode_blocks = 0;  // active + the prompt's blocks not live there yet
  uint64_t active_requests = 0;        // without this one
};

// Overlap of one prompt on one target, advice only.
struct TargetOverlap {
  Target target;
  uint32_t device_blocks = 0;
  // What lower tiers hold beyond the tiers before them, without a gap.
  uint32_t host_blocks = 0;
  uint32_t disk_blocks = 0;
  uint32_t external_blocks = 0;
};

// What an engine, or somebody who watches it, says of one rank's memory; absent: nothing.
struct ReportedLoad {
  Target target;
  std::optional<double> kv_used_blocks = {};
  std::optional<double> active_decode_blocks = {};
};

// How what was sent to a target ended.
struct LegReport {
  Target target;
  Incarnation incarnation{};
  bool succeeded = true;
  std::chrono::nanoseconds after{};  // its dispatch
};

struct DumpCounts {
  uint64_t events = 0;
  uint64_t blocks = 0;          // (target, block) pairs in the events
  uint64_t omitted_blocks = 0;  // pairs left out because they lie behind a hole, on every tier
  bool complete =
      true;  // false: the receiver stopped it; the figures are those of what was read until then
};

// A partition's dump in steps (Router::OpenDump), for receivers that cannot wait: between two steps
// nothing is locked and nothing runs, however long it takes. Memory: for the target at hand 12
// bytes per block that has a name of its own there, and the branches still to be walked. Keeps the
// partition alive, not its workers: one that has left holds nothing. Thread-compatible; must not
// outlive the Router.
class DumpCursor {
 public:
  class Impl;
  explicit DumpCursor(std::unique_ptr<Impl> impl);
  ~DumpCursor();

  // Appends the events of one more step, often none; a step is a few hundred blocks. False: it was
  // the last one.
  bool Next(std::vector<KvEvent>* events);
  // Of what was read so far; `complete` once Next returned false.
  const DumpCounts& Counts() const;
  // Of the blocks in all its events.
  uint32_t BlockSizeTokens() const;

 private:
  const std::unique_ptr<Impl> impl_;
};

class Router {
 public:
  // Either a decision, or a ticket: the request waits, and Pump will return its decision.
  // Without a queue it is always a decision.
  using Submission = std::variant<RouteDecision, TicketId>;

  struct Resolved {
    TicketId ticket{};
    absl::StatusOr<RouteDecision> decision;
  };

  // Those behind the pointers may be null; they must outlive the Router. `shared_cache` replaces
  // the one that the config names. REQUIRES: Validate(config).ok().
  Router(RouterConfig config, DecisionSink* sink, PhaseObserver* phases = nullptr,
         DecisionRecorder* recorder = nullptr, const SharedCacheView* shared_cache = nullptr);
  ~Router();
  Router(const Router&) = delete;
  Router& operator=(const Router&) = delete;

  // ---- Requests ----

  // Decides, and books if request.book: with a remote prefill the prefill target, and the decode
  // target besides if request.fixed_plan. Errors carry an ErrorReason: kInvalidRequest, kTooLarge,
  // kNoWorkers, kAllOverloaded, kPinned*, kUnknownPartition, kLimitReached, kQueueLimit. The
  // booking's id is in the decision; the caller owns it and must Finish it exactly once. With a
  // ticket: call Pump, for the request may be able to go already. What the request borrows is free
  // again when this returns.
  absl::StatusOr<Submission> Submit(const RouteRequest& request, MonotonicTime now);

  // Books on the target the caller names, without picking; never waits, may overload it. The
  // decision says kPinned, and its overlap is isl_tokens - effective_prefill_tokens if that was
  // given, else what the index says. The sink hears of it once, as of any booking. Errors as Submit
  // for a request pinned to the target, and kInvalidRequest for more effective_prefill_tokens than
  // prompt tokens.
  absl::StatusOr<RouteDecision> Reserve(const ReserveRequest& request, MonotonicTime now);

  // Decisions of waiting requests that became possible, and the ends of those whose deadline is
  // over (DEADLINE_EXCEEDED kQueueDeadline). Call after anything that frees load or changes
  // workers, and on a timer.
  std::vector<Resolved> Pump(MonotonicTime now);

  // A waiting request leaves. False if the ticket is unknown or already resolved.
  bool Cancel(TicketId ticket);

  // ---- A booking's life. All return false for an id that is not live (never booked, finished,
  // expired, or its worker left); every call but Finish is a sign of life. ----

  bool PrefillComplete(BookingId booking, MonotonicTime now);
  // `output_tokens` generated so far, cumulative; when it crosses a block boundary and output
  // tracking is on, one block is added. `decay_fraction` in [0, 1] replaces the fraction derived
  // from expected_output_tokens.
  bool OutputTokens(BookingId booking, uint64_t output_tokens, std::optional<double> decay_fraction,
                    MonotonicTime now);
  // One more generated block, for callers that count blocks (HTTP /output_block).
  bool OutputBlock(BookingId booking, std::optional<double> decay_fraction, MonotonicTime now);
  bool KeepAlive(BookingId booking, MonotonicTime now);
  bool Finish(BookingId booking, MonotonicTime now);

  // The target has failed the request of this booking: its session is bound there no longer. The
  // booking stays. False: the booking has no session (any more).
  bool DropSession(BookingId booking);

  // Whether the booking is live, without being a sign of life itself: how the service finds records
  // whose booking left with its worker. Cheap (one look-up); called for every live record every few
  // seconds.
  bool IsLive(BookingId booking) const;

  // Releases bookings that showed no sign of life for active_request_expiry; returns them.
  std::vector<BookingId> Expire(MonotonicTime now);

  // ---- Health ----

  // The latest of each field counts until the next one (busy_thresholds.h: the decode latch).
  // Unknown targets are ignored.
  void ReportLoad(const ReportedLoad& load);
  // May take the target out for a while (outlier_ejection.h). Of an older life, or of an unknown
  // target, it says nothing.
  void ReportLeg(const LegReport& leg, MonotonicTime now);

  // ---- Cache events ----

  // Changes nothing (kOk) and is counted where the overlap's source is not kEvents.
  ApplyResult Apply(const KvEvent& event);

  // Keeps what engines announce within max_index_blocks, over all partitions: while it is more, all
  // that is known of the rank that takes most, in the partition that takes most, is forgotten, and
  // it fills again. Call a few times per second; costs nothing while the bound is kept.
  void BoundIndex();

  // Forgets the blocks of earlier decisions whose time is over (OverlapSourceConfig). Submit does a
  // part of it; call this a few times per second, too. Costs nothing while none is due.
  void ForgetRouted(MonotonicTime now);

  // ---- Workers ----

  // Adds a worker, or replaces what is known of it. Keeps index and load when the incarnation is
  // unchanged; a new incarnation starts empty and voids the bookings of the old one. A change of
  // partition is a removal and an addition. Errors: kInvalidRequest; kBlockSizeConflict or
  // kBlockNamingConflict (FAILED_PRECONDITION) when the partition has another block size, or other
  // values of is_eagle and image_token_id, and this worker is not its only one (the old record
  // stays; as the only one it changes the partition's, and its blocks are dropped);
  // kIncarnationConflict for an older incarnation; kLimitReached.
  absl::Status UpsertWorker(const WorkerSpec& spec);

  // Forgets the worker: its blocks (memory returns), its load and its bookings. False if unknown.
  bool RemoveWorker(WorkerId id);

  // ---- Settings, while requests go on ----

  // Requests that come from now on are decided by `config`; each is decided by one configuration,
  // whole. Bookings stay, and so does who waits: call Pump. Returns the generation: 1 from the
  // start, one more with every change, the same if nothing differs. On an error nothing changed:
  // INVALID_ARGUMENT as Validate; FAILED_PRECONDITION for differences in all but weights (their
  // credit may not become or cease to be 0), temperature, what is tracked besides output, whether
  // reuse is assumed, overload, queue, ejection, gate (but for local continuations), migration,
  // strict disaggregation, the source's time-out, decision detail, shadow policy and
  // max_index_blocks.
  absl::StatusOr<uint64_t> Reconfigure(const RouterConfig& config);
  uint64_t ConfigGeneration() const;
  std::shared_ptr<const RouterConfig> Config() const;  // in force; never null

  // ---- Looking in. Snapshots; cost grows with the number of workers. ----

  std::vector<PartitionSnapshot> Snapshot() const;
  PlanningFigures PlanningState() const;
  // How the partition's blocks are named; costs the look-up of its name only. Error:
  // kUnknownPartition.
  absl::StatusOr<BlockNaming> Naming(std::string_view model_name,
                                     std::string_view routing_group) const;
  // Overlap per target, ascending, for targets with at least one block on any tier. Errors as
  // Submit.
  absl::StatusOr<std::vector<TargetOverlap>> FindOverlap(const RouteRequest& request) const;
  // Of all targets of the partition, ascending, whatever the request allows, excludes or pins.
  // Advice: books nothing and tells the sink nothing. Errors as Submit.
  absl::StatusOr<std::vector<TargetPotentialLoad>> PotentialLoads(
      const RouteRequest& request) const;

  // What the partition's workers hold, as stored events (StoreCounting::kSet, event ids 0, 1, 2,
  // ...), target by target, tier by tier (KvEvent::tier) and parents before children; on a lower
  // tier a parent may be of another tier that comes later. If nothing changes meanwhile, applying
  // them in order to a Router with the same workers and no blocks gives the same overlap for every
  // prompt. If blocks come and go meanwhile, each event is still true of the moment it was read.
  // Blocks behind a hole score nothing and have no parent to name: left out and counted. How often
  // a block was stored is left out, too. `emit` gets the events in the calling thread, never under
  // a lock of the core, and stops the dump by returning false. Lookups and events go on between
  // steps of a few hundred blocks. Error: kUnknownPartition.
  absl::StatusOr<DumpCounts> Dump(std::string_view model_name, std::string_view routing_group,
                                  const std::function<bool(const KvEvent&)>& emit) const;
  // The same, at the receiver's pace.
  absl::StatusOr<std::unique_ptr<DumpCursor>> OpenDump(std::string_view model_name,
                                                       std::string_view routing_group) const;
  // What one target holds, exactly: stored and removed events (StoreCounting::kCounted, no
  // incarnation, each of one tier) that, applied in order to a target without blocks, make it hold
  // the same blocks under the same names, each stored as often (up to 64 times), those behind holes
  // included. How a feed's blocks outlive the process. Lookups and other targets' events go on
  // meanwhile; REQUIRES: no event of this target. False: it was dropped meanwhile or is unknown,
  // and what was emitted is void.
  bool SaveTarget(Target target, const std::function<void(const KvEvent&)>& emit) const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace kvrouter

#endif  // KVROUTER_ROUTER_H_
