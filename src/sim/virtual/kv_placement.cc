#include <fmt/format.h>

#include <string>
#include <utility>
#include <vector>

#include "base/check.h"
#include "base/status_macros.h"
#include "kvrouter/router.h"
#include "sim/virtual/kv_moves.h"
#include "sim/virtual/placement.h"

namespace kvrouter::sim {
namespace {

constexpr Incarnation kOnlyLife{1};

class KvPlacement final : public Placement {
 public:
  KvPlacement(const PlacementInputs& inputs, const RouterConfig& config)
      : inputs_(inputs),
        router_(config, /*sink=*/nullptr),
        bookings_(inputs.trace.rows.size(), kNoBooking) {}

  absl::Status RegisterWorkers();
  absl::StatusOr<Placed> Place(size_t row_index, MonotonicTime now) override;
  void See(uint32_t worker, const EngineEvent& event) override;

 private:
  void Apply(uint32_t worker, std::variant<Stored, Removed, Cleared> data);
  Stored StoredEvent(uint32_t worker, const BlocksStored& stored) const;

  const PlacementInputs inputs_;
  Router router_;
  std::vector<BookingId> bookings_;  // by row index
  uint64_t next_event_id_ = 0;
};

absl::Status KvPlacement::RegisterWorkers() {
  for (uint32_t worker = 0; worker < inputs_.fleet.size(); ++worker) {
    WorkerSpec spec;
    spec.id = WorkerId{worker};
    spec.incarnation = kOnlyLife;
    spec.address = fmt::format("virtual-{}", worker);
    spec.block_size_tokens = inputs_.trace.block_size_tokens;
    spec.kv_role = KvRole::kBoth;
    KVR_RETURN_IF_ERROR(router_.UpsertWorker(spec));
  }
  return absl::OkStatus();
}

absl::StatusOr<Placed> KvPlacement::Place(size_t row_index, MonotonicTime now) {
  const TraceRow& row = inputs_.trace.rows[row_index];
  const std::vector<LocalBlockHash> local_hashes = inputs_.blocks.LocalHashes(row);
  RouteRequest request;
  request.request_id = std::to_string(row_index);
  request.prompt =
      HashPrompt{.local_hashes = local_hashes, .sequence_hashes = {}, .isl_tokens = row.isl_tokens};
  KVR_ASSIGN_OR_RETURN(const Router::Submission submission, router_.Submit(request, now));
  const auto* decision = std::get_if<RouteDecision>(&submission);
  if (decision == nullptr) {
    return absl::UnimplementedError("the router made a request wait: queues are not simulated");
  }
  bookings_[row_index] = decision->booking;
  Placed placed{.worker = static_cast<uint32_t>(decision->target.worker),
                .overlap_blocks = decision->overlap_blocks};
  if (!decision->planning || !decision->planning->migration) return placed;
  placed.migration = decision->planning->migration->outcome;
  if (decision->plan == Plan::kMigrate) {
    const Leg& source = decision->planning->legs.legs.front();
    placed.pull = Pull{.source = static_cast<uint32_t>(source.where->target.worker),
                       .timeout = source.timeout.value()};
  }
  return placed;
}

void KvPlacement::See(uint32_t worker, const EngineEvent& event) {
  if (const auto* stored = std::get_if<BlocksStored>(&event.what)) {
    Apply(worker, StoredEvent(worker, *stored));
  } else if (const auto* removed = std::get_if<BlocksRemoved>(&event.what)) {
    Apply(worker, Removed{.engine_hashes = removed->hashes});
  } else if (const auto* first = std::get_if<FirstToken>(&event.what)) {
    if (KvMoves::IsSourceStep(first->id)) return;
    router_.PrefillComplete(bookings_[first->id], event.at);
  } else if (const auto* tokens = std::get_if<TokensGenerated>(&event.what)) {
    if (KvMoves::IsSourceStep(tokens->id)) return;
    router_.OutputTokens(bookings_[tokens->id], tokens->output_tokens, std::nullopt, event.at);
  } else if (const auto* finished = std::get_if<RequestFinished>(&event.what)) {
    if (KvMoves::IsSourceStep(finished->id)) return;
    router_.Finish(bookings_[finished->id], event.at);
  }
}

Stored KvPlacement::StoredEvent(uint32_t worker, const BlocksStored& stored) const {
  const std::vector<uint32_t>& ids = inputs_.trace.rows[KvMoves::RowOf(stored.id)].block_ids;
  Stored data;
  if (stored.first_block > 0) {
    data.parent = TraceBlocks::EngineHashOf(worker, ids[stored.first_block - 1]);
  }
  data.blocks.reserve(stored.count);
  for (uint64_t i = stored.first_block; i < stored.first_block + stored.count; ++i) {
    data.blocks.push_back({.engine_hash = TraceBlocks::EngineHashOf(worker, ids[i]),
                           .local_hash = inputs_.blocks.LocalHash(ids[i])});
  }
  return data;
}

void KvPlacement::Apply(uint32_t worker, std::variant<Stored, Removed, Cleared> data) {
  KvEvent event;
  event.target = {.worker = WorkerId{worker}, .dp_rank = 0};
  event.incarnation = kOnlyLife;
  event.event_id = next_event_id_++;
  event.data = std::move(data);
  const ApplyResult result = router_.Apply(event);
  // Nothing is lost on the way here: a refused event is a bug of the index or the model.
  KVR_CHECK(result.status == ApplyStatus::kOk, "worker={} event={} status={}", worker,
            event.event_id, static_cast<int>(result.status));
}

}  // namespace

absl::StatusOr<std::unique_ptr<Placement>> MakeKvPlacement(const PlacementInputs& inputs,
                                                           const RouterConfig& config) {
  KVR_RETURN_IF_ERROR(Validate(config));
  auto placement = std::make_unique<KvPlacement>(inputs, config);
  KVR_RETURN_IF_ERROR(placement->RegisterWorkers());
  return placement;
}

}  // namespace kvrouter::sim
