#include "feed/saved_feed_codec.h"

#include <bit>
#include <utility>

#include "base/byte_codec.h"
#include "kvrouter/error.h"
#include "kvrouter/limits.h"

namespace kvrouter {
namespace {

// Flags of an event.
constexpr uint8_t kIsRemoved = 1;
constexpr uint8_t kHasParent = 2;
constexpr uint8_t kParentIsLast = 4;  // the last block of the store before it
constexpr uint8_t kTierShift = 4;

// ---- Writing ----

void WriteOptional(const std::optional<uint64_t>& value, ByteWriter* out) {
  out->Byte(value ? 1 : 0);
  if (value) out->Number(*value);
}

void WriteHead(const SavedFeed& feed, ByteWriter* out) {
  const WorkerSpec& spec = feed.spec;
  out->Number(static_cast<uint64_t>(spec.id));
  out->Number(static_cast<uint64_t>(spec.incarnation));
  out->Text(spec.model_name);
  out->Text(spec.routing_group);
  out->Number(spec.block_size_tokens);
  out->Number(spec.dp_start_rank);
  out->Number(spec.dp_size);
  out->Byte(spec.is_eagle ? 1 : 0);
  WriteOptional(spec.image_token_id, out);
  out->Number(feed.rank);
  const auto endpoints = spec.events.find(feed.rank);
  out->Text(endpoints == spec.events.end() ? "" : endpoints->second.live);
  out->Text(endpoints == spec.events.end() ? "" : endpoints->second.replay);
}

void WriteFilter(const SavedFilter& filter, ByteWriter* out) {
  WriteOptional(filter.main_group, out);
  out->Number(filter.group_is_full_attention.size());
  for (const auto& [group, full] : filter.group_is_full_attention) {
    out->Number(group);
    out->Byte(full ? 1 : 0);
  }
  // Reasons by name: their numbers may change from version to version.
  const int reasons = filter.skipped_blocks.empty() ? 0 : kSkipReasonCount;
  out->Number(static_cast<uint64_t>(reasons));
  for (int i = 0; i < reasons; ++i) out->Text(SkipReasonName(static_cast<SkipReason>(i)));
  out->Number(filter.skipped_blocks.size());
  for (const auto& note : filter.skipped_blocks) {
    out->Word(note.hash);
    out->Number(static_cast<uint64_t>(note.note));
    out->Number(note.count);
    out->Byte(static_cast<uint8_t>(note.tier));
  }
  out->Number(filter.salts.size());
  for (const auto& note : filter.salts) {
    out->Word(note.hash);
    out->Word(note.note);
    out->Number(note.count);
    out->Byte(static_cast<uint8_t>(note.tier));
  }
}

class EventWriter {
 public:
  explicit EventWriter(ByteWriter* out) : out_(*out) {}

  void Write(const SavedEvent& event) {
    const auto tier = static_cast<uint8_t>(static_cast<uint8_t>(event.tier) << kTierShift);
    if (const auto* removed = std::get_if<Removed>(&event.data)) {
      out_.Byte(tier | kIsRemoved);
      out_.Number(removed->engine_hashes.size());
      for (const EngineHash hash : removed->engine_hashes) out_.Word(static_cast<uint64_t>(hash));
      return;
    }
    const auto& stored = std::get<Stored>(event.data);
    const bool follows_last = stored.parent && has_last_ && *stored.parent == last_;
    out_.Byte(static_cast<uint8_t>(tier | (stored.parent ? kHasParent : 0) |
                                   (follows_last ? kParentIsLast : 0)));
    if (stored.parent && !follows_last) out_.Word(static_cast<uint64_t>(*stored.parent));
    out_.Number(stored.blocks.size());
    for (const StoredBlock& block : stored.blocks) {
      out_.Word(static_cast<uint64_t>(block.engine_hash));
      out_.Word(static_cast<uint64_t>(block.local_hash));
    }
    if (stored.blocks.empty()) return;
    has_last_ = true;
    last_ = stored.blocks.back().engine_hash;
  }

 private:
  ByteWriter& out_;
  bool has_last_ = false;
  EngineHash last_{};
};

void WriteProgress(const SavedProgress& progress, ByteWriter* out) {
  out->Number(progress.applied.sequence);
  out->Word(std::bit_cast<uint64_t>(progress.applied.ts_seconds.value_or(0)));
  WriteOptional(progress.base_sequence, out);
  out->Number(progress.orphan_stores);
  out->Byte(progress.history_truncated ? 1 : 0);
  out->Text(progress.damage);
  out->Text(DegradedReasonName(progress.damage_reason));  // by name, as above
  out->Number(progress.ranks.size());
  for (const SavedRank& rank : progress.ranks) {
    out->Number(rank.dp_rank);
    out->Number(rank.held_blocks);
    WriteFilter(rank.filter, out);
    out->Number(rank.blocks.size());
    EventWriter events(out);
    for (const SavedEvent& event : rank.blocks) events.Write(event);
  }
}

// ---- Reading ----

constexpr uint64_t kMax32 = UINT32_MAX;

std::optional<uint64_t> ReadOptional(ByteReader* in) {
  if (in->Byte() == 0) return std::nullopt;
  return in->Number();
}

uint32_t Read32(ByteReader* in) { return static_cast<uint32_t>(in->NumberUpTo(kMax32)); }

SavedFeed ReadHead(ByteReader* in) {
  SavedFeed feed;
  WorkerSpec& spec = feed.spec;
  spec.id = WorkerId{in->Number()};
  spec.incarnation = Incarnation{in->Number()};
  spec.model_name = in->Text();
  spec.routing_group = in->Text();
  spec.block_size_tokens = Read32(in);
  spec.dp_start_rank = Read32(in);
  spec.dp_size = Read32(in);
  spec.is_eagle = in->Byte() != 0;
  if (const auto token = ReadOptional(in)) {
    if (*token > kMax32) in->Fail();
    spec.image_token_id = static_cast<TokenId>(*token);
  }
  feed.rank = Read32(in);
  EventEndpoints& endpoints = spec.events[feed.rank];
  endpoints.live = in->Text();
  endpoints.replay = in->Text();
  if (spec.block_size_tokens == 0 || spec.dp_size == 0 || spec.dp_size > kMaxDpSize) in->Fail();
  return feed;
}

std::vector<std::optional<SkipReason>> ReadReasons(ByteReader* in) {
  std::vector<std::optional<SkipReason>> reasons(in->Count(1));
  for (auto& reason : reasons) {
    const std::string name = in->Text();
    for (int i = 0; i < kSkipReasonCount; ++i) {
      if (SkipReasonName(static_cast<SkipReason>(i)) == name) reason = static_cast<SkipReason>(i);
    }
  }
  return reasons;
}

StorageTier ReadTier(ByteReader* in) {
  const uint8_t tier = in->Byte();
  if (tier < kStorageTierCount) return static_cast<StorageTier>(tier);
  in->Fail();
  return StorageTier::kDevice;
}

SavedFilter ReadFilter(ByteReader* in) {
  SavedFilter filter;
  filter.main_group = ReadOptional(in);
  for (size_t n = in->Count(2); n > 0 && in->ok(); --n) {
    const uint64_t group = in->Number();
    filter.group_is_full_attention.emplace_back(group, in->Byte() != 0);
  }
  const auto reasons = ReadReasons(in);
  for (size_t n = in->Count(11); n > 0 && in->ok(); --n) {
    SavedNote<SkipReason> note{.hash = in->Word()};
    const uint64_t reason = in->Number();
    note.count = Read32(in);
    note.tier = ReadTier(in);
    // A reason of another version would be remembered as another one of ours.
    if (reason >= reasons.size() || !reasons[reason] || note.count == 0) {
      in->Fail();
    } else {
      note.note = *reasons[reason];
      filter.skipped_blocks.push_back(note);
    }
  }
  for (size_t n = in->Count(18); n > 0 && in->ok(); --n) {
    SavedNote<uint64_t> note{
        .hash = in->Word(), .note = in->Word(), .count = Read32(in), .tier = ReadTier(in)};
    if (note.count == 0) in->Fail();
    filter.salts.push_back(note);
  }
  return filter;
}

class EventReader {
 public:
  explicit EventReader(ByteReader* in) : in_(*in) {}

  SavedEvent Read() {
    const uint8_t flags = in_.Byte();
    const uint8_t tier = flags >> kTierShift;
    if (tier >= kStorageTierCount) in_.Fail();
    SavedEvent event{.tier = static_cast<StorageTier>(tier), .data = Removed{}};
    if ((flags & kIsRemoved) != 0) {
      Removed& removed = std::get<Removed>(event.data);
      const size_t hashes = in_.Count(8);
      removed.engine_hashes.reserve(hashes);
      for (size_t n = 0; n < hashes && in_.ok(); ++n)
        removed.engine_hashes.push_back(EngineHash{in_.Word()});
      return event;
    }
    Stored& stored = event.data.emplace<Stored>();
    if ((flags & kParentIsLast) != 0) {
      if (!last_) in_.Fail();
      stored.parent = last_;
    } else if ((flags & kHasParent) != 0) {
      stored.parent = EngineHash{in_.Word()};
    }
    const size_t blocks = in_.Count(16);
    stored.blocks.reserve(blocks);
    for (size_t n = 0; n < blocks && in_.ok(); ++n) {
      const EngineHash engine_hash{in_.Word()};
      stored.blocks.push_back({engine_hash, LocalBlockHash{in_.Word()}});
    }
    if (!stored.blocks.empty()) last_ = stored.blocks.back().engine_hash;
    return event;
  }

 private:
  ByteReader& in_;
  std::optional<EngineHash> last_;
};

SavedRank ReadRank(ByteReader* in) {
  SavedRank rank;
  rank.dp_rank = Read32(in);
  rank.held_blocks = in->Number();
  rank.filter = ReadFilter(in);
  EventReader events(in);
  for (size_t n = in->Count(2); n > 0 && in->ok(); --n) rank.blocks.push_back(events.Read());
  return rank;
}

DegradedReason ReadDegradedReason(ByteReader* in) {
  const std::string name = in->Text();
  for (int i = 0; i < kDegradedReasonCount; ++i) {
    const auto reason = static_cast<DegradedReason>(i);
    if (name == DegradedReasonName(reason)) return reason;
  }
  in->Fail();
  return DegradedReason::kNone;
}

SavedProgress ReadProgress(ByteReader* in) {
  SavedProgress progress;
  progress.applied.sequence = in->Number();
  progress.applied.ts_seconds = std::bit_cast<double>(in->Word());
  progress.base_sequence = ReadOptional(in);
  progress.orphan_stores = in->Number();
  progress.history_truncated = in->Byte() != 0;
  progress.damage = in->Text();
  progress.damage_reason = ReadDegradedReason(in);
  for (size_t n = in->Count(8); n > 0 && in->ok(); --n) progress.ranks.push_back(ReadRank(in));
  return progress;
}

absl::Status Malformed() {
  return MakeError(absl::StatusCode::kDataLoss, ErrorReason::kInvalidRequest,
                   "a section holds no feed that this version can read");
}

}  // namespace

std::string EncodeFeed(const SavedFeed& feed) {
  ByteWriter out;
  WriteHead(feed, &out);
  WriteProgress(feed.progress, &out);
  return std::move(out).Take();
}

absl::StatusOr<SavedFeed> DecodeFeed(std::string_view payload) {
  ByteReader in(payload);
  SavedFeed feed = ReadHead(&in);
  feed.progress = ReadProgress(&in);
  if (!in.AtEnd()) return Malformed();
  return feed;
}

absl::StatusOr<SavedFeed> DecodeFeedHead(std::string_view payload) {
  ByteReader in(payload);
  SavedFeed feed = ReadHead(&in);
  if (!in.ok()) return Malformed();
  return feed;
}

}  // namespace kvrouter
