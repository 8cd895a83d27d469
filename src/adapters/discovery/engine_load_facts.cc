#include "adapters/discovery/engine_load_facts.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <optional>
#include <utility>

#include "adapters/discovery/exposition_sample.h"

namespace kvrouter {
namespace {

// What is read, before it is known what it is a fraction of.
struct RankFigures {
  std::optional<double> running;
  std::optional<double> waiting;
  std::optional<double> usage;  // 0..1
  std::optional<double> used_tokens;
  std::optional<double> total_tokens;
  std::optional<double> total_blocks;
};

using Figure = std::optional<double> RankFigures::*;
constexpr std::pair<std::string_view, Figure> kFigures[] = {
    {"vllm:num_requests_running", &RankFigures::running},
    {"sglang:num_running_reqs", &RankFigures::running},
    {"vllm:num_requests_waiting", &RankFigures::waiting},
    {"sglang:num_queue_reqs", &RankFigures::waiting},
    {"vllm:kv_cache_usage_perc", &RankFigures::usage},
    {"vllm:gpu_cache_usage_perc", &RankFigures::usage},
    {"sglang:token_usage", &RankFigures::usage},
    {"sglang:num_used_tokens", &RankFigures::used_tokens},
    {"sglang:max_total_num_tokens", &RankFigures::total_tokens}};
constexpr std::string_view kCacheConfig = "vllm:cache_config_info";

void TakeLargest(std::optional<double>* figure, double value) {
  if (std::isfinite(value) && value >= 0) *figure = std::max(figure->value_or(0), value);
}

std::optional<uint32_t> RankLabel(const ExpositionSample& sample) {
  for (const char* name : {"engine", "dp_rank"})
    if (const auto rank = WholeLabel<uint32_t>(sample, name, /*zero=*/true)) return rank;
  return std::nullopt;
}

bool HasRank(const WorkerSpec& worker, uint32_t rank) {
  return rank >= worker.dp_start_rank && rank - worker.dp_start_rank < worker.dp_size;
}

// Figures by what the rank is called in the text. Bounded, since any bytes will do.
class Figures {
 public:
  // Null: one too many.
  RankFigures* Of(const ExpositionSample& sample) {
    const std::optional<uint32_t> rank = RankLabel(sample);
    const auto found = by_label_.find(rank);
    if (found != by_label_.end()) return &found->second;
    if (by_label_.size() > kMaxDpSize) return nullptr;
    return &by_label_[rank];
  }

  // By the worker's ranks.
  std::map<uint32_t, RankFigures> OfRanksOf(const WorkerSpec& worker) const {
    std::map<uint32_t, RankFigures> ranks;
    for (const auto& [label, figures] : by_label_)
      if (label && HasRank(worker, *label)) ranks.emplace(*label, figures);
    if (ranks.empty() && worker.dp_size == 1 && by_label_.size() == 1)
      ranks.emplace(worker.dp_start_rank, by_label_.begin()->second);
    return ranks;
  }

 private:
  std::map<std::optional<uint32_t>, RankFigures> by_label_;
};

void ReadCacheConfig(const ExpositionSample& sample, RankFigures* figures) {
  if (const auto tokens = WholeLabel<uint64_t>(sample, "kv_cache_size_tokens"))
    TakeLargest(&figures->total_tokens, static_cast<double>(*tokens));
  if (const auto blocks = WholeLabel<uint64_t>(sample, "num_gpu_blocks"))
    TakeLargest(&figures->total_blocks, static_cast<double>(*blocks));
}

EngineLoad LoadOf(const RankFigures& figures, const WorkerSpec& worker) {
  EngineLoad load{.running_requests = figures.running, .waiting_requests = figures.waiting};
  const double block_tokens = std::max<uint32_t>(1, worker.block_size_tokens);
  if (figures.total_tokens && *figures.total_tokens >= block_tokens) {
    load.total_blocks = std::floor(*figures.total_tokens / block_tokens);
  } else if (figures.total_blocks) {
    load.total_blocks = figures.total_blocks;
  } else if (worker.total_kv_blocks > 0) {
    load.total_blocks = static_cast<double>(worker.total_kv_blocks);
  }
  if (figures.used_tokens) {
    load.used_blocks = std::ceil(*figures.used_tokens / block_tokens);
  } else if (figures.usage && *figures.usage <= 1 && load.total_blocks) {
    load.used_blocks = std::round(*figures.usage * *load.total_blocks);
  }
  return load;
}

bool SaysNothing(const EngineLoad& load) {
  return !load.running_requests && !load.waiting_requests && !load.used_blocks;
}

}  // namespace

std::map<uint32_t, EngineLoad> ReadEngineLoads(std::string_view exposition,
                                               const WorkerSpec& worker) {
  Figures figures;
  while (!exposition.empty()) {
    const ExpositionLine line = TakeExpositionLine(&exposition);
    const auto* const known =
        std::find_if(std::begin(kFigures), std::end(kFigures),
                     [&line](const auto& figure) { return figure.first == line.name; });
    const bool is_config = line.name == kCacheConfig;
    if (known == std::end(kFigures) && !is_config) continue;
    const std::optional<ExpositionSample> sample = ReadExpositionSample(line);
    RankFigures* const of_rank = sample ? figures.Of(*sample) : nullptr;
    if (of_rank == nullptr) continue;
    if (is_config) {
      ReadCacheConfig(*sample, of_rank);
    } else {
      TakeLargest(&(of_rank->*known->second), sample->value);
    }
  }
  std::map<uint32_t, EngineLoad> loads;
  for (const auto& [rank, of_rank] : figures.OfRanksOf(worker)) {
    const EngineLoad load = LoadOf(of_rank, worker);
    if (!SaysNothing(load)) loads.emplace(rank, load);
  }
  return loads;
}

}  // namespace kvrouter
