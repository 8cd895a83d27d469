#ifndef KVROUTER_DISPATCH_EXPLAIN_HEADERS_H_
#define KVROUTER_DISPATCH_EXPLAIN_HEADERS_H_

#include <optional>
#include <string>
#include <string_view>

#include "dispatch/engine_link.h"
#include "kvrouter/decision.h"

namespace kvrouter {

// Why the request went where it went, for clients that send x-route-explain: 1. The whole decision
// is to be had under the request's id (Explain). Pure.
//
//   x-kvrouter-request-id      the router's id of the request
//   x-kvrouter-worker          worker and rank, e.g. 7/0, of the (last) target
//   x-kvrouter-prefill-worker  who computed the prompt for it, if another one did
//   x-kvrouter-plan            local, remote_prefill, migrate
//   x-kvrouter-reason          e.g. lowest_cost
//   x-kvrouter-overlap-tokens  of the prompt, expected there
//   x-kvrouter-prompt-tokens   0: routed by load alone
//   x-kvrouter-explanation     one line: gate and migration planner, where they had a say
//
// The decision of a second leg has no gate of its own, so whoever dispatches brings along what the
// first one said: `explanation` is its ExplanationOf.
HeaderList ExplainHeaders(std::string_view request_id, const RouteDecision& decision,
                          const std::optional<Target>& prefill_worker,
                          const std::string& explanation);

// Empty: neither gate nor planner had a say.
std::string ExplanationOf(const RouteDecision& decision);

}  // namespace kvrouter

#endif  // KVROUTER_DISPATCH_EXPLAIN_HEADERS_H_
