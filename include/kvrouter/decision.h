#ifndef KVROUTER_DECISION_H_
#define KVROUTER_DECISION_H_

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "kvrouter/config.h"
#include "kvrouter/plan.h"
#include "kvrouter/session.h"
#include "kvrouter/types.h"
#include "kvrouter/worker.h"

namespace kvrouter {

// ---- What is asked ------------------------------------------------------------------------------

// The prompt as token ids. Borrowed: must live until Submit returns.
struct TokenPrompt {
  std::span<const TokenId> token_ids;
  // The images and other items that touch each block (block_hash.h), as often as the engine names
  // them there and in that order; may end early. Items behind the trailing partial block are an
  // error. The token ids of an item are the ones the engine puts in its place.
  std::span<const std::vector<MultimodalHash>> multimodal = {};
};

// The prompt as hashes the caller computed (block_hash.h). Borrowed like TokenPrompt.
// REQUIRES: equal lengths (or empty sequence hashes, then they are chained here), as many as
// isl_tokens has full blocks (FullBlocks).
struct HashPrompt {
  std::span<const LocalBlockHash> local_hashes;
  std::span<const SequenceHash> sequence_hashes;
  uint64_t isl_tokens = 0;
};

// Per-request replacements of configuration. Ranges as in SchedulerConfig; out of range fails the
// request. Parity: Dynamo router_config_override. Its deprecated overlap_score_weight is translated
// by the doors.
struct ConfigOverride {
  std::optional<double> overlap_score_credit = {};
  std::optional<double> prefill_load_scale = {};
  std::optional<double> router_temperature = {};
  std::optional<bool> assume_kv_reuse = {};
  std::optional<bool> track_prefill_tokens = {};
  std::optional<double> shared_cache_multiplier = {};
};

// A worker, or one rank of it.
struct TargetSelector {
  WorkerId worker{};
  std::optional<uint32_t> dp_rank = {};  // absent: any rank

  bool Matches(const Target& t) const {
    return t.worker == worker && (!dp_rank || *dp_rank == t.dp_rank);
  }
};

// What a request wants of the labels that workers carry.
struct RoutingConstraints {
  std::vector<std::string> required_taints = {};  // all must be there
  // Weights, finite; negative ones repel. The sum over those that a worker carries multiplies its
  // cost by a factor in [1/e, e].
  std::map<std::string, double> preferred_taints = {};

  friend bool operator==(const RoutingConstraints&, const RoutingConstraints&) = default;
};

// Which part of a request is asked for, or served.
enum class RequestPhase : uint8_t {
  kWhole,    // all of it; asked for: the gate may make two legs of it
  kPrefill,  // computes the prompt for somebody else; on prefill workers
  kDecode,   // generates from blocks that come from elsewhere; on all others
};
// E.g. "prefill".
std::string_view RequestPhaseName(RequestPhase phase);

struct RouteRequest {
  std::string request_id;  // for sinks and logs; uniqueness is the service's affair
  std::string model_name = "default";
  std::string routing_group = "default";
  std::variant<TokenPrompt, HashPrompt> prompt;
  std::string lora_name;   // empty = base model
  std::string cache_salt;  // empty = shared cache namespace
  // What the caller takes the partition's engines for. Absent: whatever they are. Another value
  // than theirs is an error, since the blocks would have names that no worker knows.
  std::optional<bool> is_eagle;
  bool book = true;  // false: advice, nothing is booked or counted
  ConfigOverride overrides;
  std::optional<std::vector<WorkerId>> allowed_workers;  // absent = all; empty = nobody
  std::vector<TargetSelector> excluded;  // e.g. targets that already failed this request
  std::optional<TargetSelector> pinned;
  std::optional<uint64_t> expected_output_tokens;  // > 0
  RoutingConstraints constraints = {};
  // The conversation it belongs to, as the caller names it; at most 256 bytes. Empty: derived from
  // the prompt if that is on, else none.
  std::string session_id = {};
  // While it waits: the name of a policy class or family, its rank within the class, and seconds of
  // head start (negative counts as 0).
  std::string policy_class = {};
  uint32_t strict_priority = 0;
  double priority_jump = 0;
  // It waits no longer than this. Absent: as long as its caller does.
  std::optional<MonotonicTime> deadline = {};
  // False: decided at once, whoever waits and however busy the targets are; for advice that only
  // looks.
  bool may_wait = true;
  // kWhole is served by a worker that decodes, never by a prefill worker alone.
  RequestPhase phase = RequestPhase::kWhole;
  // With a remote prefill: pick and book the decode target at once, not when the prefill leg has
  // returned.
  bool fixed_plan = false;
  // kWhole: who computes the prompt if there is a prefill leg. (With phase kPrefill: `pinned`.)
  std::optional<TargetSelector> pinned_prefill = {};
  // kDecode: who computed the prompt. What that worker demands of the decode target's place holds.
  std::optional<Target> prefilled_by = {};
  // The blocks come from elsewhere already: none are to be pulled.
  bool has_prefill_result = false;
  // The target computes the prompt itself, whatever the gate would say. With kDecode: the prefill
  // leg failed, and the decode target does all.
  bool prefill_here = false;
};

// A booking on a target that the caller chose, e.g. from the answer to an earlier advice.
struct ReserveRequest {
  // The prompt, the partition, the overrides. Not read: book, allowed_workers, excluded, pinned.
  RouteRequest route;
  Target target;
  // What the target still has to compute of the prompt, <= its tokens. Absent: what the index says
  // now. To book an earlier advice with the overlap it saw: isl_tokens -
  // round(effective_overlap_blocks * block size).
  std::optional<uint64_t> effective_prefill_tokens = {};
  // Absent: true if effective_prefill_tokens is given, else the override, else the configuration.
  std::optional<bool> track_prefill_tokens = {};
};

// ---- What is answered ---------------------------------------------------------------------------

// How the request is to be served, in legs (plan.h).
enum class Plan : uint8_t {
  kLocal,          // one leg
  kRemotePrefill,  // a prefill worker computes the prompt, then another one decodes
  kMigrate,        // the target pulls blocks from another worker first
};
inline constexpr int kPlanCount = 3;
std::string_view PlanName(Plan plan);

// Why this target. Every branch that changes the outcome has its own reason.
enum class DecisionReason : uint8_t {
  kLowestCost,     // strictly lowest cost
  kTieBreak,       // several targets shared the lowest cost; one was drawn uniformly
  kSampled,        // temperature > 0: drawn from the softmax
  kOnlyCandidate,  // one eligible target
  kPinned,         // the caller named it
  kSession,        // its session is bound there
  kRendezvous,     // its session has no target yet, and every router would choose this one
};
inline constexpr int kDecisionReasonCount = 7;
std::string_view DecisionReasonName(DecisionReason reason);
// Whether the costs chose; otherwise another policy would have chosen the same.
inline bool IsByCost(DecisionReason reason) {
  return reason != DecisionReason::kPinned && reason != DecisionReason::kSession &&
         reason != DecisionReason::kRendezvous;
}

// One candidate's terms. All are in blocks (doubles: tiers weigh fractions); docs/routing.md#cost
// has the formula.
struct CandidateCost {
  Target target;
  double device_overlap_blocks = 0;     // contiguous from the start, on device
  double host_overlap_blocks = 0;       // further blocks on host memory
  double disk_overlap_blocks = 0;       // further blocks on disk or external
  double shared_overlap_blocks = 0;     // shared-cache hits beyond the device prefix
  double effective_overlap_blocks = 0;  // tier-weighted; the figure of the hit metrics
  double credit_blocks = 0;             // what is subtracted for overlap
  double raw_prefill_blocks = 0;        // pending prefill work incl. this prompt, before credit
  double prefill_cost_blocks = 0;       // after credit, clamp and scale
  double decode_blocks = 0;             // active + additional, after credit on the decode branch
  double request_cost_blocks = 0;       // decode_active_request_weight * active requests
  double taint_multiplier = 1.0;
  double cost_blocks = 0;              // what is compared
  uint64_t active_prefill_tokens = 0;  // load inputs, as seen under the lock
  double active_decode_blocks = 0;
  uint64_t additional_decode_blocks = 0;
  uint64_t active_requests = 0;
};

// What a decision knows of its candidates. Immutable, so it may be read by any thread.
class CandidateSource {
 public:
  virtual ~CandidateSource() = default;
  virtual size_t size() const = 0;
  // The terms of candidate i, i < size(), by the function and from the inputs that gave the cost
  // that was compared: equal to the bit, whenever it is asked.
  virtual CandidateCost At(size_t i) const = 0;
  virtual uint64_t bytes() const = 0;  // of memory
};

// Candidates to read, like a vector of CandidateCost whose elements are worked out when looked at:
// most decisions are never asked why. A copy shares what it reads from.
class CandidateList {
 public:
  class Iterator {
   public:
    using iterator_category = std::input_iterator_tag;
    using value_type = CandidateCost;
    using difference_type = std::ptrdiff_t;
    using reference = CandidateCost;
    class pointer {
     public:
      explicit pointer(CandidateCost cost) : cost_(cost) {}
      const CandidateCost* operator->() const { return &cost_; }

     private:
      CandidateCost cost_;
    };

    Iterator(const CandidateSource* source, size_t i) : source_(source), i_(i) {}
    CandidateCost operator*() const { return source_->At(i_); }
    pointer operator->() const { return pointer(source_->At(i_)); }
    Iterator& operator++() {
      ++i_;
      return *this;
    }
    Iterator operator++(int) { return {source_, i_++}; }
    friend bool operator==(const Iterator&, const Iterator&) = default;

   private:
    const CandidateSource* source_;
    size_t i_;
  };

  CandidateList() = default;
  explicit CandidateList(std::shared_ptr<const CandidateSource> source)
      : source_(std::move(source)) {}

  size_t size() const { return source_ ? source_->size() : 0; }
  bool empty() const { return size() == 0; }
  uint64_t bytes() const { return source_ ? source_->bytes() : 0; }
  CandidateCost operator[](size_t i) const { return source_->At(i); }
  Iterator begin() const { return {source_.get(), 0}; }
  Iterator end() const { return {source_.get(), size()}; }

 private:
  std::shared_ptr<const CandidateSource> source_;
};

inline constexpr size_t kMaxDetailedCandidates = 64;
inline constexpr size_t kBestCandidates = 32;

// The candidates left out of `candidates` when there were more than kMaxDetailedCandidates.
struct CandidateSummary {
  uint32_t count = 0;
  double min_cost_blocks = 0, max_cost_blocks = 0, mean_cost_blocks = 0;
};

// Why workers were no candidates, in counts.
struct FilterCounts {
  uint32_t other_role = 0;
  uint32_t not_allowed = 0;
  uint32_t excluded = 0;
  uint32_t draining = 0;
  uint32_t overloaded = 0;
  uint32_t not_pinned = 0;
  uint32_t taints = 0;           // without a required one
  uint32_t no_lora_replica = 0;  // declares its adapters, and the request's is not among them
  uint32_t ejected = 0;  // also if they were the candidates all the same, nobody else being left
};

// Why one target was no candidate: the first of these that speaks against it.
enum class FilterReason : uint8_t {
  kOtherRole,
  kNotPinned,
  kNotAllowed,
  kExcluded,
  kDraining,
  kTaints,
  kNoLoraReplica,
  kOverloaded,
  kEjected,
};
std::string_view FilterReasonName(FilterReason reason);

struct FilteredTarget {
  Target target;
  FilterReason reason = FilterReason::kNotAllowed;
  double device_overlap_blocks = 0;  // what was out of reach there
};

inline constexpr size_t kMaxFilteredTargets = 64;

// What the costs of a decision were computed with: configuration with the request's overrides
// applied, and the one input of the formula that is the same for all candidates. With a
// CandidateCost everything docs/routing.md#cost needs.
struct DecisionWeights {
  CostWeights cost;
  bool track_prefill_tokens = true;
  bool assume_kv_reuse = true;
  uint64_t least_active_prefill_tokens =
      0;                     // over the candidates; the credit decay measures from it
  bool decode_pool = false;  // whether the costs are those of a pool that only decodes
};

// What the shadow policy (RouterConfig::shadow) would have chosen.
struct ShadowChoice {
  Target target;        // the chosen one if the shadow's costs do not speak against it
  bool agrees = false;  // it is the chosen one
  double effective_overlap_blocks = 0;  // there, tiers weighted as for the choice that was made
  // How much more the choice made costs than this one by the shadow's costs, and this one than the
  // choice made by the costs in force; 0 where sampling took the dearer one.
  double shadow_regret_blocks = 0;
  double live_regret_blocks = 0;
};

struct RouteDecision {
  // Where.
  Target target;
  WorkerRole role = WorkerRole::kAggregated;  // of the target's worker
  Incarnation incarnation{};
  std::string address;
  Plan plan = Plan::kLocal;
  DecisionReason reason = DecisionReason::kLowestCost;
  BookingId booking = kNoBooking;  // kNoBooking for advice
  bool booked = false;
  RequestPhase leg = RequestPhase::kWhole;  // what the target does of the request
  // Of a fixed plan: that of the decode target, named in planning->legs.
  BookingId decode_booking = kNoBooking;
  SessionPlacement session = {};
  // Null: one leg, since there are no prefill workers and nothing to migrate by.
  std::shared_ptr<const Planning> planning = nullptr;

  // The prompt, measured.
  uint64_t isl_tokens = 0;
  uint32_t block_size_tokens = 0;
  uint64_t isl_blocks =
      0;  // ceil(isl_tokens / block size): the denominator of Dynamo's hit metrics
  uint64_t full_blocks = 0;  // floor: what can be cached at all
  bool is_eagle = false;     // how the blocks were named, with block_size_tokens: BlockNaming
  std::optional<TokenId> image_token_id;

  // The overlap on the chosen target.
  double effective_overlap_blocks = 0;  // keeps its fraction
  uint64_t overlap_blocks = 0;          // rounded half away from zero, as Dynamo reports it
  uint64_t expected_engine_hit_tokens =
      0;  // what the engine will count: capped at floor((isl - 1) / block) blocks
  // The best overlap among all targets of the partition, eligible or not, and where.
  double best_overlap_blocks = 0;
  std::optional<Target> best_overlap_target;
  // The best effective overlap among the candidates, and where (the chosen target if it is among
  // the best). What the choice gave up of it for the sake of load: best available - chosen, in
  // blocks, >= 0. With a pin nothing else was available, so nothing is given up.
  double best_available_overlap_blocks = 0;
  std::optional<Target> best_available_overlap_target;
  double regret_blocks = 0;

  // Why.
  CandidateList
      candidates;  // ascending cost when truncated; else in target order. See DecisionDetail
  uint32_t candidate_count = 0;
  CandidateSummary omitted;
  FilterCounts filtered;
  std::vector<FilteredTarget>
      filtered_targets;  // ascending target, the first kMaxFilteredTargets; kFull only
  DecisionWeights weights;
  uint32_t tie_size = 1;
  double temperature = 0;
  double draw =
      0;  // the uniform number in [0, 1) used for the tie or the sample; 0 if none was drawn
  // The configuration it was made with, as Router::Reconfigure counts them.
  uint64_t config_generation = 0;
  // Absent: there is no shadow policy, or there was nothing to choose.
  std::optional<ShadowChoice> shadow;
  std::chrono::nanoseconds waited{};  // in the queue
};

}  // namespace kvrouter

#endif  // KVROUTER_DECISION_H_
