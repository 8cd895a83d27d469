#include "service/worker_registry.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cstdint>
#include <string_view>
#include <system_error>
#include <utility>

#include "base/status_macros.h"
#include "kvrouter/error.h"

namespace kvrouter {
namespace {

absl::Status Invalid(std::string_view message) {
  return MakeError(absl::StatusCode::kInvalidArgument, ErrorReason::kInvalidRequest, message);
}

absl::Status UnknownWorker(WorkerId id) {
  return MakeError(absl::StatusCode::kNotFound, ErrorReason::kUnknownWorker,
                   fmt::format("no worker with worker_id {}", fmt::underlying(id)));
}

absl::Status OtherLife(WorkerId id, Incarnation live, Incarnation expected) {
  return MakeError(
      absl::StatusCode::kFailedPrecondition, ErrorReason::kIncarnationConflict,
      fmt::format("worker_id {} is live with incarnation {}, expected {} (0: not registered)",
                  fmt::underlying(id), fmt::underlying(live), fmt::underlying(expected)));
}

absl::Status CheckText(std::string_view field, std::string_view value, size_t limit_bytes) {
  if (value.empty()) return Invalid(fmt::format("{} must not be empty", field));
  if (value.size() > limit_bytes) {
    return Invalid(fmt::format("{} is {} bytes long, limit {}", field, value.size(), limit_bytes));
  }
  return absl::OkStatus();
}

// HOST:PORT of somebody to connect to, so neither a wildcard nor port 0.
bool IsHostPort(std::string_view text) {
  const size_t colon = text.rfind(':');
  if (colon == std::string_view::npos || colon == 0 || text.substr(0, colon) == "*") return false;
  const std::string_view port_text = text.substr(colon + 1);
  const char* const end = port_text.data() + port_text.size();
  uint16_t port = 0;
  const auto parsed = std::from_chars(port_text.data(), end, port);
  return parsed.ec == std::errc() && parsed.ptr == end && port != 0;
}

absl::Status CheckEndpoint(std::string_view field, uint32_t dp_rank, std::string_view endpoint) {
  const std::string name = fmt::format("events[{}].{}", dp_rank, field);
  KVR_RETURN_IF_ERROR(CheckText(name, endpoint, kMaxAddressBytes));
  constexpr std::string_view kTcp = "tcp://";
  constexpr std::string_view kIpc = "ipc://";
  if (endpoint.starts_with(kTcp) && IsHostPort(endpoint.substr(kTcp.size())))
    return absl::OkStatus();
  if (endpoint.starts_with(kIpc) && endpoint.size() > kIpc.size()) return absl::OkStatus();
  return Invalid(fmt::format(
      "{} must be tcp://HOST:PORT (HOST not *, PORT 1..65535) or ipc://PATH, got \"{}\"", name,
      endpoint));
}

absl::Status CheckEvents(const WorkerSpec& spec) {
  for (const auto& [dp_rank, endpoints] : spec.events) {
    if (dp_rank < spec.dp_start_rank || dp_rank - spec.dp_start_rank >= spec.dp_size) {
      return Invalid(fmt::format("events names dp_rank {}, outside the worker's ranks {}..{}",
                                 dp_rank, spec.dp_start_rank,
                                 uint64_t{spec.dp_start_rank} + spec.dp_size - 1));
    }
    if (!endpoints.live.empty())
      KVR_RETURN_IF_ERROR(CheckEndpoint("live", dp_rank, endpoints.live));
    if (!endpoints.replay.empty())
      KVR_RETURN_IF_ERROR(CheckEndpoint("replay", dp_rank, endpoints.replay));
  }
  return absl::OkStatus();
}

absl::Status CheckNoReplayAlone(const WorkerSpec& spec) {
  for (const auto& [dp_rank, endpoints] : spec.events) {
    if (!endpoints.live.empty() || endpoints.replay.empty()) continue;
    return Invalid(fmt::format(
        "events[{}].replay is set, but live is empty: only an event plane has a use for that",
        dp_rank));
  }
  return absl::OkStatus();
}

template <typename T>
void Assign(const std::optional<T>& from, T* to) {
  if (from) *to = *from;
}

absl::Status CheckTexts(std::string_view field, const std::vector<std::string>& texts,
                        size_t limit) {
  if (texts.size() > limit)
    return Invalid(fmt::format("{} has {} entries, limit {}", field, texts.size(), limit));
  for (const std::string& text : texts) KVR_RETURN_IF_ERROR(CheckText(field, text, kMaxTaintBytes));
  return absl::OkStatus();
}

absl::Status CheckTopology(const WorkerTopology& topology) {
  if (topology.topology_domains.size() > kMaxTopologyDomains) {
    return Invalid(fmt::format("topology_domains has {} entries, limit {}",
                               topology.topology_domains.size(), kMaxTopologyDomains));
  }
  for (const auto& [domain, label] : topology.topology_domains) {
    KVR_RETURN_IF_ERROR(CheckText("topology_domains", domain, kMaxTaintBytes));
    KVR_RETURN_IF_ERROR(CheckText("topology_domains", label, kMaxTaintBytes));
  }
  return absl::OkStatus();  // whether it says something sensible is for the core to check
}

}  // namespace

void Apply(const WorkerPatch& patch, WorkerSpec* spec) {
  Assign(patch.address, &spec->address);
  Assign(patch.block_size_tokens, &spec->block_size_tokens);
  Assign(patch.dp_start_rank, &spec->dp_start_rank);
  Assign(patch.dp_size, &spec->dp_size);
  Assign(patch.role, &spec->role);
  Assign(patch.draining, &spec->draining);
  Assign(patch.total_kv_blocks, &spec->total_kv_blocks);
  Assign(patch.max_num_batched_tokens, &spec->max_num_batched_tokens);
  Assign(patch.is_eagle, &spec->is_eagle);
  if (patch.image_token_id) spec->image_token_id = patch.image_token_id;
  Assign(patch.events, &spec->events);
  Assign(patch.kv_role, &spec->kv_role);
  Assign(patch.engine_version, &spec->engine_version);
  Assign(patch.taints, &spec->taints);
  Assign(patch.topology, &spec->topology);
  if (patch.lora_adapters) spec->lora_adapters = patch.lora_adapters;
}

bool SameFeedBasis(const WorkerSpec& a, const WorkerSpec& b) {
  return SameBlocks(a, b) && a.dp_start_rank == b.dp_start_rank && a.dp_size == b.dp_size;
}

absl::Status ValidateWorkerSpec(const WorkerSpec& spec) {
  KVR_RETURN_IF_ERROR(CheckText("model_name", spec.model_name, kMaxNameBytes));
  KVR_RETURN_IF_ERROR(CheckText("routing_group", spec.routing_group, kMaxNameBytes));
  if (spec.engine_version.size() > kMaxNameBytes) {
    return Invalid(fmt::format("engine_version is {} bytes long, limit {}",
                               spec.engine_version.size(), kMaxNameBytes));
  }
  if (!spec.address.empty() || !spec.draining)
    KVR_RETURN_IF_ERROR(CheckText("address", spec.address, kMaxAddressBytes));
  if (spec.block_size_tokens == 0 || spec.block_size_tokens > kMaxBlockSizeTokens) {
    return Invalid(fmt::format("block_size_tokens must be 1..{}, got {}", kMaxBlockSizeTokens,
                               spec.block_size_tokens));
  }
  if (spec.dp_size == 0 || spec.dp_size > kMaxDpSize) {
    return Invalid(fmt::format("dp_size must be 1..{}, got {}", kMaxDpSize, spec.dp_size));
  }
  if (spec.dp_start_rank > UINT32_MAX - spec.dp_size) {
    return Invalid(fmt::format("dp_start_rank must be at most {} with dp_size {}, got {}",
                               UINT32_MAX - spec.dp_size, spec.dp_size, spec.dp_start_rank));
  }
  if (spec.incarnation > Incarnation{kMaxIncarnation}) {
    return Invalid(fmt::format("incarnation must be at most {}, got {}", kMaxIncarnation,
                               fmt::underlying(spec.incarnation)));
  }
  KVR_RETURN_IF_ERROR(CheckTexts("taints", spec.taints, kMaxTaintsPerWorker));
  KVR_RETURN_IF_ERROR(CheckTopology(spec.topology));
  if (spec.lora_adapters)
    KVR_RETURN_IF_ERROR(CheckTexts("lora_adapters", *spec.lora_adapters, kMaxAdaptersPerWorker));
  return CheckEvents(spec);
}

WorkerRegistry::WorkerRegistry(Router* router) : router_(router) {}

void WorkerRegistry::AddListener(WorkerListener* listener) {
  MutexLock lock(mu_);
  listeners_.push_back(listener);
}

void WorkerRegistry::RememberLives(std::map<WorkerId, Incarnation> lives) {
  std::erase_if(lives, [](const auto& life) {
    return life.second == Incarnation{} || life.second > Incarnation{kMaxIncarnation};
  });
  MutexLock lock(mu_);
  for (const auto& [id, life] : lives)
    next_incarnation_ = std::max(next_incarnation_, static_cast<uint64_t>(life) + 1);
  remembered_lives_ = std::move(lives);
}

Incarnation WorkerRegistry::NextLifeLocked(WorkerId id) {
  const auto remembered = remembered_lives_.find(id);
  return remembered == remembered_lives_.end() ? Incarnation{next_incarnation_}
                                               : remembered->second;
}

absl::StatusOr<WorkerSpec> WorkerRegistry::Register(WorkerSpec spec) {
  absl::StatusOr<WorkerSpec> stored = TryRegister(std::move(spec));
  refused_.Count(stored.status());
  return stored;
}

absl::StatusOr<WorkerSpec> WorkerRegistry::Update(WorkerId id, const WorkerPatch& patch) {
  absl::StatusOr<WorkerSpec> stored = TryUpdate(id, patch);
  refused_.Count(stored.status());
  return stored;
}

absl::Status WorkerRegistry::Edit(WorkerId id, const WorkerEdit& edit) {
  absl::Status edited = TryEdit(id, edit);
  refused_.Count(edited);
  return edited;
}

absl::StatusOr<WorkerSpec> WorkerRegistry::TryRegister(WorkerSpec spec) {
  KVR_RETURN_IF_ERROR(ValidateWorkerSpec(spec));
  MutexLock lock(mu_);
  const bool asks_for_drain = spec.draining;
  bool same_life = false;
  const auto known = workers_.find(spec.id);
  if (known != workers_.end()) {
    const Incarnation live = known->second.incarnation;
    if (spec.incarnation == Incarnation{}) spec.incarnation = live;
    if (spec.incarnation < live) {
      return MakeError(absl::StatusCode::kFailedPrecondition, ErrorReason::kIncarnationConflict,
                       fmt::format("worker_id {} is live with incarnation {}, got the older {}",
                                   fmt::underlying(spec.id), fmt::underlying(live),
                                   fmt::underlying(spec.incarnation)));
    }
    same_life = spec.incarnation == live;
    const bool drained = known->second.draining && !DrainsForWantOfAddress(known->second);
    if (same_life && drained) spec.draining = true;
  } else if (spec.incarnation == Incarnation{}) {
    spec.incarnation = NextLifeLocked(spec.id);
  }
  absl::StatusOr<WorkerSpec> stored = StoreLocked(std::move(spec));
  if (stored.ok() && (asks_for_drain || !same_life)) NoteDrainLocked(stored->id, asks_for_drain);
  return stored;
}

absl::Status WorkerRegistry::TryEdit(WorkerId id, const WorkerEdit& edit) {
  MutexLock lock(mu_);
  const auto known = workers_.find(id);
  const bool is_known = known != workers_.end();
  KVR_ASSIGN_OR_RETURN(std::optional<WorkerSpec> spec, edit(is_known ? &known->second : nullptr));
  if (!spec) {
    if (is_known) RemoveLocked(id, known->second.incarnation);
    return absl::OkStatus();
  }
  spec->id = id;
  spec->incarnation = is_known ? known->second.incarnation : NextLifeLocked(id);
  KVR_RETURN_IF_ERROR(ValidateWorkerSpec(*spec));
  return StoreLocked(*std::move(spec)).status();
}

bool WorkerRegistry::DrainsForWantOfAddress(const WorkerSpec& spec) const {
  return spec.address.empty() && !drained_by_callers_.contains(spec.id);
}

absl::StatusOr<WorkerSpec> WorkerRegistry::TryUpdate(WorkerId id, const WorkerPatch& patch) {
  MutexLock lock(mu_);
  const auto known = workers_.find(id);
  if (known == workers_.end()) return UnknownWorker(id);
  WorkerSpec spec = known->second;
  if (patch.address && DrainsForWantOfAddress(spec)) spec.draining = false;
  Apply(patch, &spec);
  KVR_RETURN_IF_ERROR(ValidateWorkerSpec(spec));
  absl::StatusOr<WorkerSpec> stored = StoreLocked(std::move(spec));
  if (stored.ok() && patch.draining) NoteDrainLocked(id, *patch.draining);
  return stored;
}

absl::StatusOr<WorkerSpec> WorkerRegistry::Drain(WorkerId id) {
  WorkerPatch patch;
  patch.draining = true;
  return Update(id, patch);
}

absl::Status WorkerRegistry::Remove(WorkerId id) {
  MutexLock lock(mu_);
  const auto known = workers_.find(id);
  if (known == workers_.end()) return UnknownWorker(id);
  RemoveLocked(id, known->second.incarnation);
  return absl::OkStatus();
}

absl::StatusOr<WorkerSpec> WorkerRegistry::RegisterDeclared(DeclaredUpsert declared) {
  WorkerSpec& spec = declared.spec;
  spec.incarnation = Incarnation{};
  KVR_RETURN_IF_ERROR(ValidateWorkerSpec(spec));
  MutexLock lock(mu_);
  const auto known = workers_.find(spec.id);
  const Incarnation live = known == workers_.end() ? Incarnation{} : known->second.incarnation;
  if (live != declared.expected) return OtherLife(spec.id, live, declared.expected);
  const bool begins = declared.new_life || live == Incarnation{};
  spec.incarnation = begins ? NextLifeLocked(spec.id) : live;
  if (!begins && drained_by_callers_.contains(spec.id)) spec.draining = true;
  absl::StatusOr<WorkerSpec> stored = StoreLocked(std::move(spec));
  if (stored.ok() && begins) NoteDrainLocked(stored->id, false);
  return stored;
}

absl::Status WorkerRegistry::RemoveLife(WorkerId id, Incarnation incarnation) {
  MutexLock lock(mu_);
  const auto known = workers_.find(id);
  if (known == workers_.end()) return UnknownWorker(id);
  if (known->second.incarnation != incarnation)
    return OtherLife(id, known->second.incarnation, incarnation);
  RemoveLocked(id, incarnation);
  return absl::OkStatus();
}

void WorkerRegistry::RemoveLocked(WorkerId id, Incarnation incarnation) {
  workers_.erase(id);
  drained_by_callers_.erase(id);
  version_.fetch_add(1, std::memory_order_release);
  router_->RemoveWorker(id);
  for (WorkerListener* listener : listeners_) listener->OnWorkerRemoved(id, incarnation);
}

void WorkerRegistry::NoteDrainLocked(WorkerId id, bool draining) {
  if (draining) {
    drained_by_callers_.insert(id);
  } else {
    drained_by_callers_.erase(id);
  }
}

std::optional<WorkerSpec> WorkerRegistry::Find(WorkerId id) const {
  MutexLock lock(mu_);
  const auto known = workers_.find(id);
  if (known == workers_.end()) return std::nullopt;
  return known->second;
}

std::vector<WorkerSpec> WorkerRegistry::List() const {
  MutexLock lock(mu_);
  std::vector<WorkerSpec> specs;
  specs.reserve(workers_.size());
  for (const auto& [id, spec] : workers_) specs.push_back(spec);
  return specs;
}

absl::StatusOr<WorkerSpec> WorkerRegistry::StoreLocked(WorkerSpec spec) {
  const auto known = workers_.find(spec.id);
  if (known != workers_.end() && known->second == spec) return spec;
  if (!allow_replay_alone_) KVR_RETURN_IF_ERROR(CheckNoReplayAlone(spec));
  KVR_RETURN_IF_ERROR(router_->UpsertWorker(spec));
  // Past everything ever seen, so that a worker which was removed and comes back is told apart from
  // its old life.
  next_incarnation_ = std::max(next_incarnation_, static_cast<uint64_t>(spec.incarnation) + 1);
  workers_.insert_or_assign(spec.id, spec);
  remembered_lives_.erase(spec.id);
  version_.fetch_add(1, std::memory_order_release);
  for (WorkerListener* listener : listeners_) listener->OnWorkerChanged(spec);
  return spec;
}

}  // namespace kvrouter
