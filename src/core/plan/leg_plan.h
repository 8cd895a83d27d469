#ifndef KVROUTER_CORE_PLAN_LEG_PLAN_H_
#define KVROUTER_CORE_PLAN_LEG_PLAN_H_

#include <chrono>
#include <optional>
#include <string_view>

#include "absl/status/status.h"
#include "kvrouter/decision.h"
#include "kvrouter/plan.h"
#include "kvrouter/types.h"

namespace kvrouter {

// What the caller sends where, in order, and what it does when one of them fails.
//
//   local     serve(D)                                   the target does all
//   remote    prefill(P) ─> decode(D)                    P's answer goes into D's request
//   migrate   kv_source(S) ─> serve(D)                   S's first answer goes into D's request
//
// The decode target of a remote plan is usually picked when the prefill leg has returned: its leg
// is listed without a target then. Legs but the last generate one token. Pure data and functions.
//
// Parity: the fork. A kv_source leg carries the flag kv_migration_source and the request id with
// "-kvmig" behind it; it is not booked, and it gets a time-out, which the fork lacks.

struct LegPlanConfig {
  bool strict_disaggregation = false;  // a failed prefill leg fails the request
  std::chrono::nanoseconds kv_source_timeout = std::chrono::seconds(10);  // > 0
  std::chrono::nanoseconds lease = std::chrono::seconds(300);             // > 0
};

LegPlan LocalPlan(const LegPlanConfig& config, std::string_view request_id, LegTarget target,
                  MonotonicTime now);

// `decode` absent: picked when the prefill leg returns.
LegPlan RemotePlan(const LegPlanConfig& config, std::string_view request_id, LegTarget prefill,
                   std::optional<LegTarget> decode, MonotonicTime now);

// One leg of a request that somebody else splits. REQUIRES: phase is kPrefill or kDecode.
LegPlan SingleLegPlan(const LegPlanConfig& config, std::string_view request_id, RequestPhase phase,
                      LegTarget target, MonotonicTime now);

LegPlan MigratePlan(const LegPlanConfig& config, std::string_view request_id, LegTarget source,
                    LegTarget target, MonotonicTime now);

// What to do about the error of a leg: its fallback, except that RESOURCE_EXHAUSTED of a prefill
// leg is passed on in any mode (the fleet is full; serving locally would only move the load).
// REQUIRES: error is not OK.
LegFallback FallbackOn(const Leg& leg, absl::StatusCode error);

// The error of a request that failed by kFail: the leg's own if RESOURCE_EXHAUSTED, else
// UNAVAILABLE with the leg's in the message.
absl::Status ErrorOfFailedLeg(const Leg& leg, const absl::Status& error);

}  // namespace kvrouter

#endif  // KVROUTER_CORE_PLAN_LEG_PLAN_H_
