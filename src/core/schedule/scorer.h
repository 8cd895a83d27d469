#ifndef KVROUTER_CORE_SCHEDULE_SCORER_H_
#define KVROUTER_CORE_SCHEDULE_SCORER_H_

#include <algorithm>
#include <cstdint>
#include <optional>
#include <span>

#include "core/schedule/effective_weights.h"
#include "kvrouter/decision.h"
#include "kvrouter/decision_record.h"
#include "kvrouter/types.h"

namespace kvrouter {

// What it would cost to serve a request on a target, in blocks; lower is better. Pure functions.
//
//   effective = device + host_weight * host + disk_weight * disk    (blocks that are not computed)
//   cached    = round(effective * B)                                                      (tokens)
//   prefill   = track_prefill ? (active_prefill_tokens + (isl - min(cached, isl)) + cached) / B : 0
//   excess    = (active_prefill_tokens - least among eligible) / B
//   decay     = 1 / (1 + credit_decay * excess / ceil(isl / B))
//   credit    = overlap_score_credit * decay * device + host_weight * host + disk_weight * disk
//               + shared_multiplier * shared
//   decode    = active_decode_blocks + additional_decode_blocks
//   requests  = decode_active_request_weight * active_requests
//
//   decode branch (decode pool, prefill not tracked, credit wanted):
//     logit = max(0, decode - credit) + requests
//   else:
//     logit = prefill_load_scale * max(0, prefill - credit) + decode + requests
//   cost = logit * taint_multiplier
//
// prefill counts the whole prompt, also its cached part, and the credit takes that part off again:
// so a credit other than 1 under- or overstates the worth of a hit. The clamps keep a cost from
// going negative, where the taint multiplier would turn a penalty into a reward. Counts become
// doubles before any division. Parity: Dynamo v1.4.1 lib/kv-router/src/scheduling/selector; see
// docs/parity.md#scheduling.

// What is the same for all candidates of a request.
struct ScoreContext {
  EffectiveWeights weights;
  uint64_t isl_tokens = 0;
  uint32_t block_size_tokens = 1;  // > 0
  // Over the eligible targets; used by the credit decay only.
  uint64_t least_active_prefill_tokens = 0;
  bool decode_pool = false;  // scoring the decode pool of a disaggregated fleet
  // Of every SeenCandidate, instead of its own overlap on all tiers.
  std::optional<double> stated_overlap_blocks = {};
};

CandidateCost ScoreCandidate(const CandidateInput& input, const ScoreContext& context);

// The same inputs as the scheduler writes them down under its lock: only those that have a source,
// and as small as they go, because explanations keep them by the hundred thousand. Loads beyond
// what has room here (a trillion tokens, four billion blocks on one target) count as that much.
struct SeenCandidate {
  WorkerId worker{};
  uint32_t dp_rank = 0;
  uint32_t device_overlap_blocks = 0;
  uint32_t additional_decode_blocks = 0;
  uint32_t active_decode_blocks = 0;
  uint64_t packed_load = 0;  // not two bit-fields: writing those one by one stalls who reads soon

  static constexpr uint64_t kMaxPrefillTokens = (uint64_t{1} << 40) - 1;
  static constexpr uint64_t kMaxRequests = (uint64_t{1} << 24) - 1;
  static uint64_t PackLoad(uint64_t prefill_tokens, uint64_t requests) {
    return std::min(prefill_tokens, kMaxPrefillTokens) << 24 | std::min(requests, kMaxRequests);
  }

  Target target() const { return {.worker = worker, .dp_rank = dp_rank}; }
  uint64_t active_prefill_tokens() const { return packed_load >> 24; }
  uint64_t active_requests() const { return packed_load & kMaxRequests; }
};
static_assert(sizeof(SeenCandidate) == 32);

// What lower tiers, and a shared cache, hold of a prompt for one candidate. Not part of
// SeenCandidate, since most prompts have nothing there anywhere.
struct LowerTierOverlap {
  uint32_t host_blocks = 0;
  uint32_t disk_blocks = 0;    // disk and external
  uint32_t shared_blocks = 0;  // in the shared cache, at the end of its device prefix or behind it
};

inline double EffectiveBlocks(double device_blocks, LowerTierOverlap lower,
                              const CostWeights& weights) {
  return device_blocks + (weights.host_cache_hit_weight * lower.host_blocks +
                          weights.disk_cache_hit_weight * lower.disk_blocks);
}

// As if they were written out as a CandidateInput.
CandidateCost ScoreSeen(const SeenCandidate& seen, const ScoreContext& context,
                        LowerTierOverlap lower = {}, double taint_multiplier = 1);

struct CostsSummary {
  size_t most_overlap_index = 0;  // the first of the candidates with the most effective overlap
  double most_overlap_blocks = 0;
};

// costs[i] becomes the cost_blocks of seen[i] with lower[i] and taint_multipliers[i], to the bit;
// an empty `lower` means that there is nothing on lower tiers, empty multipliers that all are 1.
// REQUIRES: equal lengths.
CostsSummary ScoreAll(std::span<const SeenCandidate> seen, const ScoreContext& context,
                      std::span<double> costs, std::span<const LowerTierOverlap> lower = {},
                      std::span<const double> taint_multipliers = {});

// Of the preferred taints that a worker carries: in [1/e, e], 1 for a sum of 0.
double TaintMultiplier(double taint_weight_sum);

}  // namespace kvrouter

#endif  // KVROUTER_CORE_SCHEDULE_SCORER_H_
