#ifndef KVROUTER_SIM_PLAYER_DOOR_EXPLANATION_H_
#define KVROUTER_SIM_PLAYER_DOOR_EXPLANATION_H_

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace kvrouter::sim {

// What a router's door says about one request in its x-kvrouter-... headers, short enough to count
// requests by it.
struct DoorExplanation {
  // The plan and the rules behind it without their numbers, e.g. "local: local short_prompt";
  // "unexplained" without those headers.
  std::string plan;
  uint64_t overlap_tokens = 0;
};
DoorExplanation ReadExplanation(const std::vector<std::pair<std::string, std::string>>& headers);

}  // namespace kvrouter::sim

#endif  // KVROUTER_SIM_PLAYER_DOOR_EXPLANATION_H_
