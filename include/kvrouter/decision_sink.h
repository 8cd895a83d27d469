#ifndef KVROUTER_DECISION_SINK_H_
#define KVROUTER_DECISION_SINK_H_

#include <span>

#include "kvrouter/decision.h"
#include "kvrouter/types.h"

namespace kvrouter {

// Told of every decision: exactly once per request when it books, and once per advice
// (decision.booked == false, which hit metrics ignore). Implemented by the metrics.
//
// Thread safety: called concurrently, on the thread that decided, never under a lock of the core.
// Must not block.
class DecisionSink {
 public:
  virtual ~DecisionSink() = default;
  virtual void OnDecision(const RouteRequest& request, const RouteDecision& decision) = 0;
};

// All that it takes to make a decision again (decision_record.h). Borrowed for the call.
struct DecisionFacts {
  const RouteRequest& request;
  const RouteDecision& decision;
  const CandidateList& candidates;                // all of them, ascending target
  std::span<const SequenceHash> sequence_hashes;  // of the prompt's full blocks
};

// As DecisionSink, of the same decisions; separate because gathering all candidates costs something
// that nobody pays for who does not record. Implemented by the decision log.
class DecisionRecorder {
 public:
  virtual ~DecisionRecorder() = default;
  virtual void Record(const DecisionFacts& facts) = 0;
};

}  // namespace kvrouter

#endif  // KVROUTER_DECISION_SINK_H_
