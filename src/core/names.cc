#include "kvrouter/config.h"
#include "kvrouter/decision.h"
#include "kvrouter/events.h"
#include "kvrouter/worker.h"

namespace kvrouter {
namespace {

// The value of the enum's first `count` that has this name.
template <typename Value>
std::optional<Value> ValueOf(std::string_view name, std::string_view (*name_of)(Value), int count) {
  for (int i = 0; i < count; ++i) {
    if (name_of(static_cast<Value>(i)) == name) return static_cast<Value>(i);
  }
  return std::nullopt;
}

}  // namespace

std::string_view WorkerRoleName(WorkerRole role) {
  switch (role) {
    case WorkerRole::kAggregated: return "aggregated";
    case WorkerRole::kPrefill: return "prefill";
    case WorkerRole::kDecode: return "decode";
  }
  return "unknown";
}

std::optional<WorkerRole> WorkerRoleOf(std::string_view name) {
  return ValueOf(name, WorkerRoleName, 3);
}

std::string_view KvRoleName(KvRole role) {
  switch (role) {
    case KvRole::kNone: return "none";
    case KvRole::kProducer: return "producer";
    case KvRole::kConsumer: return "consumer";
    case KvRole::kBoth: return "both";
  }
  return "unknown";
}

std::optional<KvRole> KvRoleOf(std::string_view name) { return ValueOf(name, KvRoleName, 4); }

std::string_view TierName(StorageTier tier) {
  switch (tier) {
    case StorageTier::kDevice: return "device";
    case StorageTier::kHostPinned: return "host_pinned";
    case StorageTier::kDisk: return "disk";
    case StorageTier::kExternal: return "external";
  }
  return "unknown";
}

std::optional<StorageTier> TierOfName(std::string_view name) {
  return ValueOf(name, TierName, kStorageTierCount);
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
