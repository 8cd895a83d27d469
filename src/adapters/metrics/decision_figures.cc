#include "adapters/metrics/decision_figures.h"

#include <string>

namespace kvrouter {
namespace {

// Values of worker_type.
constexpr std::array<WorkerRole, 2> kTypedRoles = {WorkerRole::kPrefill, WorkerRole::kDecode};
size_t TypeIndex(WorkerRole role) { return role == WorkerRole::kPrefill ? 0 : 1; }

MetricLabels TypeLabel(WorkerRole role) {
  return {{"worker_type", std::string(WorkerTypeLabel(role))}};
}

}  // namespace

void DecisionFigures::Count(const RouteDecision& decision) {
  if (!decision.booked) {
    advice_.Increment();
    return;
  }
  if (decision.leg == RequestPhase::kDecode)
    return;  // counted with the leg that computes the prompt
  decisions_[static_cast<size_t>(decision.reason)].Increment();
  if (decision.shadow) {
    (decision.shadow->agrees ? shadow_.same : shadow_.other).Increment();
    shadow_.live_overlap_blocks.Increment(decision.effective_overlap_blocks);
    shadow_.shadow_overlap_blocks.Increment(decision.shadow->effective_overlap_blocks);
    shadow_.live_regret_blocks.Increment(decision.shadow->live_regret_blocks);
    shadow_.shadow_regret_blocks.Increment(decision.shadow->shadow_regret_blocks);
  }
  if (decision.isl_blocks == 0) return;
  const auto isl_blocks = static_cast<double>(decision.isl_blocks);
  hit_rate_.Observe(decision.effective_overlap_blocks / isl_blocks);
  overlap_blocks_.Increment(decision.effective_overlap_blocks);
  isl_blocks_.Increment(isl_blocks);
  overlap_tokens_.Increment(decision.effective_overlap_blocks * decision.block_size_tokens);
  isl_tokens_.Increment(static_cast<double>(decision.isl_tokens));
  expected_engine_hit_tokens_.Increment(static_cast<double>(decision.expected_engine_hit_tokens));
  best_overlap_tokens_.Increment(decision.best_available_overlap_blocks *
                                 decision.block_size_tokens);
  if (decision.regret_blocks <= 0) return;
  regret_blocks_.Increment(decision.regret_blocks);
  const size_t type = TypeIndex(decision.role);
  non_max_selections_[type].Increment();
  blocks_lost_[type].Observe(decision.regret_blocks);
}

HitSums DecisionFigures::Sums() const {
  const auto ratios = hit_rate_.Collect().histogram;
  return {.requests = ratios.sample_count,
          .hit_ratio_sum = ratios.sample_sum,
          .overlap_blocks = overlap_blocks_.Value(),
          .isl_blocks = isl_blocks_.Value(),
          .overlap_tokens = overlap_tokens_.Value(),
          .isl_tokens = isl_tokens_.Value(),
          .best_overlap_tokens = best_overlap_tokens_.Value()};
}

void DecisionFigures::ShowHits(MetricFamilies* out) const {
  out->Open(Metric::kHitRate);
  out->AddHistogram(hit_rate_.Collect());
  out->Show(Metric::kOverlapBlocks, overlap_blocks_.Value());
  out->Show(Metric::kIslBlocks, isl_blocks_.Value());
  out->Show(Metric::kOverlapTokens, overlap_tokens_.Value());
  out->Show(Metric::kIslTokens, isl_tokens_.Value());
  out->Show(Metric::kExpectedEngineHitTokens, expected_engine_hit_tokens_.Value());
}

void DecisionFigures::ShowRegret(MetricFamilies* out) const {
  out->Show(Metric::kBestOverlapTokens, best_overlap_tokens_.Value());
  out->Show(Metric::kRegretBlocks, regret_blocks_.Value());
  out->Open(Metric::kNonMaxOverlapSelections);
  for (const WorkerRole role : kTypedRoles) {
    out->Add(non_max_selections_[TypeIndex(role)].Value(), TypeLabel(role));
  }
  out->Open(Metric::kOverlapBlocksLost);
  for (const WorkerRole role : kTypedRoles) {
    out->AddHistogram(blocks_lost_[TypeIndex(role)].Collect(), TypeLabel(role));
  }
}

void DecisionFigures::ShowDecisions(MetricFamilies* out) const {
  out->Open(Metric::kDecisions);
  for (size_t i = 0; i < decisions_.size(); ++i) {
    out->Add(decisions_[i].Value(),
             {{"reason", std::string(DecisionReasonName(static_cast<DecisionReason>(i)))}});
  }
  out->Show(Metric::kAdvice, advice_.Value());
}

void DecisionFigures::ShowShadow(MetricFamilies* out) const {
  out->Open(Metric::kShadowDecisions);
  out->Add(shadow_.same.Value(), {{"choice", "same"}});
  out->Add(shadow_.other.Value(), {{"choice", "other"}});
  out->Open(Metric::kShadowOverlapBlocks);
  out->Add(shadow_.live_overlap_blocks.Value(), {{"policy", "live"}});
  out->Add(shadow_.shadow_overlap_blocks.Value(), {{"policy", "shadow"}});
  out->Open(Metric::kShadowRegretBlocks);
  out->Add(shadow_.live_regret_blocks.Value(), {{"judge", "live"}});
  out->Add(shadow_.shadow_regret_blocks.Value(), {{"judge", "shadow"}});
}

}  // namespace kvrouter
