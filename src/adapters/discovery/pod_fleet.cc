#include "adapters/discovery/pod_fleet.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <tuple>
#include <utility>

#include "base/status_macros.h"

namespace kvrouter {
namespace {

std::string Text(const absl::Status& status) {
  return std::string(status.message().data(), status.message().size());
}

absl::Status TooMany(std::string_view what) {
  return absl::ResourceExhaustedError(
      fmt::format("more than {} {}: narrow the selector", PodFleet::kMaxObjects, what));
}

struct Membership {
  bool ready = false;
  bool terminating = true;  // by every slice that names the pod
};

// Several slices may name one pod (dual stack, several services, a slice that is being split).
std::map<std::string, Membership> MembersOf(const std::map<std::string, EndpointSlice>& slices,
                                            const std::map<std::string, Pod>& pods) {
  std::map<std::string, Membership> members;
  for (const auto& [slice_name, slice] : slices) {
    for (const EndpointSlice::Endpoint& endpoint : slice.endpoints) {
      const auto pod = pods.find(endpoint.pod_name);
      if (pod == pods.end()) continue;
      if (!endpoint.pod_uid.empty() && endpoint.pod_uid != pod->second.uid) continue;
      Membership& member = members[endpoint.pod_name];
      member.ready = member.ready || endpoint.ready;
      member.terminating = member.terminating && endpoint.terminating;
    }
  }
  return members;
}

// A pod that claims to be a worker, and its claim to the id where two say the same.
struct Claim {
  const Pod* pod;
  DeclaredWorker worker;
  auto Rank() const { return std::tuple(pod->terminating, worker.spec.draining, pod->name); }
};

}  // namespace

PodFleet::PodFleet(PodDefaults defaults, bool with_slices) : with_slices_(with_slices) {
  pods_.defaults = defaults;
}

PodFleet::View PodFleet::Workers() const {
  View view;
  const auto members = with_slices_ ? MembersOf(slices_.by_name, pods_.by_name)
                                    : std::map<std::string, Membership>();
  std::map<WorkerId, Claim> claims;
  for (const auto& [name, pod] : pods_.by_name) {
    const auto member = members.find(name);
    if (!pod.has_address || (with_slices_ && member == members.end())) continue;
    if (!pod.spec.ok()) {
      view.problems.push_back({name, Text(pod.spec.status())});
      continue;
    }
    if (!pod.outdated.empty()) view.problems.push_back({name, pod.outdated});
    const bool in_use = !with_slices_ || (member->second.ready && !member->second.terminating);
    Claim claim{.pod = &pod, .worker = {.spec = *pod.spec, .life = pod.life}};
    claim.worker.spec.draining = !pod.ready || pod.terminating || !in_use;
    const auto [first, is_first] = claims.try_emplace(claim.worker.spec.id, claim);
    if (is_first) continue;
    if (claim.Rank() < first->second.Rank()) std::swap(claim, first->second);
    view.problems.push_back(
        {claim.pod->name, fmt::format("worker id {} is also pod {}'s",
                                      fmt::underlying(first->first), first->second.pod->name)});
  }
  for (auto& [id, claim] : claims) view.workers.push_back(std::move(claim.worker));
  return view;
}

Pod PodFleet::Pods::KeepLastGood(Pod pod) const {
  const auto before = by_name.find(pod.name);
  if (!pod.has_address || pod.spec.ok() || before == by_name.end() ||
      before->second.uid != pod.uid || !before->second.has_address || !before->second.spec.ok())
    return pod;
  pod.outdated = fmt::format("{}; its last good record stays", Text(pod.spec.status()));
  pod.spec = before->second.spec;
  return pod;
}

absl::Status PodFleet::Pods::AddListed(const nlohmann::json& object) {
  KVR_ASSIGN_OR_RETURN(Pod pod, ReadPod(object, defaults));
  if (incoming.size() >= kMaxObjects) return TooMany("pods");
  incoming.insert_or_assign(pod.name, KeepLastGood(pod));
  return absl::OkStatus();
}

void PodFleet::Pods::CommitList() {
  by_name = std::exchange(incoming, {});
  listed = true;
}

absl::Status PodFleet::Pods::Upsert(const nlohmann::json& object) {
  KVR_ASSIGN_OR_RETURN(Pod pod, ReadPod(object, defaults));
  if (by_name.size() >= kMaxObjects && !by_name.contains(pod.name)) return TooMany("pods");
  by_name.insert_or_assign(pod.name, KeepLastGood(pod));
  return absl::OkStatus();
}

absl::Status PodFleet::Slices::AddListed(const nlohmann::json& object) {
  KVR_ASSIGN_OR_RETURN(EndpointSlice slice, ReadEndpointSlice(object));
  if (incoming.size() >= kMaxObjects) return TooMany("EndpointSlices");
  incoming.insert_or_assign(slice.name, std::move(slice));
  return absl::OkStatus();
}

void PodFleet::Slices::CommitList() {
  by_name = std::exchange(incoming, {});
  listed = true;
}

absl::Status PodFleet::Slices::Upsert(const nlohmann::json& object) {
  KVR_ASSIGN_OR_RETURN(EndpointSlice slice, ReadEndpointSlice(object));
  if (by_name.size() >= kMaxObjects && !by_name.contains(slice.name))
    return TooMany("EndpointSlices");
  by_name.insert_or_assign(slice.name, std::move(slice));
  return absl::OkStatus();
}

}  // namespace kvrouter
