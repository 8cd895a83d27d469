#include "sim/player/door_explanation.h"

#include <algorithm>
#include <charconv>
#include <string_view>

namespace kvrouter::sim {
namespace {

// One part of an explanation up to where its numbers begin:
// "local short_prompt (tokens 691 < 2048)" or "planned migrate from worker 3 rank 0, ...".
std::string_view WithoutNumbers(std::string_view part) {
  for (const std::string_view end : {" (", ",", " from "}) part = part.substr(0, part.find(end));
  return part;
}

std::string RulesOf(std::string_view explanation) {
  std::string rules;
  while (!explanation.empty()) {
    const size_t end = std::min(explanation.find("; "), explanation.size());
    rules += rules.empty() ? "" : ", ";
    rules += WithoutNumbers(explanation.substr(0, end));
    explanation.remove_prefix(std::min(end + 2, explanation.size()));
  }
  return rules;
}

}  // namespace

DoorExplanation ReadExplanation(const std::vector<std::pair<std::string, std::string>>& headers) {
  DoorExplanation read;
  std::string rules;
  for (const auto& [name, value] : headers) {
    if (name == "x-kvrouter-plan") {
      read.plan = value;
    } else if (name == "x-kvrouter-explanation") {
      rules = RulesOf(value);
    } else if (name == "x-kvrouter-overlap-tokens") {
      std::from_chars(value.data(), value.data() + value.size(), read.overlap_tokens);
    }
  }
  if (read.plan.empty()) read.plan = "unexplained";
  if (!rules.empty()) read.plan += ": " + rules;
  return read;
}

}  // namespace kvrouter::sim
