#include "core/partition.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <utility>

#include "base/status_macros.h"
#include "kvrouter/error.h"
#include "kvrouter/limits.h"

namespace kvrouter {
namespace {

bool HasRank(const WorkerSpec& spec, uint32_t dp_rank) {
  return dp_rank >= spec.dp_start_rank && dp_rank - spec.dp_start_rank < spec.dp_size;
}

BlockNaming NamingOf(const WorkerSpec& spec) {
  return {.block_size_tokens = spec.block_size_tokens,
          .is_eagle = spec.is_eagle,
          .image_token_id = spec.image_token_id};
}

// The word: image token 32 bits, whether there is one, EAGLE, block size 30 bits.
constexpr int kImageTokenShift = 32;
constexpr uint64_t kHasImageToken = uint64_t{1} << 31;
constexpr uint64_t kIsEagle = uint64_t{1} << 30;
static_assert(kMaxBlockSizeTokens < kIsEagle);

uint64_t Packed(const BlockNaming& naming) {
  return uint64_t{naming.image_token_id.value_or(0)} << kImageTokenShift |
         (naming.image_token_id ? kHasImageToken : 0) | (naming.is_eagle ? kIsEagle : 0) |
         naming.block_size_tokens;
}

BlockNaming Unpacked(uint64_t word) {
  BlockNaming naming{.block_size_tokens = static_cast<uint32_t>(word & (kIsEagle - 1)),
                     .is_eagle = (word & kIsEagle) != 0};
  if ((word & kHasImageToken) != 0)
    naming.image_token_id = static_cast<TokenId>(word >> kImageTokenShift);
  return naming;
}

std::string ImageTokenText(const BlockNaming& naming) {
  return naming.image_token_id ? fmt::to_string(*naming.image_token_id) : "none";
}

Scheduler::Options SchedulerOptions(const Partition::Identity& identity,
                                    const SchedulerConfig& config, const SessionConfig& sessions) {
  return {.config = config,
          .partition = identity.number,
          .first_generation = identity.first_generation,
          .random_seed = identity.random_seed,
          .model_name = identity.model_name,
          .sessions = sessions};
}

bool KeepsPredictions(const RouterConfig& config) {
  return OverlapSourceOf(config) == OverlapSource::kEvents &&
         config.overlap_source.predicted_ttl.has_value();
}

// What is remembered of bookings has a bound of its own, max_routed_blocks, and is not to be
// forgotten under whoever remembers it.
constexpr BlockIndexLimits kLimitsOfRouted = {.max_device_blocks = ~uint64_t{0},
                                              .max_lower_tier_blocks = ~uint64_t{0}};

BlockIndexLimits LimitsOf(const RouterConfig& config) {
  if (OverlapSourceOf(config) == OverlapSource::kRouting) return kLimitsOfRouted;
  return {.max_device_blocks = config.max_device_blocks,
          .max_lower_tier_blocks = config.max_lower_tier_blocks};
}

std::unique_ptr<RoutedBlocks> MakeRouted(const RouterConfig& config, BlockIndex* index,
                                         BlockIndex* predictions) {
  const OverlapSourceConfig& source = config.overlap_source;
  if (OverlapSourceOf(config) == OverlapSource::kRouting) {
    return std::make_unique<RoutedBlocks>(
        RoutedBlocksConfig{.ttl = source.router_ttl, .max_blocks = source.max_routed_blocks},
        index);
  }
  if (predictions == nullptr) return nullptr;
  return std::make_unique<RoutedBlocks>(
      RoutedBlocksConfig{.ttl = *source.predicted_ttl, .max_blocks = source.max_routed_blocks},
      predictions);
}

// Both ascending; of a target in both the larger figure.
void MergeLargest(std::span<const OverlapMatch> more, std::vector<OverlapMatch>* matches) {
  if (more.empty()) return;
  thread_local std::vector<OverlapMatch> merged;
  merged.clear();
  auto known = matches->cbegin();
  for (const OverlapMatch& match : more) {
    for (; known != matches->cend() && known->target < match.target; ++known)
      merged.push_back(*known);
    merged.push_back(match);
    if (known == matches->cend() || known->target != match.target) continue;
    merged.back().blocks = std::max(match.blocks, known->blocks);
    ++known;
  }
  merged.insert(merged.end(), known, matches->cend());
  matches->swap(merged);
}

}  // namespace

ApplyResult Partition::Gate::Pass(const KvEvent& event, BlockIndex* index) {
  if (closed_.load(std::memory_order_relaxed)) return {.status = ApplyStatus::kUnknownWorker};
  MutexLock lock(mu_);
  // The lock decides; the flag only keeps the queue short.
  if (closed_.load(std::memory_order_relaxed)) return {.status = ApplyStatus::kUnknownWorker};
  if (event.incarnation != spec_->incarnation) return {.status = ApplyStatus::kStaleIncarnation};
  if (!HasRank(*spec_, event.target.dp_rank)) return {.status = ApplyStatus::kUnknownWorker};
  return index->Apply(event);
}

template <typename Enter>
void Partition::Gate::PassBooking(Target target, Incarnation incarnation, const Enter& enter) {
  if (closed_.load(std::memory_order_relaxed)) return;
  MutexLock lock(mu_);
  if (closed_.load(std::memory_order_relaxed)) return;
  if (incarnation == spec_->incarnation && HasRank(*spec_, target.dp_rank)) enter();
}

void Partition::Gate::Set(std::shared_ptr<const WorkerSpec> spec) {
  MutexLock lock(mu_);
  spec_ = std::move(spec);
  closed_.store(false, std::memory_order_relaxed);
}

void Partition::Gate::Close() {
  closed_.store(true, std::memory_order_relaxed);
  MutexLock lock(mu_);  // whoever is inside has left once we have been here
}

Partition::Partition(Identity identity, const RouterConfig& config)
    : identity_(std::move(identity)),
      source_(OverlapSourceOf(config)),
      index_(LimitsOf(config)),
      predictions_(KeepsPredictions(config) ? std::make_unique<BlockIndex>(kLimitsOfRouted)
                                            : nullptr),
      routed_(MakeRouted(config, &index_, predictions_.get())),
      scheduler_(SchedulerOptions(identity_, config.scheduler, config.sessions)),
      sessions_(config.sessions) {}

Partition::Member Partition::FindMember(WorkerId id) const {
  MutexLock lock(members_mu_);
  const auto it = members_.find(id);
  return it == members_.end() ? Member{} : it->second;
}

size_t Partition::WorkerCount() const {
  MutexLock lock(members_mu_);
  return members_.size();
}

absl::Status Partition::CheckIncarnation(const WorkerSpec& spec) const {
  const auto known = FindMember(spec.id).spec;
  if (!known || spec.incarnation >= known->incarnation) return absl::OkStatus();
  return MakeError(
      absl::StatusCode::kFailedPrecondition, ErrorReason::kIncarnationConflict,
      fmt::format("worker {} lives as incarnation {}, got older incarnation {}",
                  static_cast<uint64_t>(spec.id), static_cast<uint64_t>(known->incarnation),
                  static_cast<uint64_t>(spec.incarnation)));
}

BlockNaming Partition::naming() const { return Unpacked(naming_.load(std::memory_order_relaxed)); }

absl::Status Partition::CheckNaming(const WorkerSpec& spec) const {
  const size_t others = WorkerCount() - (FindMember(spec.id).spec ? 1 : 0);
  const BlockNaming ours = naming();
  const BlockNaming theirs = NamingOf(spec);
  if (others == 0 || theirs == ours) return absl::OkStatus();
  if (theirs.block_size_tokens == ours.block_size_tokens) {
    return MakeError(
        absl::StatusCode::kFailedPrecondition, ErrorReason::kBlockNamingConflict,
        fmt::format("model {} routing group {} has is_eagle {} and image_token_id {} ({} other "
                    "workers), worker {} has {} and {}",
                    identity_.model_name, identity_.routing_group, ours.is_eagle,
                    ImageTokenText(ours), others, static_cast<uint64_t>(spec.id), theirs.is_eagle,
                    ImageTokenText(theirs)));
  }
  return MakeError(
      absl::StatusCode::kFailedPrecondition, ErrorReason::kBlockSizeConflict,
      fmt::format("model {} routing group {} has block size {} ({} other workers), worker {} has "
                  "block size {}",
                  identity_.model_name, identity_.routing_group, ours.block_size_tokens, others,
                  static_cast<uint64_t>(spec.id), spec.block_size_tokens));
}

absl::Status Partition::PutWorker(const WorkerSpec& spec) {
  KVR_RETURN_IF_ERROR(CheckIncarnation(spec));
  KVR_RETURN_IF_ERROR(CheckNaming(spec));
  Member known = FindMember(spec.id);
  if (known.spec && known.spec->incarnation != spec.incarnation) {
    RemoveWorker(spec.id);
    known = {};
  }
  if (known.spec && NamingOf(*known.spec) != NamingOf(spec)) {
    known.gate->Close();  // blocks of the old names must not slip in while they are dropped
    DropBlocks(*known.spec);
  }
  naming_.store(Packed(NamingOf(spec)), std::memory_order_relaxed);

  const auto record = std::make_shared<const WorkerSpec>(spec);
  scheduler_.SetWorker(record);
  if (known.gate) {
    known.gate->Set(record);
    DropBlocksOfVanishedRanks(*known.spec, spec);
  } else {
    known.gate = std::make_shared<Gate>(record);
  }
  MutexLock lock(members_mu_);
  members_[spec.id] = {.spec = record, .gate = known.gate};
  return absl::OkStatus();
}

bool Partition::RemoveWorker(WorkerId id) {
  const Member member = FindMember(id);
  if (!member.gate) return false;
  scheduler_.RemoveWorker(id);  // first: from here on no reply names it
  member.gate->Close();
  {
    MutexLock lock(members_mu_);
    members_.erase(id);
  }
  DropBlocks(*member.spec);
  return true;
}

ApplyResult Partition::Apply(const KvEvent& event) {
  if (source_ != OverlapSource::kEvents) {
    events_ignored_.fetch_add(1, std::memory_order_relaxed);
    return {};
  }
  const auto gate = FindMember(event.target.worker).gate;
  return gate ? gate->Pass(event, &index_) : ApplyResult{.status = ApplyStatus::kUnknownWorker};
}

void Partition::Record(Target target, Incarnation incarnation,
                       std::span<const LocalBlockHash> local_hashes,
                       std::span<const SequenceHash> sequence_hashes, MonotonicTime now) {
  if (!routed_) return;
  const auto gate = FindMember(target.worker).gate;
  if (!gate) return;
  gate->PassBooking(target, incarnation,
                    [&] { routed_->Record(target, local_hashes, sequence_hashes, now); });
}

void Partition::FindOverlap(std::span<const LocalBlockHash> query, std::vector<OverlapMatch>* out,
                            std::vector<LowerTierMatch>* lower) const {
  index_.FindOverlap(query, out, lower);  // before the predictions: lower tiers go on from events
  if (!predictions_) return;
  thread_local std::vector<OverlapMatch> predicted;
  predictions_->FindOverlap(query, &predicted);
  MergeLargest(predicted, out);
}

void Partition::DropTarget(Target target) {
  if (routed_) routed_->RemoveTarget(target);
  index_.RemoveTarget(target);
}

void Partition::DropBlocks(const WorkerSpec& spec) {
  for (uint32_t offset = 0; offset < spec.dp_size; ++offset) {
    DropTarget({.worker = spec.id, .dp_rank = spec.dp_start_rank + offset});
  }
}

void Partition::DropBlocksOfVanishedRanks(const WorkerSpec& before, const WorkerSpec& after) {
  for (uint32_t offset = 0; offset < before.dp_size; ++offset) {
    const uint32_t rank = before.dp_start_rank + offset;
    if (!HasRank(after, rank)) DropTarget({.worker = before.id, .dp_rank = rank});
  }
}

PartitionSnapshot Partition::Snapshot(const SchedulerConfig& config) const {
  Scheduler::LoadSnapshot load = scheduler_.Loads(&config.overload);
  for (TargetLoad& target : load.loads) {
    for (size_t tier = 0; tier < kStorageTierCount; ++tier) {
      target.tier_blocks[tier] = index_.HolderBlocks(target.target, static_cast<StorageTier>(tier));
    }
    target.index_blocks = target.tier_blocks[0];
  }
  const BlockIndexStats stats = index_.Stats();
  const BlockNaming naming = this->naming();
  std::optional<RoutedBlocksFigures> routed;
  if (routed_) routed = routed_->Read();
  if (predictions_) routed->bytes += predictions_->Stats().bytes;
  return {.model_name = identity_.model_name,
          .routing_group = identity_.routing_group,
          .block_size_tokens = naming.block_size_tokens,
          .is_eagle = naming.is_eagle,
          .image_token_id = naming.image_token_id,
          .index_unique_blocks = stats.unique_blocks,
          .index_holder_blocks = stats.holder_blocks,
          .tier_blocks = stats.tier_blocks,
          .device_forgotten_total = stats.device_forgotten_blocks,
          .lower_tier_forgotten_total = stats.lower_tier_forgotten_blocks,
          .whole_forgotten_total = stats.whole_forgotten_blocks,
          .index_bytes = stats.bytes,
          .index_nodes = stats.nodes,
          .bookings = load.bookings,
          .bookings_expired_total = load.expired_total,
          .ejections_total = load.ejections_total,
          .ejections_refused_total = load.ejections_refused_total,
          .queue = std::move(load.queue),
          .overlap_source = source_,
          .events_ignored_total = events_ignored_.load(std::memory_order_relaxed),
          .routed = routed,
          .loads = std::move(load.loads),
          .decode_sessions = load.decode_sessions,
          .prefill_sessions = load.prefill_sessions,
          .derived_sessions = sessions_.Figures()};
}

}  // namespace kvrouter
