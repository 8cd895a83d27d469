#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <random>
#include <vector>

#include "core/schedule/pick.h"
#include "core/schedule/scorer.h"

namespace kvrouter {
namespace {

// The formula of dynamo-core 4.1, line by line, in its own words; shares nothing with
// ScoreCandidate.
double NaiveCost(const CandidateInput& w, const ScoreContext& r) {
  const double B = r.block_size_tokens;
  const double isl = static_cast<double>(r.isl_tokens);
  const double request_blocks = std::ceil(isl / B);
  const CostWeights& k = r.weights.cost;
  const double effective_overlap_blocks = w.device_overlap_blocks +
                                          k.host_cache_hit_weight * w.host_overlap_blocks +
                                          k.disk_cache_hit_weight * w.disk_overlap_blocks;
  const double cached = std::round(effective_overlap_blocks * B);
  const double uncached = isl - std::min(cached, isl);
  const bool track_prefill = r.weights.track_prefill_tokens;
  const double active_prefill = static_cast<double>(w.active_prefill_tokens);
  const double raw_prefill_tokens = track_prefill ? active_prefill + uncached + cached : 0;
  const double raw_prefill_blocks = raw_prefill_tokens / B;
  const double least = static_cast<double>(r.least_active_prefill_tokens);
  const double decay =
      track_prefill && k.overlap_score_credit_decay > 0
          ? 1 / (1 + k.overlap_score_credit_decay * ((active_prefill - least) / B) / request_blocks)
          : 1;
  const double credit_blocks = k.overlap_score_credit * decay * w.device_overlap_blocks +
                               k.host_cache_hit_weight * w.host_overlap_blocks +
                               k.disk_cache_hit_weight * w.disk_overlap_blocks +
                               k.shared_cache_multiplier * w.shared_overlap_blocks;
  const double decode_blocks =
      w.active_decode_blocks + static_cast<double>(w.additional_decode_blocks);
  const double req_cost = k.decode_active_request_weight * static_cast<double>(w.active_requests);
  double logit = 0;
  if (r.decode_pool && !track_prefill && k.overlap_score_credit > 0) {
    logit = std::max(0.0, decode_blocks - credit_blocks) + req_cost;
  } else {
    logit = k.prefill_load_scale * std::max(0.0, raw_prefill_blocks - credit_blocks) +
            decode_blocks + req_cost;
  }
  return logit * w.taint_multiplier;
}

class Draws {
 public:
  explicit Draws(uint64_t seed) : random_(seed) {}

  uint64_t Whole(uint64_t bound) { return random_() % bound; }
  double Weight(double max) {
    return Whole(3) == 0 ? 0 : static_cast<double>(Whole(1001)) / 1000 * max;
  }
  bool Coin() { return Whole(2) == 0; }

  ScoreContext AContext() {
    ScoreContext context;
    context.weights.cost = {.overlap_score_credit = Weight(3),
                            .overlap_score_credit_decay = Weight(2),
                            .prefill_load_scale = Weight(20),
                            .decode_active_request_weight = Weight(5),
                            .host_cache_hit_weight = Weight(1),
                            .disk_cache_hit_weight = Weight(1),
                            .shared_cache_multiplier = Weight(1)};
    context.weights.track_prefill_tokens = Coin();
    context.decode_pool = Coin();
    context.block_size_tokens = uint32_t{1} << Whole(9);
    context.isl_tokens = 1 + Whole(20'000);
    return context;
  }

  CandidateInput AnInput(const ScoreContext& context) {
    const uint64_t blocks = context.isl_tokens / context.block_size_tokens + 1;
    return {.device_overlap_blocks = static_cast<double>(Whole(blocks)),
            .host_overlap_blocks = static_cast<double>(Whole(blocks)),
            .disk_overlap_blocks = static_cast<double>(Whole(blocks)),
            .shared_overlap_blocks = static_cast<double>(Whole(blocks)),
            .active_prefill_tokens = Whole(100'000),
            .active_decode_blocks = static_cast<double>(Whole(5000)),
            .additional_decode_blocks = Whole(blocks),
            .active_requests = Whole(100),
            .taint_multiplier = Coin() ? 1 : TaintMultiplier(Weight(4) - 2)};
  }

 private:
  std::mt19937_64 random_;
};

TEST(ScorerPropertyTest, AgreesWithTheFormulaAsWritten) {
  for (uint64_t seed = 0; seed < 20'000; ++seed) {
    Draws draws(seed);
    ScoreContext context = draws.AContext();
    std::vector<CandidateInput> inputs;
    for (uint64_t i = 0; i < 1 + seed % 8; ++i) inputs.push_back(draws.AnInput(context));
    context.least_active_prefill_tokens = inputs[0].active_prefill_tokens;
    for (const auto& input : inputs) {
      context.least_active_prefill_tokens =
          std::min(context.least_active_prefill_tokens, input.active_prefill_tokens);
    }
    for (const auto& input : inputs) {
      const CandidateCost cost = ScoreCandidate(input, context);
      const double expected = NaiveCost(input, context);
      ASSERT_NEAR(cost.cost_blocks, expected, 1e-9 * std::max(1.0, expected)) << "seed=" << seed;
      ASSERT_GE(cost.cost_blocks, 0) << "seed=" << seed;
      // The terms that are shown add up to what was compared.
      ASSERT_NEAR(cost.cost_blocks,
                  (cost.prefill_cost_blocks + cost.decode_blocks + cost.request_cost_blocks) *
                      cost.taint_multiplier,
                  1e-9 * std::max(1.0, expected))
          << "seed=" << seed;
    }
  }
}

TEST(PickPropertyTest, TheLowestCostWinsWhateverTheCosts) {
  UniformSource random(7);
  for (uint64_t seed = 0; seed < 20'000; ++seed) {
    Draws draws(seed);
    std::vector<double> costs(1 + draws.Whole(12));
    for (double& cost : costs) cost = static_cast<double>(draws.Whole(6));  // ties are the point
    const Pick pick = PickLowestCost(costs, random);
    const double lowest = *std::min_element(costs.begin(), costs.end());
    ASSERT_EQ(costs.at(pick.index), lowest) << "seed=" << seed;
    ASSERT_EQ(pick.tie_size, std::count(costs.begin(), costs.end(), lowest)) << "seed=" << seed;
  }
}

TEST(PickPropertyTest, SoftmaxFrequenciesStayWithinBounds) {
  constexpr int kDraws = 20'000;
  for (uint64_t seed = 0; seed < 20; ++seed) {
    SCOPED_TRACE(fmt::format("seed={}", seed));
    Draws draws(seed);
    std::vector<double> costs(2 + draws.Whole(6));
    for (double& cost : costs) cost = static_cast<double>(draws.Whole(1000)) - 300;
    const double temperature = 0.1 + draws.Weight(3);
    const auto [min, max] = std::minmax_element(costs.begin(), costs.end());
    std::vector<double> p;
    double total = 0;
    for (const double cost : costs) {
      p.push_back(std::exp(-(cost - *min) / ((*max - *min) * temperature)));
      total += p.back();
    }
    std::vector<int> counts(costs.size(), 0);
    UniformSource random(seed);
    for (int i = 0; i < kDraws; ++i) ++counts[PickBySoftmax(costs, temperature, random).index];
    for (size_t i = 0; i < costs.size(); ++i) {
      const double q = p[i] / total;
      EXPECT_NEAR(counts[i], kDraws * q, 6 * std::sqrt(kDraws * q * (1 - q)) + 1) << i;
    }
  }
}

TEST(PickPropertyTest, TiesAreUniformByChiSquare) {
  constexpr int kDraws = 50'000;
  for (uint64_t ties = 2; ties <= 10; ++ties) {
    std::vector<double> costs(ties, 1.0);
    std::vector<int> counts(ties, 0);
    UniformSource random(ties);
    for (int i = 0; i < kDraws; ++i) ++counts[PickLowestCost(costs, random).index];
    const double expected = static_cast<double>(kDraws) / static_cast<double>(ties);
    double chi_square = 0;
    for (const int count : counts) chi_square += (count - expected) * (count - expected) / expected;
    // Mean k-1, deviation sqrt(2(k-1)): 6 deviations above is far beyond p = 0.0001 for every k
    // here.
    const double degrees = static_cast<double>(ties - 1);
    EXPECT_LT(chi_square, degrees + 6 * std::sqrt(2 * degrees)) << "ties=" << ties;
  }
}

}  // namespace
}  // namespace kvrouter
