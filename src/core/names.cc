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
    case Plan::kRemotePrefill: return "remote_prefill";
    case Plan::kMigrate: return "migrate";
  }
  return "unknown";
}

std::string_view RequestPhaseName(RequestPhase phase) {
  switch (phase) {
    case RequestPhase::kWhole: return "whole";
    case RequestPhase::kPrefill: return "prefill";
    case RequestPhase::kDecode: return "decode";
  }
  return "unknown";
}

std::string_view SessionSourceName(SessionSource source) {
  switch (source) {
    case SessionSource::kNone: return "none";
    case SessionSource::kCaller: return "caller";
    case SessionSource::kPrefix: return "prefix";
    case SessionSource::kAlias: return "alias";
    case SessionSource::kEnd: return "end";
    case SessionSource::kStart: return "start";
  }
  return "unknown";
}

std::string_view SessionOutcomeName(SessionOutcome outcome) {
  switch (outcome) {
    case SessionOutcome::kNone: return "none";
    case SessionOutcome::kNotPinned: return "not_pinned";
    case SessionOutcome::kHot: return "hot";
    case SessionOutcome::kBound: return "bound";
    case SessionOutcome::kInitialised: return "initialised";
    case SessionOutcome::kReplaced: return "replaced";
    case SessionOutcome::kMoved: return "moved";
    case SessionOutcome::kConflict: return "conflict";
    case SessionOutcome::kNoRoom: return "no_room";
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
    case DecisionReason::kSession: return "session";
    case DecisionReason::kRendezvous: return "rendezvous";
  }
  return "unknown";
}

std::string_view FilterReasonName(FilterReason reason) {
  switch (reason) {
    case FilterReason::kOtherRole: return "other_role";
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
