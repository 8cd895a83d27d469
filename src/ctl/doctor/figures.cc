#include "ctl/doctor/figures.h"

#include <fmt/format.h>

#include <cmath>
#include <utility>

namespace kvrouter::ctl {

double Total(const std::vector<client::Sample>& samples, std::string_view name) {
  return client::SumOf(samples, name).value_or(0);
}

double TotalWith(const std::vector<client::Sample>& samples, std::string_view name,
                 const std::string& label, std::string_view value) {
  double sum = 0;
  for (const client::Sample& sample : samples) {
    if (sample.name == name && sample.Label(label) == value) sum += sample.value;
  }
  return sum;
}

std::string Figure(double value) {
  const bool whole = std::floor(value) == value && std::abs(value) < 1e15;
  return whole ? fmt::format("{:.0f}", value) : fmt::format("{:.3g}", value);
}

void Names::Add(std::string name) {
  ++count_;
  if (count_ > kShown) return;
  if (!text_.empty()) text_ += ", ";
  text_ += name;
}

void Names::Add(const SeenWorker& worker) { Add(std::to_string(worker.worker_id)); }

void Names::Add(const SeenWorker& worker, uint32_t dp_rank) {
  Add(fmt::format("{}/{}", worker.worker_id, dp_rank));
}

std::string Names::Text() const {
  return count_ <= kShown ? text_ : fmt::format("{} and {} more", text_, count_ - kShown);
}

std::optional<std::string> CacheConfig(const SeenEngine& engine, const std::string& attribute) {
  for (const client::Sample& sample : engine.metrics) {
    if (sample.name != "vllm:cache_config_info") continue;
    const std::string_view value = sample.Label(attribute);
    if (!value.empty() && value != "None") return std::string(value);
  }
  return std::nullopt;
}

}  // namespace kvrouter::ctl
