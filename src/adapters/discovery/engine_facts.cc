#include "adapters/discovery/engine_facts.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <span>

#include "adapters/discovery/exposition_sample.h"

namespace kvrouter {
namespace {

constexpr size_t kMaxModels = 256;
constexpr size_t kMaxModelNameBytes = 256;

constexpr std::string_view kConfig = "vllm:cache_config_info";
// The second name is that of older versions.
constexpr std::string_view kQueries[] = {"vllm:prefix_cache_queries_total",
                                         "vllm:gpu_prefix_cache_queries_total"};
constexpr std::string_view kHits[] = {"vllm:prefix_cache_hits_total",
                                      "vllm:gpu_prefix_cache_hits_total"};
constexpr std::string_view kFinished = "vllm:request_success_total";
constexpr std::string_view kLive[] = {"vllm:num_requests_running", "vllm:num_requests_waiting"};

// A value that all who say it have in common, or nothing.
template <typename Value>
class Agreed {
 public:
  void Add(const std::optional<Value>& value) {
    if (!value) return;
    differs_ = differs_ || (value_ && *value_ != *value);
    value_ = value;
  }
  std::optional<Value> Get() const { return differs_ ? std::nullopt : value_; }

 private:
  std::optional<Value> value_;
  bool differs_ = false;
};

std::optional<bool> SwitchLabel(const ExpositionSample& sample, const char* name) {
  const auto it = sample.labels.find(name);
  if (it == sample.labels.end()) return std::nullopt;
  if (it->second == "True" || it->second == "true") return true;
  if (it->second == "False" || it->second == "false") return false;
  return std::nullopt;
}

// Where several groups share the blocks of a pool (hybrid models), the number of blocks says
// nothing of how many tokens they hold; newer engines say that besides.
std::optional<uint64_t> Capacity(const ExpositionSample& sample,
                                 const std::optional<uint32_t>& block_size_tokens) {
  const auto tokens = WholeLabel<uint64_t>(sample, "kv_cache_size_tokens");
  if (tokens && block_size_tokens && *tokens >= *block_size_tokens)
    return *tokens / *block_size_tokens;
  return WholeLabel<uint64_t>(sample, "num_gpu_blocks");
}

void AddTo(std::optional<double>* sum, const ExpositionLine& line) {
  if (const std::optional<ExpositionSample> sample = ReadExpositionSample(line))
    *sum = sum->value_or(0) + sample->value;
}

bool IsOneOf(std::string_view name, std::span<const std::string_view> names) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

}  // namespace

void ReadModels(std::string_view json, EngineFacts* facts) {
  const auto answer = nlohmann::json::parse(json, nullptr, /*allow_exceptions=*/false);
  if (!answer.is_object() || !answer.contains("data") || !answer["data"].is_array()) return;
  for (const auto& model : answer["data"]) {
    if (!model.is_object() || !model.contains("id") || !model["id"].is_string()) continue;
    if (model.contains("parent") && !model["parent"].is_null()) continue;  // an adapter
    const std::string id = model["id"];
    if (id.empty() || id.size() > kMaxModelNameBytes || facts->models.size() >= kMaxModels)
      continue;
    facts->models.push_back(id);
  }
}

void ReadEngineMetrics(std::string_view exposition, EngineFacts* facts) {
  Agreed<uint32_t> block_size;
  Agreed<uint64_t> capacity;
  Agreed<bool> prefix_caching;
  std::optional<double> live;
  while (!exposition.empty()) {
    const ExpositionLine line = TakeExpositionLine(&exposition);
    const std::string_view name = line.name;
    if (name == kConfig) {
      const std::optional<ExpositionSample> sample = ReadExpositionSample(line);
      if (!sample) continue;
      const auto its_size = WholeLabel<uint32_t>(*sample, "block_size");
      block_size.Add(its_size);
      capacity.Add(Capacity(*sample, its_size));
      prefix_caching.Add(SwitchLabel(*sample, "enable_prefix_caching"));
    } else if (IsOneOf(name, kQueries)) {
      AddTo(&facts->queried_tokens, line);
    } else if (IsOneOf(name, kHits)) {
      AddTo(&facts->hit_tokens, line);
    } else if (name == kFinished) {
      AddTo(&facts->finished_requests, line);
    } else if (IsOneOf(name, kLive)) {
      AddTo(&live, line);
    }
  }
  facts->live_requests = live.value_or(0);
  facts->block_size_tokens = block_size.Get();
  facts->total_kv_blocks = capacity.Get();
  facts->prefix_caching = prefix_caching.Get();
}

}  // namespace kvrouter
