#include "client/exposition.h"

#include <cstdlib>
#include <utility>

namespace kvrouter::client {
namespace {

// The label set after '{'. Nothing if malformed; else `rest` is what follows '}'.
std::optional<std::map<std::string, std::string>> ParseLabels(std::string_view text,
                                                              std::string_view* rest) {
  std::map<std::string, std::string> labels;
  size_t at = 0;
  while (true) {
    while (at < text.size() && (text[at] == ',' || text[at] == ' ')) ++at;
    if (at < text.size() && text[at] == '}') {
      *rest = text.substr(at + 1);
      return labels;
    }
    const size_t equals = text.find("=\"", at);
    if (equals == std::string_view::npos) return std::nullopt;
    const std::string_view name = text.substr(at, equals - at);
    std::string value;
    for (at = equals + 2; at < text.size() && text[at] != '"'; ++at) {
      if (text[at] == '\\' && at + 1 < text.size()) {
        ++at;
        value += text[at] == 'n' ? '\n' : text[at];
      } else {
        value += text[at];
      }
    }
    if (at >= text.size()) return std::nullopt;
    ++at;
    labels.emplace(name, std::move(value));
  }
}

std::optional<Sample> ParseLine(std::string_view line) {
  const size_t name_end = line.find_first_of("{ ");
  if (name_end == std::string_view::npos || name_end == 0) return std::nullopt;
  Sample sample;
  sample.name = std::string(line.substr(0, name_end));
  std::string_view rest = line.substr(name_end);
  if (rest.front() == '{') {
    auto labels = ParseLabels(rest.substr(1), &rest);
    if (!labels) return std::nullopt;
    sample.labels = *std::move(labels);
  }
  const std::string value(rest);  // a time stamp may follow; strtod stops before it
  char* end = nullptr;
  sample.value = std::strtod(value.c_str(), &end);
  if (end == value.c_str()) return std::nullopt;
  return sample;
}

}  // namespace

std::string_view Sample::Label(const std::string& label) const {
  const auto it = labels.find(label);
  return it == labels.end() ? std::string_view() : std::string_view(it->second);
}

std::vector<Sample> ParseExposition(std::string_view text) {
  std::vector<Sample> samples;
  while (!text.empty()) {
    const size_t end = text.find('\n');
    const std::string_view line = text.substr(0, end);
    text = end == std::string_view::npos ? std::string_view() : text.substr(end + 1);
    if (line.empty() || line.front() == '#') continue;
    if (auto sample = ParseLine(line)) samples.push_back(*std::move(sample));
  }
  return samples;
}

std::optional<double> SumOf(const std::vector<Sample>& samples, std::string_view name) {
  std::optional<double> sum;
  for (const Sample& sample : samples) {
    if (sample.name == name) sum = sum.value_or(0) + sample.value;
  }
  return sum;
}

}  // namespace kvrouter::client
