#include "core/schedule/candidate_detail.h"

#include <algorithm>
#include <cstdint>
#include <memory>
#include <numeric>
#include <vector>

namespace kvrouter {
namespace {

// Candidates as they were seen, and what they were scored with.
class KeptCandidates final : public CandidateSource {
 public:
  KeptCandidates(const CandidateTable& table, const std::vector<uint32_t>& shown)
      : context_(table.context) {
    seen_.reserve(shown.size());
    for (const uint32_t i : shown) seen_.push_back(table.seen[i]);
  }

  size_t size() const override { return seen_.size(); }
  CandidateCost At(size_t i) const override { return ScoreSeen(seen_[i], context_); }
  uint64_t bytes() const override {
    return sizeof(*this) + seen_.capacity() * sizeof(SeenCandidate);
  }

 private:
  ScoreContext context_;
  std::vector<SeenCandidate> seen_;
};

// Indexes of the candidates to show, in the order to show them.
std::vector<uint32_t> ShownCandidates(const std::vector<double>& costs, uint32_t chosen,
                                      DecisionDetail detail) {
  if (detail == DecisionDetail::kWinner) return {chosen};
  std::vector<uint32_t> shown(costs.size());
  std::iota(shown.begin(), shown.end(), 0);
  if (shown.size() <= kMaxDetailedCandidates) return shown;
  const auto better = [&](uint32_t a, uint32_t b) {
    if (costs[a] != costs[b]) return costs[a] < costs[b];
    if ((a == chosen) != (b == chosen)) return a == chosen;
    return a < b;
  };
  const auto end = shown.begin() + kBestCandidates;
  std::partial_sort(shown.begin(), end, shown.end(), better);
  shown.erase(end, shown.end());
  if (std::find(shown.begin(), shown.end(), chosen) == shown.end()) shown.back() = chosen;
  return shown;
}

CandidateSummary Summarise(const std::vector<double>& costs, const std::vector<uint32_t>& shown) {
  std::vector<bool> is_shown(costs.size(), false);
  for (const uint32_t i : shown) is_shown[i] = true;
  CandidateSummary summary;
  for (size_t i = 0; i < costs.size(); ++i) {
    if (is_shown[i]) continue;
    const double cost = costs[i];
    const bool first = summary.count == 0;
    summary.min_cost_blocks = first ? cost : std::min(summary.min_cost_blocks, cost);
    summary.max_cost_blocks = first ? cost : std::max(summary.max_cost_blocks, cost);
    ++summary.count;
    // Running mean: a sum of huge but legal costs would overflow.
    summary.mean_cost_blocks += (cost - summary.mean_cost_blocks) / summary.count;
  }
  return summary;
}

}  // namespace

void DescribeCandidates(const CandidateTable& table, size_t chosen, DecisionDetail detail,
                        RouteDecision* decision) {
  const auto shown = ShownCandidates(table.costs, static_cast<uint32_t>(chosen), detail);
  decision->candidate_count = static_cast<uint32_t>(table.costs.size());
  decision->candidates = CandidateList(std::make_shared<const KeptCandidates>(table, shown));
  if (shown.size() < table.costs.size()) decision->omitted = Summarise(table.costs, shown);
}

}  // namespace kvrouter
