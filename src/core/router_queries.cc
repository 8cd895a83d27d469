// What the router says without deciding anything.
#include <functional>
#include <memory>
#include <utility>
#include <variant>
#include <vector>

#include "base/status_macros.h"
#include "core/dump_cursor.h"
#include "core/router_impl.h"

namespace kvrouter {

absl::StatusOr<Router::Impl::Looked> Router::Impl::LookUp(const RouteRequest& request,
                                                          DecisionScratch* scratch) const {
  KVR_RETURN_IF_ERROR(ValidateRequest(request));
  KVR_ASSIGN_OR_RETURN(auto partition, FindPartition(request));
  PhaseTimer untimed(nullptr);
  KVR_ASSIGN_OR_RETURN(const IdentifiedPrompt prompt,
                       IdentifyPrompt(request, partition->naming(), &scratch->prompt, &untimed));
  partition->FindOverlap(prompt.local_hashes, &scratch->overlaps, &scratch->lower_overlaps);
  return Looked{.partition = std::move(partition), .prompt = prompt};
}

std::vector<PartitionSnapshot> Router::Snapshot() const {
  std::vector<PartitionSnapshot> snapshots;
  const auto config = Config();
  for (const auto& partition : impl_->directory.All())
    snapshots.push_back(partition->Snapshot(config->scheduler));
  return snapshots;
}

PlanningFigures Router::PlanningState() const {
  const RequestPlanner::Figures planner = impl_->planner.GetFigures();
  PlanningFigures figures{.continuations = planner.continuations,
                          .continuations_evicted_total = planner.continuations_evicted_total};
  for (const auto& partition : impl_->directory.All()) {
    figures.kv_homes += partition->sessions().Homes();
    figures.kv_homes_evicted_total += partition->sessions().HomesEvictedTotal();
  }
  return figures;
}

absl::StatusOr<std::vector<TargetOverlap>> Router::FindOverlap(const RouteRequest& request) const {
  ScratchLease scratch;
  KVR_RETURN_IF_ERROR(impl_->LookUp(request, scratch.get()).status());
  std::vector<TargetOverlap> overlaps;
  auto device = scratch->overlaps.begin();
  const auto devices_end = scratch->overlaps.end();
  const auto push_devices_before = [&](const LowerTierMatch* lower) {
    for (; device != devices_end && (lower == nullptr || device->target < lower->target); ++device)
      overlaps.push_back({.target = device->target, .device_blocks = device->blocks});
  };
  for (const LowerTierMatch& lower : scratch->lower_overlaps) {
    push_devices_before(&lower);
    const bool on_device = device != devices_end && device->target == lower.target;
    overlaps.push_back({.target = lower.target,
                        .device_blocks = on_device ? (device++)->blocks : 0,
                        .host_blocks = lower.host_blocks,
                        .disk_blocks = lower.disk_blocks,
                        .external_blocks = lower.external_blocks});
  }
  push_devices_before(nullptr);
  return overlaps;
}

absl::StatusOr<std::vector<TargetPotentialLoad>> Router::PotentialLoads(
    const RouteRequest& request) const {
  ScratchLease scratch;
  KVR_ASSIGN_OR_RETURN(const auto looked, impl_->LookUp(request, scratch.get()));
  const auto& [partition, prompt] = looked;
  const auto config = Config();
  return partition->scheduler().PotentialLoads(
      {.weights = ResolveWeights(config->scheduler, request.overrides),
       .overlaps = scratch->overlaps,
       .lower_overlaps = scratch->lower_overlaps,
       .chain = Impl::LedgerChain(*config, prompt),
       .isl_tokens = prompt.isl_tokens,
       .block_size_tokens = prompt.block_size_tokens,
       .book = false});
}

absl::StatusOr<DumpCounts> Router::Dump(std::string_view model_name, std::string_view routing_group,
                                        const std::function<bool(const KvEvent&)>& emit) const {
  KVR_ASSIGN_OR_RETURN(const auto cursor, OpenDump(model_name, routing_group));
  std::vector<KvEvent> events;
  for (bool more = true; more;) {
    events.clear();
    more = cursor->Next(&events);
    for (const KvEvent& event : events) {
      if (emit(event)) continue;
      DumpCounts counts = cursor->Counts();
      counts.events = event.event_id + 1;
      counts.complete = false;
      return counts;
    }
  }
  return cursor->Counts();
}

absl::StatusOr<BlockNaming> Router::Naming(std::string_view model_name,
                                           std::string_view routing_group) const {
  KVR_ASSIGN_OR_RETURN(const auto partition, impl_->FindPartition(model_name, routing_group));
  return partition->naming();
}

absl::StatusOr<std::unique_ptr<DumpCursor>> Router::OpenDump(std::string_view model_name,
                                                             std::string_view routing_group) const {
  KVR_ASSIGN_OR_RETURN(auto partition, impl_->FindPartition(model_name, routing_group));
  return std::make_unique<DumpCursor>(std::make_unique<DumpCursor::Impl>(std::move(partition)));
}

bool Router::SaveTarget(Target target, const std::function<void(const KvEvent&)>& emit) const {
  const auto partition = impl_->directory.OfWorker(target.worker);
  if (!partition) return false;
  for (int number = 0; number < kStorageTierCount; ++number) {
    const auto tier = static_cast<StorageTier>(number);
    const auto emit_saved = [&](std::variant<Stored, Removed>&& saved) {
      KvEvent event{.target = target, .tier = tier, .data = Cleared{}};
      std::visit([&](auto& data) { event.data = std::move(data); }, saved);
      emit(event);
    };
    if (!partition->index().SaveTarget(target, emit_saved, tier)) return false;
  }
  return true;
}

}  // namespace kvrouter
