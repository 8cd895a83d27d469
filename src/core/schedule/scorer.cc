#include "core/schedule/scorer.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace kvrouter {
namespace {

// std::round of what is not negative, without the call.
double RoundedTokens(double tokens) {
  constexpr double kAllWholeFrom = 0x1p52;
  if (!(tokens < kAllWholeFrom)) return tokens;
  const auto whole = static_cast<double>(static_cast<int64_t>(tokens));
  return tokens - whole >= 0.5 ? whole + 1 : whole;
}

[[gnu::always_inline]] inline double RawPrefillBlocks(const CandidateInput& in,
                                                      double effective_overlap_blocks,
                                                      const ScoreContext& context) {
  if (!context.weights.track_prefill_tokens) return 0;
  const double block_tokens = context.block_size_tokens;
  const double cached_tokens = RoundedTokens(effective_overlap_blocks * block_tokens);
  const double isl_tokens = static_cast<double>(context.isl_tokens);
  const double uncached_tokens = isl_tokens - std::min(cached_tokens, isl_tokens);
  return (static_cast<double>(in.active_prefill_tokens) + uncached_tokens + cached_tokens) /
         block_tokens;
}

// How much of the device credit is left on a worker that has more prefill to do than the least busy
// one.
[[gnu::always_inline]] inline double CreditDecay(const CandidateInput& in,
                                                 const ScoreContext& context) {
  const double rate = context.weights.cost.overlap_score_credit_decay;
  // An empty prompt has nothing to gain from any cache, and no length to measure the excess by.
  if (!context.weights.track_prefill_tokens || rate <= 0 || context.isl_tokens == 0) return 1;
  const double block_tokens = context.block_size_tokens;
  const double request_blocks = std::ceil(static_cast<double>(context.isl_tokens) / block_tokens);
  const uint64_t excess_tokens =
      in.active_prefill_tokens -
      std::min(in.active_prefill_tokens, context.least_active_prefill_tokens);
  return 1 / (1 + rate * (static_cast<double>(excess_tokens) / block_tokens) / request_blocks);
}

// Inlined into everything that scores, so that it is one function whoever asks, and so that a
// caller who wants the cost alone does not write down the terms.
[[gnu::always_inline]] inline CandidateCost Score(const CandidateInput& in,
                                                  const ScoreContext& context) {
  const CostWeights& weights = context.weights.cost;
  CandidateCost out;
  out.target = in.target;
  out.device_overlap_blocks = in.device_overlap_blocks;
  out.host_overlap_blocks = in.host_overlap_blocks;
  out.disk_overlap_blocks = in.disk_overlap_blocks;
  out.shared_overlap_blocks = in.shared_overlap_blocks;
  out.active_prefill_tokens = in.active_prefill_tokens;
  out.active_decode_blocks = in.active_decode_blocks;
  out.additional_decode_blocks = in.additional_decode_blocks;
  out.active_requests = in.active_requests;
  out.taint_multiplier = in.taint_multiplier;

  const double lower_tiers = weights.host_cache_hit_weight * in.host_overlap_blocks +
                             weights.disk_cache_hit_weight * in.disk_overlap_blocks;
  out.effective_overlap_blocks = in.device_overlap_blocks + lower_tiers;
  out.raw_prefill_blocks = RawPrefillBlocks(in, out.effective_overlap_blocks, context);
  out.credit_blocks =
      weights.overlap_score_credit * CreditDecay(in, context) * in.device_overlap_blocks +
      lower_tiers + weights.shared_cache_multiplier * in.shared_overlap_blocks;
  out.decode_blocks = in.active_decode_blocks + static_cast<double>(in.additional_decode_blocks);
  out.request_cost_blocks =
      weights.decode_active_request_weight * static_cast<double>(in.active_requests);

  const bool decode_branch = context.decode_pool && !context.weights.track_prefill_tokens &&
                             weights.overlap_score_credit > 0;
  if (decode_branch) {
    out.decode_blocks = std::max(0.0, out.decode_blocks - out.credit_blocks);
  } else {
    out.prefill_cost_blocks =
        weights.prefill_load_scale * std::max(0.0, out.raw_prefill_blocks - out.credit_blocks);
  }
  const double logit = out.prefill_cost_blocks + out.decode_blocks + out.request_cost_blocks;
  // Huge but legal weights overflow to infinity; costs stay finite so that they can be compared and
  // subtracted.
  out.cost_blocks = std::min(logit * in.taint_multiplier, std::numeric_limits<double>::max());
  return out;
}

[[gnu::always_inline]] inline CandidateInput WrittenOut(const SeenCandidate& seen,
                                                        const ScoreContext& context,
                                                        LowerTierOverlap lower,
                                                        double taint_multiplier) {
  if (context.stated_overlap_blocks) lower = {};
  return {
      .target = seen.target(),
      .device_overlap_blocks = context.stated_overlap_blocks.value_or(seen.device_overlap_blocks),
      .host_overlap_blocks = static_cast<double>(lower.host_blocks),
      .disk_overlap_blocks = static_cast<double>(lower.disk_blocks),
      .shared_overlap_blocks = static_cast<double>(lower.shared_blocks),
      .active_prefill_tokens = seen.active_prefill_tokens(),
      .active_decode_blocks = static_cast<double>(seen.active_decode_blocks),
      .additional_decode_blocks = seen.additional_decode_blocks,
      .active_requests = seen.active_requests(),
      .taint_multiplier = taint_multiplier};
}

template <typename LowerOf, typename MultiplierOf>
CostsSummary ScoreEach(std::span<const SeenCandidate> seen, const ScoreContext& of_request,
                       std::span<double> costs, const LowerOf& lower_of,
                       const MultiplierOf& multiplier_of) {
  const ScoreContext context = of_request;  // a copy that no write to costs can seem to change
  CostsSummary summary;
  for (size_t i = 0; i < seen.size(); ++i) {
    const CandidateCost score =
        Score(WrittenOut(seen[i], context, lower_of(i), multiplier_of(i)), context);
    if (score.effective_overlap_blocks > summary.most_overlap_blocks) {
      summary = {.most_overlap_index = i, .most_overlap_blocks = score.effective_overlap_blocks};
    }
    costs[i] = score.cost_blocks;
  }
  return summary;
}

}  // namespace

CandidateCost ScoreCandidate(const CandidateInput& input, const ScoreContext& context) {
  return Score(input, context);
}

CandidateCost ScoreSeen(const SeenCandidate& seen, const ScoreContext& context,
                        LowerTierOverlap lower, double taint_multiplier) {
  return Score(WrittenOut(seen, context, lower, taint_multiplier), context);
}

CostsSummary ScoreAll(std::span<const SeenCandidate> seen, const ScoreContext& context,
                      std::span<double> costs, std::span<const LowerTierOverlap> lower,
                      std::span<const double> taint_multipliers) {
  const auto none = [](size_t) { return LowerTierOverlap{}; };
  const auto listed = [lower](size_t i) { return lower[i]; };
  if (!taint_multipliers.empty()) {
    const auto multiplier = [taint_multipliers](size_t i) { return taint_multipliers[i]; };
    return lower.empty() ? ScoreEach(seen, context, costs, none, multiplier)
                         : ScoreEach(seen, context, costs, listed, multiplier);
  }
  const auto one = [](size_t) { return 1.0; };
  return lower.empty() ? ScoreEach(seen, context, costs, none, one)
                       : ScoreEach(seen, context, costs, listed, one);
}

double TaintMultiplier(double taint_weight_sum) { return std::exp(-std::tanh(taint_weight_sum)); }

}  // namespace kvrouter
