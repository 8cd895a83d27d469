#ifndef KVROUTER_CORE_SCHEDULE_CANDIDATE_DETAIL_H_
#define KVROUTER_CORE_SCHEDULE_CANDIDATE_DETAIL_H_

#include <cstddef>
#include <vector>

#include "core/schedule/best_candidates.h"
#include "core/schedule/scheduler.h"
#include "kvrouter/config.h"
#include "kvrouter/decision.h"

namespace kvrouter {

// Reused by a thread from decision to decision.
struct DetailBuffers {
  BestCandidates split;
  std::vector<double> other_costs;
};

// Fills the decision's candidates, candidate_count and omitted from the table, after the lock. The
// decision keeps the inputs that were scored; their terms are computed when they are read.
//
// kFull: all candidates in target order while they are at most kMaxDetailedCandidates; else the
// best kBestCandidates in ascending cost, always with the chosen one among them (first among its
// equals, else last), and a summary of the rest. kWinner: the chosen one and a summary of the rest.
// The table stays readable.
void DescribeCandidates(CandidateTable* table, size_t chosen, DecisionDetail detail,
                        DetailBuffers* buffers, RouteDecision* decision);

// All candidates in target order, however many there are: a view of the table,
// which must outlive it unchanged.
class TableCandidates final : public CandidateSource {
 public:
  explicit TableCandidates(const CandidateTable& table) : table_(table) {}
  size_t size() const override { return table_.seen.size(); }
  CandidateCost At(size_t i) const override {
    return ScoreSeen(table_.seen[i], table_.context, table_.LowerOf(i),
                     table_.TaintMultiplierOf(i));
  }
  uint64_t bytes() const override { return 0; }

 private:
  const CandidateTable& table_;
};

}  // namespace kvrouter

#endif  // KVROUTER_CORE_SCHEDULE_CANDIDATE_DETAIL_H_
