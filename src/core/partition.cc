#include "core/partition.h"

#include <fmt/format.h>

#include <utility>
#include <variant>

#include "base/status_macros.h"
#include "kvrouter/error.h"

namespace kvrouter {
namespace {

bool HasRank(const WorkerSpec& spec, uint32_t dp_rank) {
  return dp_rank >= spec.dp_start_rank && dp_rank - spec.dp_start_rank < spec.dp_size;
}

Scheduler::Options SchedulerOptions(const Partition::Identity& identity,
                                    const SchedulerConfig& config) {
  return {.config = config,
          .partition = identity.number,
          .first_generation = identity.first_generation,
          .random_seed = identity.random_seed};
}

}  // namespace

std::shared_ptr<const WorkerSpec> Partition::Gate::Spec() {
  MutexLock lock(mu);
  return spec;
}

void Partition::Gate::Set(std::shared_ptr<const WorkerSpec> next) {
  MutexLock lock(mu);
  spec.swap(next);
}

Partition::Partition(Identity identity, const SchedulerConfig& config)
    : identity_(std::move(identity)), scheduler_(SchedulerOptions(identity_, config)) {}

std::shared_ptr<Partition::Gate> Partition::FindGate(WorkerId id) const {
  MutexLock lock(gates_mu_);
  const auto it = gates_.find(id);
  return it == gates_.end() ? nullptr : it->second;
}

size_t Partition::WorkerCount() const {
  MutexLock lock(gates_mu_);
  return gates_.size();
}

absl::Status Partition::CheckIncarnation(const WorkerSpec& spec) const {
  const auto gate = FindGate(spec.id);
  const auto known = gate ? gate->Spec() : nullptr;
  if (!known || spec.incarnation >= known->incarnation) return absl::OkStatus();
  return MakeError(
      absl::StatusCode::kFailedPrecondition, ErrorReason::kIncarnationConflict,
      fmt::format("worker {} lives as incarnation {}, got older incarnation {}",
                  static_cast<uint64_t>(spec.id), static_cast<uint64_t>(known->incarnation),
                  static_cast<uint64_t>(spec.incarnation)));
}

absl::Status Partition::CheckBlockSize(const WorkerSpec& spec) const {
  const size_t others = WorkerCount() - (FindGate(spec.id) ? 1 : 0);
  if (others == 0 || spec.block_size_tokens == block_size_tokens()) return absl::OkStatus();
  return MakeError(
      absl::StatusCode::kFailedPrecondition, ErrorReason::kBlockSizeConflict,
      fmt::format("model {} routing group {} has block size {} ({} other workers), worker {} has "
                  "block size {}",
                  identity_.model_name, identity_.routing_group, block_size_tokens(), others,
                  static_cast<uint64_t>(spec.id), spec.block_size_tokens));
}

absl::Status Partition::PutWorker(const WorkerSpec& spec) {
  KVR_RETURN_IF_ERROR(CheckIncarnation(spec));
  KVR_RETURN_IF_ERROR(CheckBlockSize(spec));
  auto gate = FindGate(spec.id);
  auto known = gate ? gate->Spec() : nullptr;
  if (known && known->incarnation != spec.incarnation) {
    RemoveWorker(spec.id);
    gate = nullptr;
    known = nullptr;
  }
  if (known && known->block_size_tokens != spec.block_size_tokens) {
    gate->Set(nullptr);  // blocks of the old size must not slip in while they are dropped
    DropBlocks(*known);
  }
  block_size_tokens_.store(spec.block_size_tokens, std::memory_order_relaxed);

  const auto record = std::make_shared<const WorkerSpec>(spec);
  scheduler_.SetWorker(record);
  if (!gate) {
    gate = std::make_shared<Gate>();
    gate->Set(record);
    MutexLock lock(gates_mu_);
    gates_[spec.id] = std::move(gate);
    return absl::OkStatus();
  }
  gate->Set(record);
  DropBlocksOfVanishedRanks(*known, spec);
  return absl::OkStatus();
}

bool Partition::RemoveWorker(WorkerId id) {
  const auto gate = FindGate(id);
  if (!gate) return false;
  scheduler_.RemoveWorker(id);  // first: from here on no reply names it
  const auto known = gate->Spec();
  gate->Set(nullptr);
  {
    MutexLock lock(gates_mu_);
    gates_.erase(id);
  }
  DropBlocks(*known);
  return true;
}

ApplyResult Partition::Apply(const KvEvent& event) {
  const auto gate = FindGate(event.target.worker);
  if (!gate) return {.status = ApplyStatus::kUnknownWorker};
  MutexLock lock(gate->mu);
  if (!gate->spec) return {.status = ApplyStatus::kUnknownWorker};
  if (event.incarnation != gate->spec->incarnation) {
    return {.status = ApplyStatus::kStaleIncarnation};
  }
  if (!HasRank(*gate->spec, event.target.dp_rank)) return {.status = ApplyStatus::kUnknownWorker};
  if (event.tier != StorageTier::kDevice && !std::holds_alternative<Cleared>(event.data)) return {};
  return index_.Apply(event);
}

void Partition::DropBlocks(const WorkerSpec& spec) {
  for (uint32_t offset = 0; offset < spec.dp_size; ++offset) {
    index_.RemoveTarget({.worker = spec.id, .dp_rank = spec.dp_start_rank + offset});
  }
}

void Partition::DropBlocksOfVanishedRanks(const WorkerSpec& before, const WorkerSpec& after) {
  for (uint32_t offset = 0; offset < before.dp_size; ++offset) {
    const uint32_t rank = before.dp_start_rank + offset;
    if (!HasRank(after, rank)) index_.RemoveTarget({.worker = before.id, .dp_rank = rank});
  }
}

PartitionSnapshot Partition::Snapshot() const {
  Scheduler::LoadSnapshot load = scheduler_.Loads();
  for (TargetLoad& target : load.loads) target.index_blocks = index_.HolderBlocks(target.target);
  const BlockIndexStats stats = index_.Stats();
  return {.model_name = identity_.model_name,
          .routing_group = identity_.routing_group,
          .block_size_tokens = block_size_tokens(),
          .index_unique_blocks = stats.unique_blocks,
          .index_holder_blocks = stats.holder_blocks,
          .index_bytes = stats.bytes,
          .index_nodes = stats.nodes,
          .bookings = load.bookings,
          .bookings_expired_total = load.expired_total,
          .loads = std::move(load.loads)};
}

}  // namespace kvrouter
