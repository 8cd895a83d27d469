#ifndef KVROUTER_CORE_SCHEDULE_TAINTS_H_
#define KVROUTER_CORE_SCHEDULE_TAINTS_H_

#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "kvrouter/decision.h"
#include "kvrouter/worker.h"

namespace kvrouter {

// Labels of workers and what requests want of them. A *required* taint must be there for a worker
// to be a candidate; a *preferred* one multiplies its cost by TaintMultiplier of the weights of
// those it carries (scorer.h).
//
// Topology: a prefill worker says in which domain its blocks travel well (a rack, a switch). The
// decode leg then requires, or prefers, workers with the same label in that domain. Labels are
// taints of the form dynamo.topology/DOMAIN=LABEL, which workers carry by themselves.
//
// Plain data and pure functions. Parity: Dynamo v1.4.1 routing constraints and topology.

// dynamo.topology/DOMAIN=LABEL
std::string TopologyTaint(std::string_view domain, std::string_view label);

// All that a worker carries, sorted, each once: its taints and those of its topology.
std::vector<std::string> TaintsOf(std::span<const std::string> taints,
                                  const WorkerTopology& topology);

// Adds what `prefill_worker` demands of the decode leg. INVALID_ARGUMENT if it names a domain where
// it has no label, another enforcement, or prefers without a finite weight.
absl::Status AddTopologyConstraint(const WorkerTopology& prefill_worker,
                                   RoutingConstraints* constraints);

// OK, or INVALID_ARGUMENT for a preferred taint whose weight is not finite.
absl::Status Validate(const RoutingConstraints& constraints);

// Whether all required taints are among the worker's. REQUIRES: `carried` is sorted.
bool CarriesRequired(const RoutingConstraints& constraints, std::span<const std::string> carried);

// The sum of the weights of the preferred taints among the worker's. REQUIRES: `carried` is sorted.
double PreferredWeight(const RoutingConstraints& constraints, std::span<const std::string> carried);

}  // namespace kvrouter

#endif  // KVROUTER_CORE_SCHEDULE_TAINTS_H_
