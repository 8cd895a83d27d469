#ifndef KVROUTER_SIM_VIRTUAL_ROUTER_SETTINGS_H_
#define KVROUTER_SIM_VIRTUAL_ROUTER_SETTINGS_H_

#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "kvrouter/config.h"

namespace kvrouter::sim {

// Applies one "key=value" with the router's own names for its settings (docs/operations.md), e.g.
// "prefill_load_scale=16" or "router_session_affinity_ttl_secs=600".
// Ranges are checked by Validate(config), not here. Errors name the text and the known keys.
absl::Status ApplySetting(std::string_view assignment, RouterConfig* config);

// "overlap_score_credit, …".
std::string KnownSettings();

}  // namespace kvrouter::sim

#endif  // KVROUTER_SIM_VIRTUAL_ROUTER_SETTINGS_H_
