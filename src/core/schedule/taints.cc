#include "core/schedule/taints.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "kvrouter/error.h"

namespace kvrouter {
namespace {

absl::Status Invalid(std::string_view message) {
  return MakeError(absl::StatusCode::kInvalidArgument, ErrorReason::kInvalidRequest, message);
}

}  // namespace

std::string TopologyTaint(std::string_view domain, std::string_view label) {
  return fmt::format("dynamo.topology/{}={}", domain, label);
}

std::vector<std::string> TaintsOf(std::span<const std::string> taints,
                                  const WorkerTopology& topology) {
  std::vector<std::string> all(taints.begin(), taints.end());
  for (const auto& [domain, label] : topology.topology_domains) {
    all.push_back(TopologyTaint(domain, label));
  }
  std::sort(all.begin(), all.end());
  all.erase(std::unique(all.begin(), all.end()), all.end());
  return all;
}

absl::Status AddTopologyConstraint(const WorkerTopology& prefill_worker,
                                   RoutingConstraints* constraints) {
  const std::string& domain = prefill_worker.kv_transfer_domain;
  if (domain.empty()) return absl::OkStatus();
  const auto label = prefill_worker.topology_domains.find(domain);
  if (label == prefill_worker.topology_domains.end()) {
    return Invalid(fmt::format("kv_transfer_domain {} has no label in topology_domains", domain));
  }
  std::string taint = TopologyTaint(domain, label->second);
  if (prefill_worker.kv_transfer_enforcement == "required") {
    constraints->required_taints.push_back(std::move(taint));
    return absl::OkStatus();
  }
  if (prefill_worker.kv_transfer_enforcement != "preferred") {
    return Invalid(fmt::format("kv_transfer_enforcement must be required or preferred, got \"{}\"",
                               prefill_worker.kv_transfer_enforcement));
  }
  const auto weight = prefill_worker.kv_transfer_preferred_weight;
  if (!weight || !std::isfinite(*weight)) {
    return Invalid("kv_transfer_enforcement preferred needs a finite kv_transfer_preferred_weight");
  }
  constraints->preferred_taints[std::move(taint)] = *weight;
  return absl::OkStatus();
}

absl::Status Validate(const RoutingConstraints& constraints) {
  for (const auto& [taint, weight] : constraints.preferred_taints) {
    if (!std::isfinite(weight)) {
      return Invalid(
          fmt::format("preferred taint {} must have a finite weight, got {}", taint, weight));
    }
  }
  return absl::OkStatus();
}

bool CarriesRequired(const RoutingConstraints& constraints, std::span<const std::string> carried) {
  return std::all_of(constraints.required_taints.begin(), constraints.required_taints.end(),
                     [&](const std::string& taint) {
                       return std::binary_search(carried.begin(), carried.end(), taint);
                     });
}

double PreferredWeight(const RoutingConstraints& constraints,
                       std::span<const std::string> carried) {
  double sum = 0;
  for (const auto& [taint, weight] : constraints.preferred_taints) {
    if (std::binary_search(carried.begin(), carried.end(), taint)) sum += weight;
  }
  return sum;
}

}  // namespace kvrouter
