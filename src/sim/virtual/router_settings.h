#ifndef KVROUTER_SIM_VIRTUAL_ROUTER_SETTINGS_H_
#define KVROUTER_SIM_VIRTUAL_ROUTER_SETTINGS_H_

#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "kvrouter/config.h"

namespace kvrouter::sim {

// Applies one "key=value" with Dynamo's names for router settings, e.g. "prefill_load_scale=16".
// Ranges are checked by Validate(config), not here. Errors name the text and the known keys.
absl::Status ApplySetting(std::string_view assignment, RouterConfig* config);

// "overlap_score_credit, …".
std::string KnownSettings();

}  // namespace kvrouter::sim

#endif  // KVROUTER_SIM_VIRTUAL_ROUTER_SETTINGS_H_
