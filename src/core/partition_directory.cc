#include "core/partition_directory.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <string>

#include "absl/status/statusor.h"
#include "base/status_macros.h"
#include "core/schedule/booking_id.h"
#include "core/schedule/taints.h"
#include "kvrouter/block_hash.h"
#include "kvrouter/error.h"
#include "kvrouter/limits.h"

namespace kvrouter {
namespace {

absl::Status Invalid(std::string_view message) {
  return MakeError(absl::StatusCode::kInvalidArgument, ErrorReason::kInvalidRequest, message);
}

absl::Status LimitReached(std::string_view message) {
  return MakeError(absl::StatusCode::kResourceExhausted, ErrorReason::kLimitReached, message);
}

absl::Status ValidateSpec(const WorkerSpec& spec) {
  if (spec.incarnation == Incarnation{0}) return Invalid("incarnation must be > 0, got 0");
  if (spec.model_name.empty()) return Invalid("model_name must not be empty");
  if (spec.routing_group.empty()) return Invalid("routing_group must not be empty");
  if (spec.block_size_tokens == 0 || spec.block_size_tokens > kMaxBlockSizeTokens) {
    return Invalid(fmt::format("block_size_tokens must be 1..{}, got {}", kMaxBlockSizeTokens,
                               spec.block_size_tokens));
  }
  if (spec.dp_size < 1 || spec.dp_size > kMaxDpSize) {
    return Invalid(fmt::format("dp_size must be in 1..{}, got {}", kMaxDpSize, spec.dp_size));
  }
  if (spec.dp_start_rank > std::numeric_limits<uint32_t>::max() - spec.dp_size) {
    return Invalid(fmt::format("dp_start_rank {} leaves no room for {} ranks", spec.dp_start_rank,
                               spec.dp_size));
  }
  RoutingConstraints unused;
  return AddTopologyConstraint(spec.topology, &unused);
}

// Each partition draws its own numbers, the same in every run with the same seed.
uint64_t SeedOf(const WorkerSpec& spec, uint64_t router_seed) {
  return HashBytes(spec.routing_group, HashBytes(spec.model_name, router_seed));
}

}  // namespace

PartitionDirectory::PartitionDirectory(const RouterConfig& config)
    : config_(config), table_(std::make_shared<const Table>()) {}

std::shared_ptr<Partition> PartitionDirectory::Find(std::string_view model_name,
                                                    std::string_view routing_group) const {
  const auto table = table_.Load();
  const auto it = table->by_names.find(Names{model_name, routing_group});
  return it == table->by_names.end() ? nullptr : it->second;
}

std::shared_ptr<Partition> PartitionDirectory::OfWorker(WorkerId id) const {
  const auto table = table_.Load();
  const auto it = table->by_worker.find(id);
  return it == table->by_worker.end() ? nullptr : it->second;
}

std::shared_ptr<Partition> PartitionDirectory::OfBooking(BookingId id) const {
  const auto table = table_.Load();
  const uint32_t number = PartsOf(id).partition;
  return number < table->by_number.size() ? table->by_number[number] : nullptr;
}

std::vector<std::shared_ptr<Partition>> PartitionDirectory::All() const {
  return table_.Load()->by_number;
}

absl::Status PartitionDirectory::UpsertWorker(const WorkerSpec& spec) {
  KVR_RETURN_IF_ERROR(ValidateSpec(spec));
  MutexLock lock(membership_mu_);
  auto next = std::make_shared<Table>(*table_.Load());
  const auto old = next->by_worker.find(spec.id);
  const std::shared_ptr<Partition> old_home = old == next->by_worker.end() ? nullptr : old->second;
  if (!old_home && next->by_worker.size() >= config_.max_workers) {
    return LimitReached(fmt::format("max_workers reached: {} are registered", config_.max_workers));
  }
  if (old_home) KVR_RETURN_IF_ERROR(old_home->CheckIncarnation(spec));
  KVR_ASSIGN_OR_RETURN(const auto home, FindOrCreate(spec, next.get()));
  KVR_RETURN_IF_ERROR(home->CheckNaming(spec));  // before the old record is touched
  if (old_home && old_home != home) old_home->RemoveWorker(spec.id);
  KVR_RETURN_IF_ERROR(home->PutWorker(spec));
  next->by_worker[spec.id] = home;
  table_.Publish(std::move(next));
  return absl::OkStatus();
}

bool PartitionDirectory::RemoveWorker(WorkerId id) {
  MutexLock lock(membership_mu_);
  auto next = std::make_shared<Table>(*table_.Load());
  const auto it = next->by_worker.find(id);
  if (it == next->by_worker.end()) return false;
  const std::shared_ptr<Partition> home = it->second;
  next->by_worker.erase(it);
  table_.Publish(std::move(next));
  return home->RemoveWorker(id);
}

void PartitionDirectory::Reconfigure(const RouterConfig& config) {
  MutexLock lock(membership_mu_);
  config_ = config;
  for (const auto& partition : table_.Load()->by_number)
    partition->scheduler().Reconfigure(config.scheduler);
}

absl::StatusOr<std::shared_ptr<Partition>> PartitionDirectory::FindOrCreate(const WorkerSpec& spec,
                                                                            Table* table) {
  const auto it = table->by_names.find(Names{spec.model_name, spec.routing_group});
  if (it != table->by_names.end()) return it->second;

  Partition::Identity identity{.model_name = spec.model_name,
                               .routing_group = spec.routing_group,
                               .number = static_cast<uint32_t>(table->by_number.size()),
                               .random_seed = SeedOf(spec, config_.random_seed)};
  if (identity.number >= config_.max_partitions) {
    // Those who still wait there are told so first, by the next Pump.
    const auto empty = std::find_if(
        table->by_number.begin(), table->by_number.end(),
        [](const auto& p) { return p->WorkerCount() == 0 && p->scheduler().WaitingCount() == 0; });
    if (empty == table->by_number.end()) {
      return LimitReached(
          fmt::format("max_partitions reached: {} have workers", config_.max_partitions));
    }
    identity.number = (*empty)->number();
    identity.first_generation = (*empty)->scheduler().NextGeneration();
    table->by_names.erase(Names{(*empty)->model_name(), (*empty)->routing_group()});
  } else {
    table->by_number.emplace_back();
  }
  auto created = std::make_shared<Partition>(std::move(identity), config_);
  table->by_number[created->number()] = created;
  table->by_names[Names{created->model_name(), created->routing_group()}] = created;
  return created;
}

}  // namespace kvrouter
