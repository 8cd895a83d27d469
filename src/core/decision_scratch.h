#ifndef KVROUTER_CORE_DECISION_SCRATCH_H_
#define KVROUTER_CORE_DECISION_SCRATCH_H_

#include <vector>

#include "core/prompt.h"
#include "core/schedule/candidate_detail.h"
#include "core/schedule/scheduler.h"
#include "kvrouter/shared_cache.h"

namespace kvrouter {

// What a thread needs for one decision, reused for its next one.
struct DecisionScratch {
  PromptBuffers prompt;
  std::vector<OverlapMatch> overlaps;
  std::vector<LowerTierMatch> lower_overlaps;
  std::vector<BlockRange> shared_hits;
  CandidateTable candidates;
  DetailBuffers detail;
  std::vector<double> shadow_costs;
};

// The calling thread's, for one call at a time: leases do not nest.
class ScratchLease {
 public:
  ScratchLease() : scratch_(OfThisThread()) {}
  ~ScratchLease();
  ScratchLease(const ScratchLease&) = delete;
  ScratchLease& operator=(const ScratchLease&) = delete;

  DecisionScratch* operator->() const { return scratch_; }
  DecisionScratch* get() const { return scratch_; }

 private:
  static DecisionScratch* OfThisThread();

  DecisionScratch* const scratch_;
};

}  // namespace kvrouter

#endif  // KVROUTER_CORE_DECISION_SCRATCH_H_
