#ifndef KVROUTER_CORE_SCHEDULE_BEST_CANDIDATES_H_
#define KVROUTER_CORE_SCHEDULE_BEST_CANDIDATES_H_

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "kvrouter/decision.h"

namespace kvrouter {

// Splits candidates into the best and the rest. "Better" is: lower cost, then the chosen one, then
// the earlier one; so the best are the same set whatever the method. The chosen one is always among
// them, in place of the last if it is not good enough.
//
// Sorting, even partially, costs several times what scoring the candidates does. Here a threshold
// guessed from a sample separates the few that matter in one pass without branches.
//
// Keeps its buffers between calls. Thread-compatible.
class BestCandidates {
 public:
  // REQUIRES: 0 < best < costs.size(), chosen < costs.size(), costs finite.
  void Split(std::span<const double> costs, size_t best, uint32_t chosen);

  std::span<const uint32_t> best() const { return best_; }              // indexes, in no order
  std::span<const double> other_costs() const { return other_costs_; }  // in no order

 private:
  // A cost that about twice as many as wanted do not exceed; a guess.
  double GuessThreshold(std::span<const double> costs, size_t best);
  // The cost of the last of the best.
  double ExactThreshold(std::span<const double> costs, size_t best);
  void TakeFromBelow(std::span<const double> costs, size_t best, uint32_t chosen);
  void TakeAllBelowAndFillUp(std::span<const double> costs, size_t best, uint32_t chosen,
                             double threshold);
  void InsistOn(uint32_t chosen, std::span<const double> costs);

  std::vector<uint32_t> best_;
  std::vector<double> other_costs_;
  std::vector<double> scratch_;
};

// Of any costs; their sum may be too large for a double.
CandidateSummary Summarise(std::span<const double> costs);

}  // namespace kvrouter

#endif  // KVROUTER_CORE_SCHEDULE_BEST_CANDIDATES_H_
