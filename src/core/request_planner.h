#ifndef KVROUTER_CORE_REQUEST_PLANNER_H_
#define KVROUTER_CORE_REQUEST_PLANNER_H_

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>

#include "base/mutex.h"
#include "core/affinity/session_key.h"
#include "core/plan/disagg_gate.h"
#include "core/plan/leg_plan.h"
#include "core/plan/migration_planner.h"
#include "core/plan/recent_continuations.h"
#include "core/schedule/scheduler.h"
#include "kvrouter/config.h"
#include "kvrouter/decision.h"
#include "kvrouter/types.h"
#include "kvrouter/worker.h"

namespace kvrouter {

// What Router::Submit does around its picks to make legs of a request: which rules there are, what
// they are told, and what they remember from one request to the next. The rules themselves are pure
// (core/plan).
//
// Thread safety: thread-safe; one mutex, for RecentContinuations.
class RequestPlanner {
 public:
  explicit RequestPlanner(const RouterConfig& config);

  // How long ago the session was here, if it was lately and the gate asks for it. Remembers it if
  // the request books.
  std::optional<std::chrono::nanoseconds> SessionIdle(SessionKey session, uint32_t partition,
                                                      bool book, MonotonicTime now);

  struct Figures {
    uint64_t continuations = 0;
    uint64_t continuations_evicted_total = 0;
  };
  Figures GetFigures() const;

 private:
  mutable Mutex mu_;
  // Null unless the gate asks for it.
  const std::unique_ptr<RecentContinuations> continuations_ ABSL_PT_GUARDED_BY(mu_);
};

// Whether requests of a partition with so many prefill targets have a gate to pass. Without one,
// and with migration off, there is one leg and nothing to explain.
inline bool HasGate(const RouterConfig& config, uint32_t prefill_targets) {
  return prefill_targets > 0 || config.gate.length.min_remote_prefill_tokens > 0 ||
         config.gate.conditional.enabled;
}

// The overrides of a request's decode leg. Parity: Dynamo v1.4.1, whose decode hop shares no blocks
// and counts no prefill, and looks for no overlap unless disaggregation is conditional.
ConfigOverride DecodeLegOverrides(const RouterConfig& config, ConfigOverride overrides);

struct MigrationContext {
  const Placement* placement = nullptr;  // of the target
  uint64_t isl_tokens = 0;
  double target_overlap_blocks = 0;
  uint32_t block_size_tokens = 1;
  bool has_prefill_result = false;
  bool has_session = false;
  // The worker of placement->best_overlap_target; null if it has left.
  std::shared_ptr<const WorkerSpec> best = nullptr;
  bool best_overloaded = false;
  uint64_t best_pending_prefill_tokens = 0;
  std::optional<Target> home = {};
  std::shared_ptr<const WorkerSpec> home_worker = nullptr;
  bool home_overloaded = false;
  uint64_t home_pending_prefill_tokens = 0;
};
MigrationPlan Migrate(const MigrationConfig& config, Target target,
                      const MigrationContext& context);

LegPlanConfig LegConfigOf(const RouterConfig& config);

// What a leg to the worker's rank says of it.
LegTarget LegTargetOf(const Target& target, const WorkerSpec& worker);

}  // namespace kvrouter

#endif  // KVROUTER_CORE_REQUEST_PLANNER_H_
