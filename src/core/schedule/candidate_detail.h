#ifndef KVROUTER_CORE_SCHEDULE_CANDIDATE_DETAIL_H_
#define KVROUTER_CORE_SCHEDULE_CANDIDATE_DETAIL_H_

#include <cstddef>

#include "core/schedule/scheduler.h"
#include "kvrouter/config.h"
#include "kvrouter/decision.h"

namespace kvrouter {

// Fills the decision's candidates, candidate_count and omitted from the table, after the lock. The
// terms are computed again from the inputs that were scored, so they are the ones that were
// compared.
//
// kFull: all candidates in target order while they are at most kMaxDetailedCandidates; else the
// best kBestCandidates in ascending cost, always with the chosen one among them (first among its
// equals, else last), and a summary of the rest. kWinner: the chosen one and a summary of the rest.
void DescribeCandidates(const CandidateTable& table, size_t chosen, DecisionDetail detail,
                        RouteDecision* decision);

}  // namespace kvrouter

#endif  // KVROUTER_CORE_SCHEDULE_CANDIDATE_DETAIL_H_
