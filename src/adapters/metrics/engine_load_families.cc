#include <fmt/format.h>

#include <map>
#include <optional>
#include <string>
#include <utility>

#include "adapters/metrics/scraped_families.h"

namespace kvrouter {
namespace {

// A rank as its engine and as the router see it.
struct RankView {
  Target target;
  std::optional<EngineLoad> engine;
  const TargetLoad* ours = nullptr;

  std::optional<double> EngineRequests() const {
    if (!engine || !engine->running_requests) return std::nullopt;
    return *engine->running_requests + engine->waiting_requests.value_or(0);
  }
};

std::vector<RankView> ViewsOf(const std::vector<PartitionSnapshot>& partitions,
                              const EngineLoads* loads) {
  std::vector<RankView> views;
  if (loads == nullptr) return views;
  std::map<Target, const TargetLoad*> ours;
  for (const PartitionSnapshot& partition : partitions)
    for (const TargetLoad& load : partition.loads) ours.emplace(load.target, &load);
  for (EngineLoads::Report& report : loads->List()) {
    const auto known = ours.find(report.target);
    if (known != ours.end()) views.push_back({report.target, report.load, known->second});
  }
  return views;
}

}  // namespace

void ShowEngineLoads(const std::vector<PartitionSnapshot>& partitions, const EngineLoads* loads,
                     MetricFamilies* out) {
  const std::vector<RankView> views = ViewsOf(partitions, loads);
  const auto show = [&](Metric metric, auto value) {
    out->Open(metric);
    for (const RankView& view : views) {
      const std::optional<double> figure = value(view);
      if (!figure) continue;
      out->Add(*figure,
               {{"worker_id", fmt::format("{}", static_cast<uint64_t>(view.target.worker))},
                {"dp_rank", fmt::format("{}", view.target.dp_rank)}});
    }
  };
  const auto said = [&](Metric metric, std::optional<double> EngineLoad::*figure) {
    show(metric, [figure](const RankView& view) {
      return view.engine ? *view.engine.*figure : std::nullopt;
    });
  };
  show(Metric::kEngineLoadKnown,
       [](const RankView& view) { return std::optional(view.engine ? 1.0 : 0.0); });
  said(Metric::kEngineRunningRequests, &EngineLoad::running_requests);
  said(Metric::kEngineWaitingRequests, &EngineLoad::waiting_requests);
  said(Metric::kEngineKvUsedBlocks, &EngineLoad::used_blocks);
  said(Metric::kEngineKvTotalBlocks, &EngineLoad::total_blocks);
  show(Metric::kEngineDriftBlocks, [](const RankView& view) -> std::optional<double> {
    if (!view.engine || !view.engine->used_blocks) return std::nullopt;
    return view.ours->active_decode_blocks - *view.engine->used_blocks;
  });
  show(Metric::kEngineDriftRequests, [](const RankView& view) -> std::optional<double> {
    const std::optional<double> requests = view.EngineRequests();
    if (!requests) return std::nullopt;
    return static_cast<double>(view.ours->active_requests) - *requests;
  });
  out->Open(Metric::kEnginePolls);
  for (size_t i = 0; i < kEnginePollOutcomeCount; ++i) {
    const auto outcome = static_cast<EnginePollOutcome>(i);
    out->Add(loads == nullptr ? uint64_t{0} : loads->Polls()[i],
             {{"outcome", std::string(EnginePollOutcomeName(outcome))}});
  }
}

}  // namespace kvrouter
