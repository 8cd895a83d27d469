#ifndef KVROUTER_DECISION_SINK_H_
#define KVROUTER_DECISION_SINK_H_

#include "kvrouter/decision.h"

namespace kvrouter {

// Told of every decision: exactly once per request when it books, and once per advice
// (decision.booked == false, which hit metrics ignore). Implemented by the metrics and the decision
// log.
//
// Thread safety: called concurrently, on the thread that decided, never under a lock of the core.
// Must not block.
class DecisionSink {
 public:
  virtual ~DecisionSink() = default;
  virtual void OnDecision(const RouteRequest& request, const RouteDecision& decision) = 0;
};

}  // namespace kvrouter

#endif  // KVROUTER_DECISION_SINK_H_
