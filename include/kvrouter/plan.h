#ifndef KVROUTER_PLAN_H_
#define KVROUTER_PLAN_H_

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/container/inlined_vector.h"
#include "kvrouter/types.h"

namespace kvrouter {

// How a request is served once its target is known: prefill there or elsewhere first (the gate),
// blocks computed or pulled (the migration planner), and what the caller sends where (legs). Plain
// data; docs/routing.md has the rules.

// One comparison that a rule made, as an explanation shows it: what, against what, with which
// result. Tokens and blocks are far below 2^53, so a double holds them exactly.
struct RuleCheck {
  enum class Comparison : unsigned char { kLess, kAtLeast, kGreater };

  std::string_view quantity;  // a name with its unit, e.g. "prompt_tokens"; static
  Comparison comparison = Comparison::kLess;
  double value = 0;
  double threshold = 0;
  bool known = true;  // false: no value was at hand, and the rule took the safe way
  bool holds = false;
};

// ---- The gate ----

struct LengthGate {
  enum class Measure : uint8_t {
    kPrompt,    // tokens of the prompt; as the fork
    kUncached,  // minus what the decode worker holds: what would have to be computed
  };

  uint64_t min_remote_prefill_tokens = 0;  // 0: the length gate is off, continuations too
  Measure measure = Measure::kPrompt;
  bool local_continuations = false;
  std::chrono::seconds continuation_window{3600};  // > 0

  friend bool operator==(const LengthGate&, const LengthGate&) = default;
};

struct ConditionalDisagg {
  enum class Policy : uint8_t { kIslBounding, kPrefillLoad, kIslOrLoad };

  bool enabled = false;
  Policy policy = Policy::kIslBounding;
  uint64_t eff_isl_threshold_tokens = 2048;
  double eff_isl_ratio_threshold = 0.7;  // 0..1
  // Share of max_num_batched_tokens; finite, >= 0. The load policies need it; whoever reads the
  // settings puts router_queue_threshold here if there is no value of its own.
  std::optional<double> prefill_busy_threshold = {};
  // Share of a decode worker's blocks; finite, >= 0. Absent: no guard.
  std::optional<double> decode_busy_threshold = {};

  friend bool operator==(const ConditionalDisagg&, const ConditionalDisagg&) = default;
};

struct GateConfig {
  LengthGate length;
  ConditionalDisagg conditional;

  friend bool operator==(const GateConfig&, const GateConfig&) = default;
};

enum class GateRule : uint8_t {
  kNoPrefillPool,  // local
  kShortPrompt,    // local
  kContinuation,   // local
  kFewNewTokens,   // local
  kPrefillBusy,    // local
  kDecodeBusy,     // remote: the guard spoke against what would have been local
  kPrefillPinned,  // remote
  kEmptyPrompt,    // remote
  kNoAdvice,       // remote
  kDefault,        // remote
};
inline constexpr int kGateRuleCount = 10;

// E.g. "short_prompt".
std::string_view GateRuleName(GateRule rule);

struct GateDecision {
  bool remote = false;
  GateRule rule = GateRule::kDefault;
  // What was compared, in order; the last one decided if a comparison did.
  absl::InlinedVector<RuleCheck, 6> checks;
  // A figure that a configured rule needs was not there: the gate works, but half blind.
  bool input_missing = false;
};

// One line for logs and explanations, e.g. "local short_prompt (prompt_tokens 9 < 16384: yes)".
std::string DescribeGate(const GateDecision& decision);

// ---- The migration planner ----

enum class MigrationMode : uint8_t {
  kOff,
  kDry,  // plans, logs and counts; the request is served as if it were off
  kMigrate,
};

struct MigrationConfig {
  MigrationMode mode = MigrationMode::kOff;
  uint64_t min_tokens = 16'384;
  // How much more than the target the source must hold; absent: min_tokens, too.
  std::optional<uint64_t> min_gain_tokens = {};
  // Prompt tokens a second of a worker that has nothing else to do, and microseconds that a block
  // is under way from one to another: a pull that would not be faster than computing is refused. 0
  // tokens a second: nothing is priced.
  uint64_t prefill_tokens_per_s = 0;
  uint64_t transfer_us_per_block = 0;

  friend bool operator==(const MigrationConfig&, const MigrationConfig&) = default;
};

enum class MigrationOutcome : uint8_t {
  kOff,
  kPrefillLeg,
  kBelowMinTokens,
  kNoSource,
  kSourceIsTarget,
  kHasPrefillResult,
  kSourceGone,
  kSourceCannotProduce,
  kTargetCannotConsume,
  kSourceOverloaded,
  kEngineVersionDiffers,
  kBlockSizeDiffers,
  kNoGain,
  kTransferTooDear,
  kSourceTooBusy,
  kPlanned,
};
inline constexpr int kMigrationOutcomeCount = 16;

// E.g. "below_min_tokens".
std::string_view MigrationOutcomeName(MigrationOutcome outcome);

struct MigrationPlan {
  MigrationOutcome outcome = MigrationOutcome::kOff;
  // Act on it: kPlanned, and the mode is kMigrate.
  bool migrate = false;
  std::optional<Target> source;    // of a plan or of a refusal that knows it
  bool source_is_kv_home = false;  // else it has the best overlap
  uint64_t migratable_tokens = 0;
  uint64_t target_tokens = 0;  // what the target holds itself
  // The target is the session's home from now on: the prompt is over the floor. Whatever the
  // outcome, and in dry mode too, which differs in nothing that another request could see: homes
  // are read by the planner alone.
  bool set_kv_home = false;
  absl::InlinedVector<RuleCheck, 4> checks;

  int64_t GainTokens() const {
    return static_cast<int64_t>(migratable_tokens) - static_cast<int64_t>(target_tokens);
  }
};

// One line for logs and explanations.
std::string DescribeMigration(const MigrationPlan& plan);

// ---- Legs ----

enum class LegKind : uint8_t { kServe, kPrefill, kKvSource, kDecode };
// E.g. "kv_source".
std::string_view LegKindName(LegKind kind);

// What a failure of a leg means for the request.
enum class LegFallback : uint8_t {
  kRetryElsewhere,  // the last leg: decide again, without this target
  kServeLocally,    // the target of the decode leg does all, with the original max_tokens
  kRecompute,       // go on with the next leg as if this one had not been planned
  kFail,            // the error is the request's
};
// E.g. "serve_locally".
std::string_view LegFallbackName(LegFallback fallback);

struct LegTarget {
  Target target;
  Incarnation incarnation{};
  std::string address;
};

struct Leg {
  LegKind kind = LegKind::kServe;
  std::optional<LegTarget> where;      // absent: ask again when the leg before it has returned
  std::string request_id;              // to send it under
  std::optional<uint64_t> max_tokens;  // absent: the request's own
  bool kv_migration_source = false;
  LegFallback fallback = LegFallback::kRetryElsewhere;
  // The leg has failed if it has not answered after this long; absent: the caller's affair.
  std::optional<std::chrono::nanoseconds> timeout;
};

struct LegPlan {
  std::vector<Leg> legs;
  // Bookings of the plan are released at this time unless there is a sign of life before.
  MonotonicTime lease_deadline{};
  std::chrono::nanoseconds lease{};  // the same from the decision on
};

// What was thought of besides the target. Immutable, so copies of a decision share it.
struct Planning {
  std::optional<GateDecision> gate;  // absent: this call asks for a leg of its own accord
  // Why a remote prefill that the gate wanted is not planned; empty: it is, or was not wanted.
  std::string prefill_refused;
  std::optional<MigrationPlan> migration;  // absent: the mode is off
  LegPlan legs;
};

}  // namespace kvrouter

#endif  // KVROUTER_PLAN_H_
