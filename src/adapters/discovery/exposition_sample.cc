#include "adapters/discovery/exposition_sample.h"

#include <algorithm>
#include <utility>

namespace kvrouter {
namespace {

// Reads `name="value"` pairs up to the closing brace, and takes both off `rest`; false if that is
// not what stands there.
bool ReadLabels(std::string_view* rest, std::map<std::string, std::string>* labels) {
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

}  // namespace

ExpositionLine TakeExpositionLine(std::string_view* text) {
  const size_t end = std::min(text->find('\n'), text->size());
  const std::string_view line = text->substr(0, end);
  text->remove_prefix(std::min(end + 1, text->size()));
  const size_t name_end = line.find_first_of("{ ");
  if (name_end == std::string_view::npos) return {};
  return {line.substr(0, name_end), line.substr(name_end)};
}

std::optional<ExpositionSample> ReadExpositionSample(const ExpositionLine& line) {
  ExpositionSample sample;
  sample.name = line.name;
  std::string_view rest = line.rest;
  if (rest.starts_with('{')) {
    rest.remove_prefix(1);
    if (!ReadLabels(&rest, &sample.labels)) return std::nullopt;
  }
  rest.remove_prefix(std::min(rest.size(), rest.find_first_not_of(' ')));
  const auto parsed = std::from_chars(rest.data(), rest.data() + rest.size(), sample.value);
  if (parsed.ec != std::errc()) return std::nullopt;
  return sample;
}

}  // namespace kvrouter
