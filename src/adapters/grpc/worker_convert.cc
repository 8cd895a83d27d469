#include "adapters/grpc/worker_convert.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "adapters/grpc/request_convert.h"
#include "base/status_macros.h"
#include "feed/feed_stats.h"

namespace kvrouter {
namespace {

absl::StatusOr<WorkerRole> RoleFromProto(int role) {
  switch (role) {
    case v1::WORKER_ROLE_AGGREGATED:
      return WorkerRole::kAggregated;
    case v1::WORKER_ROLE_PREFILL:
      return WorkerRole::kPrefill;
    case v1::WORKER_ROLE_DECODE:
      return WorkerRole::kDecode;
    default:
      return InvalidMessage(
          fmt::format("role must be 0 (aggregated), 1 (prefill) or 2 (decode), got {}", role));
  }
}

absl::StatusOr<KvRole> KvRoleFromProto(int role) {
  switch (role) {
    case v1::KV_ROLE_NONE:
      return KvRole::kNone;
    case v1::KV_ROLE_PRODUCER:
      return KvRole::kProducer;
    case v1::KV_ROLE_CONSUMER:
      return KvRole::kConsumer;
    case v1::KV_ROLE_BOTH:
      return KvRole::kBoth;
    default:
      return InvalidMessage(fmt::format(
          "kv_role must be 0 (none), 1 (producer), 2 (consumer) or 3 (both), got {}", role));
  }
}

v1::KvRole ToProto(KvRole role) {
  switch (role) {
    case KvRole::kNone:
      break;
    case KvRole::kProducer:
      return v1::KV_ROLE_PRODUCER;
    case KvRole::kConsumer:
      return v1::KV_ROLE_CONSUMER;
    case KvRole::kBoth:
      return v1::KV_ROLE_BOTH;
  }
  return v1::KV_ROLE_NONE;
}

v1::WorkerRole ToProto(WorkerRole role) {
  switch (role) {
    case WorkerRole::kAggregated:
      break;
    case WorkerRole::kPrefill:
      return v1::WORKER_ROLE_PREFILL;
    case WorkerRole::kDecode:
      return v1::WORKER_ROLE_DECODE;
  }
  return v1::WORKER_ROLE_AGGREGATED;
}

std::map<uint32_t, EventEndpoints> EventsFromProto(
    const google::protobuf::Map<uint32_t, v1::EventEndpoints>& message) {
  std::map<uint32_t, EventEndpoints> events;
  for (const auto& [dp_rank, endpoints] : message) {
    events[dp_rank] = {.live = endpoints.live(), .replay = endpoints.replay()};
  }
  return events;
}

WorkerTopology FromProto(const v1::Topology& message) {
  WorkerTopology topology;
  topology.topology_domains.insert(message.topology_domains().begin(),
                                   message.topology_domains().end());
  topology.kv_transfer_domain = message.kv_transfer_domain();
  topology.kv_transfer_enforcement = message.kv_transfer_enforcement();
  if (message.has_kv_transfer_preferred_weight())
    topology.kv_transfer_preferred_weight = message.kv_transfer_preferred_weight();
  return topology;
}

void ToProto(const WorkerTopology& topology, v1::Topology* message) {
  message->mutable_topology_domains()->insert(topology.topology_domains.begin(),
                                              topology.topology_domains.end());
  message->set_kv_transfer_domain(topology.kv_transfer_domain);
  message->set_kv_transfer_enforcement(topology.kv_transfer_enforcement);
  if (topology.kv_transfer_preferred_weight)
    message->set_kv_transfer_preferred_weight(*topology.kv_transfer_preferred_weight);
}

std::vector<std::string> Texts(const google::protobuf::RepeatedPtrField<std::string>& field) {
  return {field.begin(), field.end()};
}

const TargetLoad* FindLoad(const std::vector<PartitionSnapshot>& partitions, const WorkerSpec& spec,
                           Target target) {
  for (const PartitionSnapshot& partition : partitions) {
    if (partition.model_name != spec.model_name || partition.routing_group != spec.routing_group) {
      continue;
    }
    const auto it = std::lower_bound(
        partition.loads.begin(), partition.loads.end(), target,
        [](const TargetLoad& load, const Target& wanted) { return load.target < wanted; });
    if (it != partition.loads.end() && it->target == target) return &*it;
  }
  return nullptr;
}

}  // namespace

absl::StatusOr<WorkerSpec> FromProto(const v1::WorkerSpec& message) {
  WorkerSpec spec;
  spec.id = WorkerId{message.worker_id()};
  spec.incarnation = Incarnation{message.incarnation()};
  spec.model_name = NameOrDefault(message.model_name());
  spec.routing_group = NameOrDefault(message.routing_group());
  spec.address = message.address();
  spec.block_size_tokens = message.block_size_tokens();
  spec.dp_start_rank = message.dp_start_rank();
  spec.dp_size = std::max(1u, message.dp_size());
  KVR_ASSIGN_OR_RETURN(spec.role, RoleFromProto(message.role()));
  spec.total_kv_blocks = message.total_kv_blocks();
  spec.max_num_batched_tokens = message.max_num_batched_tokens();
  spec.is_eagle = message.is_eagle();
  if (message.has_image_token_id()) spec.image_token_id = message.image_token_id();
  spec.events = EventsFromProto(message.events());
  spec.taints = Texts(message.taints());
  if (message.has_topology()) spec.topology = FromProto(message.topology());
  if (message.has_lora_adapters()) spec.lora_adapters = Texts(message.lora_adapters().names());
  KVR_ASSIGN_OR_RETURN(spec.kv_role, KvRoleFromProto(message.kv_role()));
  spec.engine_version = message.engine_version();
  return spec;
}

absl::StatusOr<WorkerPatch> FromProto(const v1::UpdateRequest& message) {
  WorkerPatch patch;
  if (message.has_address()) patch.address = message.address();
  if (message.has_block_size_tokens()) patch.block_size_tokens = message.block_size_tokens();
  if (message.has_dp_start_rank()) patch.dp_start_rank = message.dp_start_rank();
  if (message.has_dp_size()) patch.dp_size = message.dp_size();
  if (message.has_role()) {
    KVR_ASSIGN_OR_RETURN(patch.role, RoleFromProto(message.role()));
  }
  if (message.has_draining()) patch.draining = message.draining();
  if (message.has_total_kv_blocks()) patch.total_kv_blocks = message.total_kv_blocks();
  if (message.has_max_num_batched_tokens()) {
    patch.max_num_batched_tokens = message.max_num_batched_tokens();
  }
  if (message.has_is_eagle()) patch.is_eagle = message.is_eagle();
  if (message.has_image_token_id()) patch.image_token_id = message.image_token_id();
  if (message.has_kv_role()) {
    KVR_ASSIGN_OR_RETURN(patch.kv_role, KvRoleFromProto(message.kv_role()));
  }
  if (message.has_engine_version()) patch.engine_version = message.engine_version();
  if (message.has_events()) patch.events = EventsFromProto(message.events().by_rank());
  if (message.has_taints()) patch.taints = Texts(message.taints().names());
  if (message.has_topology()) patch.topology = FromProto(message.topology());
  if (message.has_lora_adapters()) patch.lora_adapters = Texts(message.lora_adapters().names());
  return patch;
}

void ToProto(const WorkerSpec& spec, v1::Worker* message) {
  v1::WorkerSpec* out = message->mutable_spec();
  out->set_worker_id(static_cast<uint64_t>(spec.id));
  out->set_incarnation(static_cast<uint64_t>(spec.incarnation));
  out->set_model_name(spec.model_name);
  out->set_routing_group(spec.routing_group);
  out->set_address(spec.address);
  out->set_block_size_tokens(spec.block_size_tokens);
  out->set_dp_start_rank(spec.dp_start_rank);
  out->set_dp_size(spec.dp_size);
  out->set_role(ToProto(spec.role));
  out->set_total_kv_blocks(spec.total_kv_blocks);
  out->set_max_num_batched_tokens(spec.max_num_batched_tokens);
  out->set_is_eagle(spec.is_eagle);
  if (spec.image_token_id) out->set_image_token_id(*spec.image_token_id);
  out->set_kv_role(ToProto(spec.kv_role));
  out->set_engine_version(spec.engine_version);
  for (const auto& [dp_rank, endpoints] : spec.events) {
    v1::EventEndpoints& to = (*out->mutable_events())[dp_rank];
    to.set_live(endpoints.live);
    to.set_replay(endpoints.replay);
  }
  out->mutable_taints()->Add(spec.taints.begin(), spec.taints.end());
  if (spec.topology != WorkerTopology()) ToProto(spec.topology, out->mutable_topology());
  if (spec.lora_adapters) {
    out->mutable_lora_adapters()->mutable_names()->Add(spec.lora_adapters->begin(),
                                                       spec.lora_adapters->end());
  }
  message->set_draining(spec.draining);
}

void FeedsToProto(const WorkerSpec& spec, const std::vector<FeedReport>& reports,
                  const std::vector<PartitionSnapshot>& partitions, v1::Worker* message) {
  for (uint32_t i = 0; i < spec.dp_size; ++i) {
    const Target target{spec.id, spec.dp_start_rank + i};
    v1::FeedStatus* feed = message->add_feeds();
    feed->set_dp_rank(target.dp_rank);
    if (const TargetLoad* load = FindLoad(partitions, spec, target)) {
      feed->set_index_blocks(load->index_blocks);
    }
    const auto report = std::lower_bound(
        reports.begin(), reports.end(), target,
        [](const FeedReport& r, const Target& wanted) { return r.target < wanted; });
    // No report yet: the source has not come round to this worker.
    const bool reported = report != reports.end() && report->target == target;
    const auto endpoints = spec.events.find(target.dp_rank);
    const bool configured = endpoints != spec.events.end() && !endpoints->second.live.empty();
    const FeedState state = reported     ? report->state
                            : configured ? FeedState::kConnecting
                                         : FeedState::kNone;
    const std::string_view name = FeedStateName(state);
    feed->set_state(name.data(), name.size());
    if (!reported) continue;
    feed->set_detail(report->detail);
    feed->set_events_applied(report->counters.events_applied);
    feed->set_gaps(report->counters.gaps);
    feed->set_restarts(report->counters.restarts);
  }
}

}  // namespace kvrouter
