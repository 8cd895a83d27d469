#ifndef KVROUTER_CORE_PLAN_MIGRATION_PLANNER_H_
#define KVROUTER_CORE_PLAN_MIGRATION_PLANNER_H_

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "absl/container/inlined_vector.h"
#include "core/plan/rule_check.h"
#include "kvrouter/types.h"
#include "kvrouter/worker.h"

namespace kvrouter {

// Whether the target of a request should pull the prompt's blocks from another worker that holds
// more of them, instead of computing them, and from which ("decode to decode" migration). Pure: the
// caller looks up what the planner asks for.
//
//   migratable = trunc(best overlap of any worker * block size)
//   migratable < min_tokens? ── no plan. Else the source is whoever has that overlap; nobody: the
//   session's kv_home.
//
// Refusals in this order, each by its own name; the first five are the fork's:
//
//   off                     the mode
//   prefill_leg             the leg computes the prompt for somebody else
//   below_min_tokens        not worth the handshake
//   no_source               nobody holds it
//   source_is_target        the same worker, whatever the rank
//   has_prefill_result      the blocks come from elsewhere already
//   source_gone             not registered any more
//   source_cannot_produce   its kv_role is not producer or both
//   target_cannot_consume   its kv_role is not consumer or both
//   source_overloaded       it would be asked for work on top
//   engine_version_differs  blocks of other versions may be laid out otherwise
//   block_size_differs
//   no_gain                 the target holds almost as much already
//
// An optimisation never fails a request: without a plan, or when a leg of it fails, the target
// computes the prompt.
//
// Parity: the fork's D->D migration: mode, floor, source, kv_home. It tests none of the refusals
// from source_gone on. Measured there: 0.46x at 9k, 1.29x at 24k, 2.5x at 64k tokens; hence the
// floor.

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
};

// What the planner asks of a worker. Borrowed.
struct MigrationPeer {
  Target target;
  double overlap_blocks = 0;  // of this prompt, weighted by tier
  bool alive = true;          // registered; a draining one still holds its blocks
  bool overloaded = false;
  KvRole kv_role = KvRole::kNone;
  std::string_view engine_version = {};  // empty: not declared
  uint32_t block_size_tokens = 1;        // > 0
};

struct MigrationInput {
  bool prefill_leg = false;
  bool has_prefill_result = false;
  bool has_session = false;
  MigrationPeer target;  // chosen, booked
  // Who has the most overlap (> 0) of all workers of the partition, eligible or not.
  std::optional<MigrationPeer> best_overlap = {};
  std::optional<MigrationPeer> kv_home = {};  // of the session
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
  kPlanned,
};
inline constexpr int kMigrationOutcomeCount = 14;

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
  absl::InlinedVector<RuleCheck, 2> checks;

  int64_t GainTokens() const {
    return static_cast<int64_t>(migratable_tokens) - static_cast<int64_t>(target_tokens);
  }
};

MigrationPlan PlanMigration(const MigrationConfig& config, const MigrationInput& input);

// One line for logs and explanations.
std::string DescribeMigration(const MigrationPlan& plan);

}  // namespace kvrouter

#endif  // KVROUTER_CORE_PLAN_MIGRATION_PLANNER_H_
