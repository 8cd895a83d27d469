#include "kvrouter/config.h"
#include "kvrouter/decision.h"
#include "kvrouter/events.h"

namespace kvrouter {

std::string_view TierName(StorageTier tier) {
  switch (tier) {
    case StorageTier::kDevice: return "device";
    case StorageTier::kHostPinned: return "host_pinned";
    case StorageTier::kDisk: return "disk";
    case StorageTier::kExternal: return "external";
  }
  return "unknown";
}

std::string_view OverlapSourceName(OverlapSource source) {
  switch (source) {
    case OverlapSource::kNone: return "none";
    case OverlapSource::kEvents: return "events";
    case OverlapSource::kRouting: return "routing";
  }
  return "unknown";
}

std::string_view PlanName(Plan plan) {
  switch (plan) {
    case Plan::kLocal: return "local";
  }
  return "unknown";
}

std::string_view DecisionReasonName(DecisionReason reason) {
  switch (reason) {
    case DecisionReason::kLowestCost: return "lowest_cost";
    case DecisionReason::kTieBreak: return "tie_break";
    case DecisionReason::kSampled: return "sampled";
    case DecisionReason::kOnlyCandidate: return "only_candidate";
    case DecisionReason::kPinned: return "pinned";
  }
  return "unknown";
}

std::string_view FilterReasonName(FilterReason reason) {
  switch (reason) {
    case FilterReason::kNotPinned: return "not_pinned";
    case FilterReason::kNotAllowed: return "not_allowed";
    case FilterReason::kExcluded: return "excluded";
    case FilterReason::kDraining: return "draining";
    case FilterReason::kTaints: return "taints";
    case FilterReason::kNoLoraReplica: return "no_lora_replica";
    case FilterReason::kOverloaded: return "overloaded";
    case FilterReason::kEjected: return "ejected";
  }
  return "unknown";
}

}  // namespace kvrouter
