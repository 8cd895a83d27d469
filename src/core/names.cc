#include "kvrouter/decision.h"

namespace kvrouter {

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
  }
  return "unknown";
}

}  // namespace kvrouter
