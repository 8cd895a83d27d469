#include "service/indexer_instances.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <map>
#include <utility>

#include "base/status_macros.h"
#include "kvrouter/error.h"

namespace kvrouter {
namespace {

uint64_t Number(WorkerId id) { return static_cast<uint64_t>(id); }

absl::Status Conflict(ErrorReason reason, std::string_view message) {
  return MakeError(absl::StatusCode::kFailedPrecondition, reason, message);
}

// Widens the ranks of an instance without an address so that they hold this one.
absl::Status IncludeRank(uint32_t dp_rank, WorkerSpec* spec) {
  const uint64_t first = std::min(spec->dp_start_rank, dp_rank);
  const uint64_t end =
      std::max(uint64_t{spec->dp_start_rank} + spec->dp_size, uint64_t{dp_rank} + 1);
  if (end - first > kMaxDpSize) {
    return MakeError(
        absl::StatusCode::kInvalidArgument, ErrorReason::kInvalidRequest,
        fmt::format("dp_rank {} beside ranks {}..{} makes {} ranks, limit {}", dp_rank,
                    spec->dp_start_rank, uint64_t{spec->dp_start_rank} + spec->dp_size - 1,
                    end - first, kMaxDpSize));
  }
  spec->dp_start_rank = static_cast<uint32_t>(first);
  spec->dp_size = static_cast<uint32_t>(end - first);
  return absl::OkStatus();
}

WorkerSpec NewInstance(const InstanceRank& rank) {
  WorkerSpec spec;
  spec.id = rank.instance;
  spec.model_name = rank.model_name;
  spec.routing_group = rank.routing_group;
  spec.block_size_tokens = rank.block_size_tokens;
  spec.dp_start_rank = rank.dp_rank;
  spec.draining = true;
  spec.events[rank.dp_rank] = rank.endpoints;
  return spec;
}

absl::StatusOr<WorkerSpec> WithRank(WorkerSpec spec, const InstanceRank& rank) {
  if (spec.model_name != rank.model_name || spec.routing_group != rank.routing_group) {
    return Conflict(ErrorReason::kInvalidRequest,
                    fmt::format("instance {} is registered for model {} in routing group {}",
                                Number(spec.id), spec.model_name, spec.routing_group));
  }
  if (spec.block_size_tokens != rank.block_size_tokens) {
    return Conflict(ErrorReason::kBlockSizeConflict,
                    fmt::format("instance {} has block_size {}, got {}", Number(spec.id),
                                spec.block_size_tokens, rank.block_size_tokens));
  }
  EventEndpoints& endpoints = spec.events[rank.dp_rank];
  if (!endpoints.live.empty()) {
    return Conflict(ErrorReason::kFeedConflict,
                    fmt::format("instance {} dp_rank {} is registered with {} already",
                                Number(spec.id), rank.dp_rank, endpoints.live));
  }
  endpoints = rank.endpoints;
  if (spec.address.empty()) {
    KVR_RETURN_IF_ERROR(IncludeRank(rank.dp_rank, &spec));
  } else if (rank.dp_rank < spec.dp_start_rank ||
             rank.dp_rank - spec.dp_start_rank >= spec.dp_size) {
    return Conflict(ErrorReason::kInvalidRequest,
                    fmt::format("instance {} is a worker of ranks {}..{}, got dp_rank {}",
                                Number(spec.id), spec.dp_start_rank,
                                uint64_t{spec.dp_start_rank} + spec.dp_size - 1, rank.dp_rank));
  }
  return spec;
}

absl::Status NotFound(const InstanceSelector& which) {
  const std::string rank = which.dp_rank ? fmt::format(" dp_rank {}", *which.dp_rank) : "";
  return MakeError(
      absl::StatusCode::kNotFound, ErrorReason::kUnknownWorker,
      fmt::format(
          "instance {}{} is not registered for model {}{}", Number(which.instance), rank,
          which.model_name,
          which.routing_group ? fmt::format(" in routing group {}", *which.routing_group) : ""));
}

ListenerStatus StatusOf(FeedState state) {
  switch (state) {
    case FeedState::kNone:
    case FeedState::kConnecting:
    case FeedState::kRecovering:
      return ListenerStatus::kPending;
    case FeedState::kLive:
    case FeedState::kDegraded:  // goes on from the present; last_error says what may be missing
      return ListenerStatus::kActive;
  }
  return ListenerStatus::kFailed;
}

ListenerStatus Together(std::span<const InstanceListener> listeners) {
  const auto any = [&](ListenerStatus status) {
    return std::any_of(listeners.begin(), listeners.end(),
                       [&](const InstanceListener& one) { return one.status == status; });
  };
  for (const ListenerStatus status :
       {ListenerStatus::kFailed, ListenerStatus::kPending, ListenerStatus::kActive}) {
    if (any(status)) return status;
  }
  return ListenerStatus::kPaused;
}

}  // namespace

absl::Status RegisterInstanceRank(WorkerRegistry* registry, const InstanceRank& rank) {
  return registry->Edit(
      rank.instance, [&](const WorkerSpec* known) -> absl::StatusOr<std::optional<WorkerSpec>> {
        if (rank.endpoints.live.empty()) {
          return MakeError(absl::StatusCode::kInvalidArgument, ErrorReason::kInvalidRequest,
                           "endpoint must not be empty");
        }
        WorkerSpec spec = NewInstance(rank);
        // Bad values first: they are wrong whatever is there.
        KVR_RETURN_IF_ERROR(ValidateWorkerSpec(spec));
        if (known != nullptr) {
          KVR_ASSIGN_OR_RETURN(spec, WithRank(*known, rank));
        }
        return std::optional<WorkerSpec>(std::move(spec));
      });
}

absl::Status UnregisterInstance(WorkerRegistry* registry, const InstanceSelector& which) {
  return registry->Edit(
      which.instance, [&](const WorkerSpec* known) -> absl::StatusOr<std::optional<WorkerSpec>> {
        if (known == nullptr || known->model_name != which.model_name ||
            (which.routing_group && known->routing_group != *which.routing_group))
          return NotFound(which);
        WorkerSpec spec = *known;
        const size_t taken = which.dp_rank ? spec.events.erase(*which.dp_rank)
                                           : std::exchange(spec.events, {}).size();
        if (taken == 0) return NotFound(which);
        if (spec.events.empty() && spec.address.empty()) return std::optional<WorkerSpec>();
        return std::optional<WorkerSpec>(std::move(spec));
      });
}

std::string_view ListenerStatusName(ListenerStatus status) {
  switch (status) {
    case ListenerStatus::kPending:
      return "pending";
    case ListenerStatus::kActive:
      return "active";
    case ListenerStatus::kPaused:
      return "paused";
    case ListenerStatus::kFailed:
      return "failed";
  }
  return "failed";
}

std::vector<Instance> ListInstances(std::span<const WorkerSpec> workers,
                                    std::span<const FeedReport> feeds) {
  std::map<Target, const FeedReport*> by_target;
  for (const FeedReport& feed : feeds) by_target[feed.target] = &feed;
  std::vector<Instance> instances;
  for (const WorkerSpec& spec : workers) {
    Instance instance{.spec = spec, .listeners = {}};
    for (uint32_t i = 0; i < spec.dp_size; ++i) {
      const uint32_t rank = spec.dp_start_rank + i;
      const auto endpoints = spec.events.find(rank);
      const bool has_socket = endpoints != spec.events.end() && !endpoints->second.live.empty();
      const auto feed = by_target.find({spec.id, rank});
      // A socket that was taken away reports until its source has closed it.
      const bool fed = feed != by_target.end() && feed->second->state != FeedState::kNone &&
                       (has_socket || feed->second->source != FeedSource::kSocket);
      if (!has_socket && !fed) continue;
      instance.listeners.push_back(
          {.dp_rank = rank,
           .endpoint = has_socket ? endpoints->second.live : "",
           .status = fed ? StatusOf(feed->second->state) : ListenerStatus::kPending,
           .last_error = fed ? feed->second->detail : ""});
    }
    if (instance.listeners.empty()) continue;
    instance.status = Together(instance.listeners);
    instances.push_back(std::move(instance));
  }
  return instances;
}

}  // namespace kvrouter
