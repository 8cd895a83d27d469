#ifndef KVROUTER_CORE_SCHEDULE_CANDIDATE_DETAIL_H_
#define KVROUTER_CORE_SCHEDULE_CANDIDATE_DETAIL_H_

#include <cstddef>
#include <vector>

#include "core/schedule/best_candidates.h"
#include "core/schedule/record_memory.h"
#include "core/schedule/scheduler.h"
#include "kvrouter/config.h"
#include "kvrouter/decision.h"

namespace kvrouter {

// Reused by a thread from decision to decision.
struct DetailBuffers {
  RecordMemory memory;
  BestCandidates split;
  std::vector<double> other_costs;
};

// Fills the decision's candidates, candidate_count and omitted from the table, after the lock. The
// decision keeps the inputs that were scored; their terms are computed when they are read.
//
// kFull: all candidates in target order while they are at most kMaxDetailedCandidates; else the
// best kBestCandidates in ascending cost, always with the chosen one among them (first among its
// equals, else last), and a summary of the rest. kWinner: the chosen one and a summary of the rest.
void DescribeCandidates(const CandidateTable& table, size_t chosen, DecisionDetail detail,
                        DetailBuffers* buffers, RouteDecision* decision);

}  // namespace kvrouter

#endif  // KVROUTER_CORE_SCHEDULE_CANDIDATE_DETAIL_H_
