#include "feed/event_codec.h"

#include "feed/event_fields.h"
#include "feed/msgpack_cursor.h"

namespace kvrouter {
namespace {

using Type = MsgpackCursor::Type;

enum class EventResult : uint8_t { kDecoded, kMalformed, kLostRemoval, kUnknownTag, kNothing };

// The tag of a map event; keys may come in any order.
bool FindTag(MsgpackCursor cursor, uint32_t pairs, std::string_view* tag) {
  for (uint32_t i = 0; i < pairs; ++i) {
    std::string_view key;
    if (!cursor.ReadString(&key)) {
      if (!cursor.Skip() || !cursor.Skip()) return false;
      continue;
    }
    if (key == "type") return cursor.ReadString(tag);
    if (!cursor.Skip()) return false;
  }
  return false;
}

std::optional<RawKind> KindOf(std::string_view tag) {
  if (tag == "BlockStored") return RawKind::kStored;
  if (tag == "BlockRemoved") return RawKind::kRemoved;
  if (tag == "AllBlocksCleared") return RawKind::kCleared;
  return std::nullopt;
}

EventResult Malformed(std::optional<RawKind> kind) {
  const bool removes = kind == RawKind::kRemoved || kind == RawKind::kCleared;
  return removes ? EventResult::kLostRemoval : EventResult::kMalformed;
}

EventResult DecodeKnown(std::string_view tag, EventFields* fields, RawEvent* event) {
  const std::optional<RawKind> kind = KindOf(tag);
  if (!kind) return tag == "Ignored" ? EventResult::kNothing : EventResult::kUnknownTag;
  event->kind = *kind;
  return fields->Finish() ? EventResult::kDecoded : Malformed(kind);
}

EventResult DecodeArrayEvent(MsgpackCursor* cursor, RawBatch* batch, RawEvent* event) {
  uint32_t items = 0;
  std::string_view tag;
  if (!cursor->ReadArray(&items) || items == 0 || !cursor->ReadString(&tag))
    return EventResult::kMalformed;
  const std::optional<RawKind> kind = KindOf(tag);
  EventFields fields(kind, batch, event);
  for (uint32_t i = 1; i < items; ++i) {
    if (!fields.ReadPositional(i, cursor)) return Malformed(kind);
  }
  return DecodeKnown(tag, &fields, event);
}

EventResult DecodeMapEvent(MsgpackCursor* cursor, RawBatch* batch, RawEvent* event) {
  uint32_t pairs = 0;
  std::string_view tag;
  if (!cursor->ReadMap(&pairs) || !FindTag(*cursor, pairs, &tag)) return EventResult::kMalformed;
  const std::optional<RawKind> kind = KindOf(tag);
  EventFields fields(kind, batch, event);
  for (uint32_t i = 0; i < pairs; ++i) {
    std::string_view key;
    const bool named = cursor->ReadString(&key);
    if (!named && !cursor->Skip()) return Malformed(kind);
    if (!(named ? fields.ReadNamed(key, cursor) : cursor->Skip())) return Malformed(kind);
  }
  return DecodeKnown(tag, &fields, event);
}

// Decodes optimistically. What fails is stepped over as a whole, if the bytes are at least
// well-formed msgpack. False: they are not, so where the next event begins is unknown.
bool DecodeEvent(MsgpackCursor* cursor, RawBatch* batch) {
  const size_t hashes_before = batch->hashes.size();
  const size_t tokens_before = batch->tokens.size();
  const size_t items_before = batch->items.size();
  MsgpackCursor attempt = *cursor;
  RawEvent event;
  EventResult result = EventResult::kMalformed;
  if (attempt.Peek() == Type::kArray) {
    result = DecodeArrayEvent(&attempt, batch, &event);
  } else if (attempt.Peek() == Type::kMap) {
    result = DecodeMapEvent(&attempt, batch, &event);
  }
  if (result == EventResult::kDecoded) {
    batch->events.push_back(event);
    *cursor = attempt;
    return true;
  }
  batch->hashes.resize(hashes_before);
  batch->tokens.resize(tokens_before);
  batch->items.resize(items_before);
  if (!cursor->Skip()) return false;
  if (result == EventResult::kLostRemoval) ++batch->lost_removals;
  if (result == EventResult::kMalformed || result == EventResult::kLostRemoval)
    CountSkip(SkipReason::kBadEvent, &batch->skipped);
  if (result == EventResult::kUnknownTag) CountSkip(SkipReason::kUnknownTag, &batch->skipped);
  return true;
}

bool ReadTimestamp(MsgpackCursor* cursor, double* ts_seconds) {
  if (cursor->ReadNil()) return true;  // stays 0
  return cursor->ReadNumber(ts_seconds);
}

bool ReadRank(MsgpackCursor* cursor, std::optional<uint64_t>* rank) {
  if (cursor->ReadNil()) return true;
  MsgpackCursor::Int value;
  if (!cursor->ReadInt(&value)) return false;
  *rank = value.bits;  // a negative one is out of any worker's range
  return true;
}

std::optional<SkipReason> ReadEvents(MsgpackCursor* cursor, RawBatch* batch) {
  uint32_t count = 0;
  if (cursor->ReadNil()) return std::nullopt;
  if (!cursor->ReadArray(&count)) return SkipReason::kBadEnvelope;
  if (count > kMaxEventsPerBatch) return SkipReason::kOversized;
  for (uint32_t i = 0; i < count; ++i) {
    if (!DecodeEvent(cursor, batch)) return SkipReason::kBadEnvelope;
  }
  return std::nullopt;
}

std::optional<SkipReason> DecodeArrayEnvelope(MsgpackCursor cursor, RawBatch* batch) {
  uint32_t items = 0;
  if (!cursor.ReadArray(&items) || items < 2) return SkipReason::kBadEnvelope;
  if (!ReadTimestamp(&cursor, &batch->ts_seconds)) return SkipReason::kBadEnvelope;
  if (auto refused = ReadEvents(&cursor, batch)) return refused;
  if (items > 2 && !ReadRank(&cursor, &batch->rank)) return SkipReason::kBadEnvelope;
  for (uint32_t i = 3; i < items; ++i) {
    if (!cursor.Skip()) return SkipReason::kBadEnvelope;
  }
  return std::nullopt;
}

std::optional<SkipReason> DecodeMapEnvelope(MsgpackCursor cursor, RawBatch* batch) {
  uint32_t pairs = 0;
  bool has_events = false;
  if (!cursor.ReadMap(&pairs)) return SkipReason::kBadEnvelope;
  for (uint32_t i = 0; i < pairs; ++i) {
    std::string_view key;
    if (!cursor.ReadString(&key)) return SkipReason::kBadEnvelope;
    if (key == "ts") {
      if (!ReadTimestamp(&cursor, &batch->ts_seconds)) return SkipReason::kBadEnvelope;
    } else if (key == "events") {
      if (has_events) return SkipReason::kBadEnvelope;
      has_events = true;
      if (auto refused = ReadEvents(&cursor, batch)) return refused;
    } else if (key == "data_parallel_rank" || key == "attn_dp_rank" || key == "dp_rank") {
      if (!ReadRank(&cursor, &batch->rank)) return SkipReason::kBadEnvelope;
    } else if (!cursor.Skip()) {
      return SkipReason::kBadEnvelope;
    }
  }
  if (!has_events) return SkipReason::kBadEnvelope;
  return std::nullopt;
}

void Reset(RawBatch* batch) {
  batch->ts_seconds = 0;
  batch->rank.reset();
  batch->events.clear();
  batch->hashes.clear();
  batch->tokens.clear();
  batch->items.clear();
  batch->skipped.fill(0);
  batch->lost_removals = 0;
}

}  // namespace

std::optional<SkipReason> DecodeBatch(std::string_view payload, RawBatch* batch) {
  Reset(batch);
  if (payload.size() > kMaxPayloadBytes) return SkipReason::kOversized;
  const MsgpackCursor cursor(payload);
  switch (cursor.Peek()) {
    case Type::kArray:
      return DecodeArrayEnvelope(cursor, batch);
    case Type::kMap:
      return DecodeMapEnvelope(cursor, batch);
    default:
      return SkipReason::kBadEnvelope;
  }
}

std::optional<double> PeekTimestamp(std::string_view payload) {
  MsgpackCursor cursor(payload);
  double ts_seconds = 0;
  uint32_t count = 0;
  if (cursor.ReadArray(&count)) {
    if (count < 2 || !ReadTimestamp(&cursor, &ts_seconds)) return std::nullopt;
    return ts_seconds;
  }
  if (!cursor.ReadMap(&count)) return std::nullopt;
  for (uint32_t i = 0; i < count; ++i) {
    std::string_view key;
    if (!cursor.ReadString(&key)) return std::nullopt;
    if (key == "ts") {
      if (!ReadTimestamp(&cursor, &ts_seconds)) return std::nullopt;
      return ts_seconds;
    }
    if (!cursor.Skip()) return std::nullopt;
  }
  return ts_seconds;  // as DecodeBatch: absent is 0
}

}  // namespace kvrouter
