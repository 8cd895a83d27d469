#ifndef KVROUTER_ADAPTERS_HTTP_SELECTION_EXPLANATION_H_
#define KVROUTER_ADAPTERS_HTTP_SELECTION_EXPLANATION_H_

#include <string>
#include <string_view>

#include "service/routing_service.h"

namespace kvrouter {

// Why a request goes where it goes, as JSON: gRPC's ExplainResponse field by field under the same
// names (docs/routing.md#explanation), enumerations as words. Pure functions.

// gRPC's RouteResponse.
std::string DecisionJson(std::string_view request_id, const RouteDecision& decision);

// {"decision":{…},"age_seconds":0.5,"live":true}
std::string ExplanationJson(std::string_view request_id, const Explanation& explanation);

// `answer`, a JSON object with members, with one more: "explanation".
std::string WithExplanation(std::string answer, std::string_view request_id,
                            const RouteDecision& decision);

}  // namespace kvrouter

#endif  // KVROUTER_ADAPTERS_HTTP_SELECTION_EXPLANATION_H_
