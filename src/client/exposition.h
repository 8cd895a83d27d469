#ifndef KVROUTER_CLIENT_EXPOSITION_H_
#define KVROUTER_CLIENT_EXPOSITION_H_

#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace kvrouter::client {

// One line of the Prometheus text format.
struct Sample {
  std::string name;
  std::map<std::string, std::string> labels;
  double value = 0;

  std::string_view Label(const std::string& label) const;  // empty if absent
};

// All samples in order; comments and lines that are not samples are skipped.
std::vector<Sample> ParseExposition(std::string_view text);

// The sum over all series of this name; nothing if there is none.
std::optional<double> SumOf(const std::vector<Sample>& samples, std::string_view name);

}  // namespace kvrouter::client

#endif  // KVROUTER_CLIENT_EXPOSITION_H_
