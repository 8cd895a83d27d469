#ifndef KVROUTER_CTL_REPLAY_REPLAY_TOTALS_H_
#define KVROUTER_CTL_REPLAY_REPLAY_TOTALS_H_

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "kvrouter/decision_record.h"

namespace kvrouter::ctl {

// What a replay says of many decisions together. Each decision is made again from the loads and
// caches it was recorded with: the totals tell what the changed settings would do at each moment of
// that run, not where the fleet would have gone with them. What a pin, a session's binding or its
// rendezvous decided stays as it was, and is counted apart.
//
// Thread-compatible. Memory: the targets, and the decisions that are shown.
class ReplayTotals {
 public:
  ReplayTotals(PolicyChange change, size_t shown) : change_(change), shown_(shown) {}

  void Add(const DecisionRecord& record);

  uint64_t moved() const { return moved_; }
  uint64_t replayed() const { return replayed_; }

  std::string Text() const;
  std::string Json() const;

 private:
  struct Moved {
    std::string request_id;
    std::string model_name;
    Target from;
    Target to;
    double from_overlap_blocks = 0, to_overlap_blocks = 0;
    double from_cost_blocks = 0, to_cost_blocks = 0;
  };
  // Uncached prompt tokens that a target got.
  struct Prefill {
    double recorded_tokens = 0;
    double new_tokens = 0;
  };
  std::string KeptText() const;
  // The most loaded target's tokens over the mean; 0 if there are none.
  double MaxOverMean(double Prefill::*tokens) const;

  const PolicyChange change_;
  const size_t shown_;
  uint64_t records_ = 0;
  uint64_t replayed_ = 0;
  uint64_t moved_ = 0;
  // Replayed, but no cost decided them, so no setting moves them: by reason.
  std::map<DecisionReason, uint64_t> kept_;
  double recorded_overlap_blocks_ = 0, new_overlap_blocks_ = 0;
  double recorded_cost_blocks_ = 0, new_cost_blocks_ = 0;
  std::map<Target, Prefill> prefill_;  // of all candidates
  std::vector<Moved> first_moved_;
};

}  // namespace kvrouter::ctl

#endif  // KVROUTER_CTL_REPLAY_REPLAY_TOTALS_H_
