#ifndef KVROUTER_DAEMON_PLAN_LOG_H_
#define KVROUTER_DAEMON_PLAN_LOG_H_

#include "kvrouter/decision_sink.h"

namespace kvrouter {

// Writes the log lines of gate and migration planner, and passes every decision on. At debug: what
// the gate decided of each booking, and why. At info: each planned migration, dry or not, with the
// marker KVMIGRATE_SPILL, which scripts of the fork's operators count.
//
// Thread safety: thread-safe.
class PlanLog final : public DecisionSink {
 public:
  // `next` outlives it.
  explicit PlanLog(DecisionSink* next) : next_(next) {}

  void OnDecision(const RouteRequest& request, const RouteDecision& decision) override;

 private:
  DecisionSink* const next_;
};

}  // namespace kvrouter

#endif  // KVROUTER_DAEMON_PLAN_LOG_H_
