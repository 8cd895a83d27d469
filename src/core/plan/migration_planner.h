#ifndef KVROUTER_CORE_PLAN_MIGRATION_PLANNER_H_
#define KVROUTER_CORE_PLAN_MIGRATION_PLANNER_H_

#include <cstdint>
#include <optional>
#include <string_view>

#include "kvrouter/plan.h"
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
//   transfer_too_dear       an idle source would not be sooner than the target computing it, either
//   source_too_busy         with what the source has to compute first it would not
//
// The last two need prices (prefill_tokens_per_s; none by default):
//
//   compute  = (isl - what the target holds) / prefill_tokens_per_s
//   transfer = (isl - what the source holds) / prefill_tokens_per_s          the source's step, and
//            + full blocks that the target lacks * transfer_us_per_block     the blocks' way
//   wait     = the source's pending prefill tokens / prefill_tokens_per_s
//
//   transfer >= compute ── transfer_too_dear;  wait + transfer >= compute ── source_too_busy
//
// What the target itself has to compute first is on neither side: it waits for that either way,
// though blocks may be under way meanwhile. So a pull that is close is refused.
//
// An optimisation never fails a request: without a plan, or when a leg of it fails, the target
// computes the prompt.
//
// Parity: the fork's D->D migration: mode, floor, source, kv_home. It tests none of the refusals
// from source_gone on, and knows no prices. Measured there: 0.46x at 9k, 1.29x at 24k, 2.5x at 64k
// tokens; hence the floor.

// What the planner asks of a worker. Borrowed.
struct MigrationPeer {
  Target target;
  double overlap_blocks = 0;  // of this prompt, weighted by tier
  bool alive = true;          // registered; a draining one still holds its blocks
  bool overloaded = false;
  uint64_t pending_prefill_tokens = 0;  // booked on this rank and not computed yet
  KvRole kv_role = KvRole::kNone;
  std::string_view engine_version = {};  // empty: not declared
  uint32_t block_size_tokens = 1;        // > 0
};

struct MigrationInput {
  bool prefill_leg = false;
  bool has_prefill_result = false;
  bool has_session = false;
  uint64_t isl_tokens = 0;
  MigrationPeer target;  // chosen, booked
  // Who has the most overlap (> 0) of all workers of the partition, eligible or not.
  std::optional<MigrationPeer> best_overlap = {};
  std::optional<MigrationPeer> kv_home = {};  // of the session
};

MigrationPlan PlanMigration(const MigrationConfig& config, const MigrationInput& input);

}  // namespace kvrouter

#endif  // KVROUTER_CORE_PLAN_MIGRATION_PLANNER_H_
