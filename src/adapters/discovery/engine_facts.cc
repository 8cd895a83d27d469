#include "adapters/discovery/engine_facts.h"

#include <algorithm>
#include <charconv>
#include <map>
#include <nlohmann/json.hpp>
#include <span>
#include <system_error>
#include <utility>

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

using Labels = std::map<std::string, std::string>;

// Reads `name="value"` pairs up to the closing brace, and takes both off `rest`; false if that is not
// what stands there.
bool ReadLabels(std::string_view* rest, Labels* labels) {
  while (!rest->empty() && rest->front() != '}') {
    const size_t equals = rest->find("=\"");
    if (equals == std::string_view::npos) return false;
    std::string name(rest->substr(0, equals));
    rest->remove_prefix(equals + 2);
    std::string value;
    while (!rest->empty() && rest->front() != '"') {
      if (rest->front() == '\\' && rest->size() > 1) rest->remove_prefix(1);
      value += rest->front();
      rest->remove_prefix(1);
    }
    if (rest->empty()) return false;
    rest->remove_prefix(1);
    if (!rest->empty() && rest->front() == ',') rest->remove_prefix(1);
    labels->emplace(std::move(name), std::move(value));
  }
  if (rest->empty()) return false;
  rest->remove_prefix(1);
  return true;
}

// What follows the name in a line of the exposition format: {labels} value.
struct Sample {
  Labels labels;
  double value = 0;
};

std::optional<Sample> ReadSample(std::string_view rest) {
  Sample sample;
  if (rest.starts_with('{')) {
    rest.remove_prefix(1);
    if (!ReadLabels(&rest, &sample.labels)) return std::nullopt;
  }
  rest.remove_prefix(std::min(rest.size(), rest.find_first_not_of(' ')));
  const auto parsed = std::from_chars(rest.data(), rest.data() + rest.size(), sample.value);
  if (parsed.ec != std::errc()) return std::nullopt;
  return sample;
}

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

// Not for "None", 0 and the like: these say nothing.
template <typename Number>
std::optional<Number> WholeLabel(const Labels& labels, const char* name) {
  const auto it = labels.find(name);
  if (it == labels.end()) return std::nullopt;
  const std::string& text = it->second;
  Number value = 0;
  const auto parsed = std::from_chars(text.data(), text.data() + text.size(), value);
  if (parsed.ec != std::errc() || parsed.ptr != text.data() + text.size() || value == 0)
    return std::nullopt;
  return value;
}

std::optional<bool> SwitchLabel(const Labels& labels, const char* name) {
  const auto it = labels.find(name);
  if (it == labels.end()) return std::nullopt;
  if (it->second == "True" || it->second == "true") return true;
  if (it->second == "False" || it->second == "false") return false;
  return std::nullopt;
}

// Where several groups share the blocks of a pool (hybrid models), the number of blocks says nothing of
// how many tokens they hold; newer engines say that besides.
std::optional<uint64_t> Capacity(const Labels& labels,
                                 const std::optional<uint32_t>& block_size_tokens) {
  const auto tokens = WholeLabel<uint64_t>(labels, "kv_cache_size_tokens");
  if (tokens && block_size_tokens && *tokens >= *block_size_tokens)
    return *tokens / *block_size_tokens;
  return WholeLabel<uint64_t>(labels, "num_gpu_blocks");
}

void AddTo(std::optional<double>* sum, std::string_view rest) {
  if (const std::optional<Sample> sample = ReadSample(rest))
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
    const size_t end = std::min(exposition.find('\n'), exposition.size());
    const std::string_view line = exposition.substr(0, end);
    exposition.remove_prefix(std::min(end + 1, exposition.size()));
    const size_t name_end = line.find_first_of("{ ");
    if (name_end == std::string_view::npos) continue;
    const std::string_view name = line.substr(0, name_end);
    const std::string_view rest = line.substr(name_end);
    if (name == kConfig) {
      const std::optional<Sample> sample = ReadSample(rest);
      if (!sample) continue;
      const auto its_size = WholeLabel<uint32_t>(sample->labels, "block_size");
      block_size.Add(its_size);
      capacity.Add(Capacity(sample->labels, its_size));
      prefix_caching.Add(SwitchLabel(sample->labels, "enable_prefix_caching"));
    } else if (IsOneOf(name, kQueries)) {
      AddTo(&facts->queried_tokens, rest);
    } else if (IsOneOf(name, kHits)) {
      AddTo(&facts->hit_tokens, rest);
    } else if (name == kFinished) {
      AddTo(&facts->finished_requests, rest);
    } else if (IsOneOf(name, kLive)) {
      AddTo(&live, rest);
    }
  }
  facts->live_requests = live.value_or(0);
  facts->block_size_tokens = block_size.Get();
  facts->total_kv_blocks = capacity.Get();
  facts->prefix_caching = prefix_caching.Get();
}

}  // namespace kvrouter
