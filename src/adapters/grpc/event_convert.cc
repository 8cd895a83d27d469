#include "adapters/grpc/event_convert.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "adapters/grpc/answer_convert.h"
#include "adapters/grpc/request_convert.h"

namespace kvrouter {
namespace {

// Names that the feed's filter reads back.
std::string_view MediumOf(StorageTier tier) {
  switch (tier) {
    case StorageTier::kDevice:
      return "GPU";
    case StorageTier::kHostPinned:
      return "CPU";
    case StorageTier::kDisk:
      return "DISK";
    case StorageTier::kExternal:
      return "EXTERNAL";
  }
  return "";
}

// Builds a DecodedBatch event by event.
class BatchBuilder {
 public:
  explicit BatchBuilder(DecodedBatch* batch) : batch_(batch), raw_(&batch->raw) {}

  void Add(const v1::KvEvent& message) {
    RawEvent event;
    switch (message.event_case()) {
      case v1::KvEvent::kStored:
        if (!AddStored(message.stored(), &event)) {
          return CountSkip(SkipReason::kBadEvent, &raw_->skipped);
        }
        break;
      case v1::KvEvent::kRemoved:
        AddRemoved(message.removed(), &event);
        break;
      case v1::KvEvent::kCleared:
        event.kind = RawKind::kCleared;
        break;
      case v1::KvEvent::EVENT_NOT_SET:
        return CountSkip(SkipReason::kUnknownTag, &raw_->skipped);
    }
    raw_->events.push_back(event);
  }

 private:
  bool AddStored(const v1::BlocksStored& from, RawEvent* event) {
    if (from.token_ids_size() > 0 && from.local_block_hashes_size() > 0) return false;
    if (from.block_items_size() > from.engine_hashes_size()) return false;
    event->kind = RawKind::kStored;
    event->hashes = Append(from.engine_hashes(), &raw_->hashes);
    if (from.has_parent_hash()) event->parent = from.parent_hash();
    event->block_size_tokens = from.block_size_tokens();
    event->tokens = Append(from.token_ids(), &raw_->tokens);
    const uint64_t positions = uint64_t{event->hashes.count} * event->block_size_tokens;
    event->tokens_in_pairs = positions > 0 && event->tokens.count == positions + 1;
    event->local_hashes = Append(from.local_block_hashes(), &raw_->local_hashes);
    event->items.begin = static_cast<uint32_t>(raw_->items.size());
    for (int block = 0; block < from.block_items_size(); ++block) {
      for (const uint64_t hash : from.block_items(block).item_hashes()) {
        raw_->items.push_back({static_cast<uint32_t>(block), MultimodalHash{hash}});
      }
    }
    event->items.count = static_cast<uint32_t>(raw_->items.size()) - event->items.begin;
    event->lora_name = Keep(from.lora_name());
    event->cache_salt = Keep(from.cache_salt());
    event->medium = Keep(from.medium());
    if (from.has_group_index()) event->group_idx = from.group_index();
    event->spec_kind = Keep(from.attention_kind());
    return true;
  }

  void AddRemoved(const v1::BlocksRemoved& from, RawEvent* event) {
    event->kind = RawKind::kRemoved;
    event->hashes = Append(from.engine_hashes(), &raw_->hashes);
    event->medium = Keep(from.medium());
    if (from.has_group_index()) event->group_idx = from.group_index();
  }

  template <typename From, typename To>
  Slice Append(const google::protobuf::RepeatedField<From>& from, std::vector<To>* to) {
    const Slice slice{static_cast<uint32_t>(to->size()), static_cast<uint32_t>(from.size())};
    for (const From value : from) to->push_back(To{value});
    return slice;
  }

  // Most events of a batch carry the same few texts.
  std::string_view Keep(const std::string& text) {
    if (text.empty()) return {};
    for (size_t i = 0; i < std::min<size_t>(8, batch_->texts.size()); ++i) {
      if (batch_->texts[i] == text) return batch_->texts[i];
    }
    return batch_->texts.emplace_back(text);
  }

  DecodedBatch* const batch_;
  RawBatch* const raw_;
};

size_t MemoryOf(const DecodedBatch& batch) {
  const RawBatch& raw = batch.raw;
  size_t bytes = sizeof(batch) + raw.events.size() * sizeof(RawEvent) +
                 raw.hashes.size() * sizeof(uint64_t) + raw.tokens.size() * sizeof(TokenId) +
                 raw.local_hashes.size() * sizeof(LocalBlockHash) +
                 raw.items.size() * sizeof(BlockItem);
  for (const std::string& text : batch.texts) bytes += sizeof(text) + text.size();
  return bytes;
}

}  // namespace

void ToProto(const KvEvent& event, uint32_t block_size_tokens, v1::DumpedEvent* message) {
  ToProto(event.target, message->mutable_target());
  message->set_incarnation(static_cast<uint64_t>(event.incarnation));
  message->set_event_id(event.event_id);
  const auto& from = std::get<Stored>(event.data);
  v1::BlocksStored* stored = message->mutable_stored();
  if (from.parent) stored->set_parent_hash(static_cast<uint64_t>(*from.parent));
  stored->set_block_size_tokens(block_size_tokens);
  for (const StoredBlock& block : from.blocks) {
    stored->add_engine_hashes(static_cast<uint64_t>(block.engine_hash));
    stored->add_local_block_hashes(static_cast<uint64_t>(block.local_hash));
  }
  const std::string_view medium = MediumOf(event.tier);
  stored->set_medium(medium.data(), medium.size());
}

void ToProto(const DumpCounts& counts, v1::DumpCounts* message) {
  message->set_events(counts.events);
  message->set_blocks(counts.blocks);
  message->set_omitted_blocks(counts.omitted_blocks);
}

FeedBatch FromProto(const v1::EventBatch& message) {
  auto batch = std::make_shared<DecodedBatch>();
  const double ts_seconds = message.timestamp_seconds();
  // Not a number equals nothing, so that no batch would ever be known again.
  batch->raw.ts_seconds = std::isnan(ts_seconds) ? 0 : ts_seconds;
  if (static_cast<uint32_t>(message.events_size()) > kMaxEventsPerBatch) {
    batch->refused = SkipReason::kOversized;
  } else {
    BatchBuilder builder(batch.get());
    for (const v1::KvEvent& event : message.events()) builder.Add(event);
  }
  batch->bytes = MemoryOf(*batch);
  return {.mark = {message.sequence(), batch->raw.ts_seconds}, .decoded = std::move(batch)};
}

absl::StatusOr<PublishStart> FromProto(const v1::PublishStart& message) {
  PublishStart start{.target = {WorkerId{message.worker_id()}, message.dp_rank()},
                     .incarnation = std::nullopt,
                     .can_replay = message.can_replay(),
                     .counting = std::nullopt};
  if (message.has_incarnation()) start.incarnation = Incarnation{message.incarnation()};
  switch (message.store_counting()) {
    case v1::STORE_COUNTING_DEFAULT:
      break;
    case v1::STORE_COUNTING_COUNTED:
      start.counting = StoreCounting::kCounted;
      break;
    case v1::STORE_COUNTING_SET:
      start.counting = StoreCounting::kSet;
      break;
    default:
      return InvalidMessage(
          fmt::format("store_counting must be 0 (default), 1 (counted) or 2 (set), got {}",
                      static_cast<int>(message.store_counting())));
  }
  return start;
}

void ToProto(const PublishStatus& status, v1::PublishResponse* message) {
  if (status.acknowledged_sequence) {
    message->set_acknowledged_sequence(*status.acknowledged_sequence);
  }
  if (status.replay) {
    message->mutable_replay_from()->set_replay_id(status.replay->id);
    message->mutable_replay_from()->set_sequence(status.replay->from_sequence);
  }
  const std::string_view state = FeedStateName(status.state);
  message->set_state(state.data(), state.size());
  message->set_detail(status.detail);
  message->set_skipped(status.skipped);
}

}  // namespace kvrouter
