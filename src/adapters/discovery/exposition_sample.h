#ifndef KVROUTER_ADAPTERS_DISCOVERY_EXPOSITION_SAMPLE_H_
#define KVROUTER_ADAPTERS_DISCOVERY_EXPOSITION_SAMPLE_H_

#include <charconv>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <system_error>

namespace kvrouter {

// A line of Prometheus' text format as an engine prints it: name{labels} value. Any bytes will do;
// what is no such line is nothing.
struct ExpositionSample {
  std::string_view name;  // into the text
  std::map<std::string, std::string> labels;
  double value = 0;
};

// Takes the next line off `text`, which must not be empty, and returns its name and the rest; an
// empty name for a line without either.
struct ExpositionLine {
  std::string_view name;
  std::string_view rest;
};
ExpositionLine TakeExpositionLine(std::string_view* text);
std::optional<ExpositionSample> ReadExpositionSample(const ExpositionLine& line);

// A label that is a whole number. Not for "None", 0 and the like where `zero` is false: these say
// nothing.
template <typename Number>
std::optional<Number> WholeLabel(const ExpositionSample& sample, const char* name,
                                 bool zero = false) {
  const auto it = sample.labels.find(name);
  if (it == sample.labels.end()) return std::nullopt;
  const std::string& text = it->second;
  Number value = 0;
  const auto parsed = std::from_chars(text.data(), text.data() + text.size(), value);
  if (parsed.ec != std::errc() || parsed.ptr != text.data() + text.size()) return std::nullopt;
  return value == 0 && !zero ? std::nullopt : std::optional(value);
}

}  // namespace kvrouter

#endif  // KVROUTER_ADAPTERS_DISCOVERY_EXPOSITION_SAMPLE_H_
