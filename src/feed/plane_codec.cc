#include "feed/plane_codec.h"

#include <utility>

#include "base/ascii.h"
#include "feed/msgpack_cursor.h"

namespace kvrouter {
namespace {

constexpr size_t kFrameHeadBytes = 5;
constexpr char kFrameVersion = 1;

// Walks a map: `field` gets each key and a cursor on its value, and says whether the value is fine.
// False when it is no map, or bytes end, or a field is not fine.
template <typename Field>
bool ReadFields(MsgpackCursor* cursor, const Field& field) {
  uint32_t pairs = 0;
  if (!cursor->ReadMap(&pairs)) return false;
  for (uint32_t i = 0; i < pairs; ++i) {
    std::string_view key;
    if (!cursor->ReadString(&key)) {
      if (!cursor->Skip() || !cursor->Skip()) return false;
      continue;
    }
    MsgpackCursor value = *cursor;
    if (!cursor->Skip()) return false;
    if (!field(key, value)) return false;
  }
  return true;
}

bool ReadUnsigned(MsgpackCursor value, uint64_t* out) {
  MsgpackCursor::Int number;
  if (!value.ReadInt(&number) || number.negative) return false;
  *out = number.bits;
  return true;
}

bool ReadOptional(MsgpackCursor value, std::optional<uint64_t>* out) {
  out->reset();
  if (value.ReadNil()) return true;
  uint64_t number = 0;
  if (!ReadUnsigned(value, &number)) return false;
  *out = number;
  return true;
}

bool ReadRank(MsgpackCursor value, uint32_t* out) {
  uint64_t rank = 0;
  if (!ReadUnsigned(value, &rank) || rank > UINT32_MAX) return false;
  *out = static_cast<uint32_t>(rank);
  return true;
}

// Signed senders mean the same bits.
bool ReadHash(MsgpackCursor* cursor, uint64_t* out) {
  MsgpackCursor::Int number;
  if (!cursor->ReadInt(&number)) return false;
  *out = number.bits;
  return true;
}

bool ReadBlock(MsgpackCursor* cursor, StoredBlock* block) {
  bool has_name = false;
  bool has_content = false;
  const bool whole = ReadFields(cursor, [&](std::string_view key, MsgpackCursor value) {
    uint64_t hash = 0;
    if (key == "block_hash") {
      if (!ReadHash(&value, &hash)) return false;
      block->engine_hash = EngineHash{hash};
      has_name = true;
    } else if (key == "tokens_hash") {
      if (!ReadHash(&value, &hash)) return false;
      block->local_hash = LocalBlockHash{hash};
      has_content = true;
    }  // the identities of images are in tokens_hash already
    return true;
  });
  return whole && has_name && has_content;
}

bool ReadStored(MsgpackCursor cursor, Stored* stored) {
  bool has_blocks = false;
  std::optional<uint64_t> start_position;
  const bool whole = ReadFields(&cursor, [&](std::string_view key, MsgpackCursor value) {
    if (key == "parent_hash") {
      stored->parent.reset();
      if (value.ReadNil()) return true;
      uint64_t parent = 0;
      if (!ReadHash(&value, &parent)) return false;
      stored->parent = EngineHash{parent};
    } else if (key == "start_position") {
      return ReadOptional(value, &start_position);
    } else if (key == "blocks") {
      uint32_t count = 0;
      if (!value.ReadArray(&count)) return false;
      stored->blocks.clear();
      for (uint32_t i = 0; i < count; ++i) {
        if (!ReadBlock(&value, &stored->blocks.emplace_back())) return false;
      }
      has_blocks = true;
    }
    return true;
  });
  // Blocks in the middle of a sequence, without the parent that would say of which.
  const bool adrift = !stored->parent && start_position.value_or(0) > 0;
  return whole && has_blocks && !adrift;
}

bool ReadRemoved(MsgpackCursor cursor, Removed* removed) {
  bool has_hashes = false;
  const bool whole = ReadFields(&cursor, [&](std::string_view key, MsgpackCursor value) {
    if (key != "block_hashes") return true;
    uint32_t count = 0;
    if (!value.ReadArray(&count)) return false;
    removed->engine_hashes.clear();
    for (uint32_t i = 0; i < count; ++i) {
      uint64_t hash = 0;
      if (!ReadHash(&value, &hash)) return false;
      removed->engine_hashes.push_back(EngineHash{hash});
    }
    has_hashes = true;
    return true;
  });
  return whole && has_hashes;
}

// "cleared", or a map of one pair from kind to content. False: not readable.
bool ReadData(MsgpackCursor cursor, std::variant<Stored, Removed, Cleared>* data) {
  std::string_view kind;
  if (cursor.ReadString(&kind)) {
    *data = Cleared{};
    return kind == "cleared";
  }
  uint32_t pairs = 0;
  if (!cursor.ReadMap(&pairs) || pairs != 1 || !cursor.ReadString(&kind)) return false;
  if (kind == "stored") return ReadStored(cursor, &data->emplace<Stored>());
  if (kind == "removed") return ReadRemoved(cursor, &data->emplace<Removed>());
  *data = Cleared{};
  return kind == "cleared";
}

enum class Domain : uint8_t { kLegacy, kWorker, kCacheOwner, kUnknown };

Domain ReadDomain(MsgpackCursor value) {
  std::string_view text;
  if (!value.ReadString(&text)) return Domain::kUnknown;  // null, too, names no domain
  if (text == "worker") return Domain::kWorker;
  return text == "cache_owner" ? Domain::kCacheOwner : Domain::kUnknown;
}

std::optional<StorageTier> ReadTier(MsgpackCursor value) {
  std::string_view text;
  if (!value.ReadString(&text)) return std::nullopt;
  return TierOfName(text);
}

// What is said around the content.
struct Residence {
  std::optional<StorageTier> tier = StorageTier::kDevice;  // absent: one that we do not know
  Domain domain = Domain::kLegacy;
  bool has_state_source = false;
};

// Why the event says nothing about a worker's own blocks.
std::optional<SkipReason> ForeignDomain(const Residence& residence) {
  if (residence.domain == Domain::kUnknown) return SkipReason::kUnknownDomain;
  if (residence.domain != Domain::kCacheOwner) return std::nullopt;
  return residence.has_state_source ? SkipReason::kCacheOwner : SkipReason::kBadEvent;
}

// False: of no known worker, rank or id.
bool ReadRouterEvent(MsgpackCursor cursor, PlaneEvent* event) {
  Residence residence;
  bool has_worker = false;
  bool has_id = false;
  bool has_data = false;
  const auto inner = [&](std::string_view key, MsgpackCursor value) {
    if (key == "event_id") return has_id = ReadUnsigned(value, &event->event_id);
    if (key == "dp_rank") return ReadRank(value, &event->target.dp_rank);
    if (key == "data") has_data = ReadData(value, &event->data);
    return true;
  };
  const bool whole = ReadFields(&cursor, [&](std::string_view key, MsgpackCursor value) {
    if (key == "worker_id") {
      uint64_t worker = 0;
      has_worker = ReadUnsigned(value, &worker);
      event->target.worker = WorkerId{worker};
      return has_worker;
    }
    if (key == "storage_tier") residence.tier = ReadTier(value);
    if (key == "residency_domain") residence.domain = ReadDomain(value);
    if (key == "state_source") residence.has_state_source = !value.ReadNil();
    if (key == "event") return ReadFields(&value, inner);
    return true;
  });
  if (!whole || !has_worker || !has_id) return false;
  event->ignored = ForeignDomain(residence);
  if (event->ignored) return true;
  event->unreadable = !has_data;
  // A clearing is about every tier, and so may be what cannot be read.
  if (!has_data || std::holds_alternative<Cleared>(event->data)) return true;
  if (!residence.tier) event->ignored = SkipReason::kUnknownMedium;
  event->tier = residence.tier.value_or(StorageTier::kDevice);
  return true;
}

bool KeptBySegment(char c) { return IsAsciiAlphanumeric(c) || c == '-' || c == '_'; }

void AppendSegment(std::string_view segment, std::string* subject) {
  static constexpr char kHex[] = "0123456789ABCDEF";
  subject->push_back('.');
  if (segment == "*") {
    subject->push_back('*');
    return;
  }
  for (const char c : segment) {
    if (KeptBySegment(c)) {
      subject->push_back(c);
      continue;
    }
    const auto byte = static_cast<unsigned char>(c);
    subject->push_back('%');
    subject->push_back(kHex[byte >> 4]);
    subject->push_back(kHex[byte & 15]);
  }
}

}  // namespace

std::optional<SkipReason> DecodeEnvelope(std::string_view bytes, PlaneEnvelope* envelope) {
  *envelope = {};
  if (bytes.size() > kMaxPlaneMessageBytes) return SkipReason::kOversized;
  bool has_publisher = false;
  bool has_sequence = false;
  bool has_payload = false;
  MsgpackCursor cursor(bytes);
  const bool whole = ReadFields(&cursor, [&](std::string_view key, MsgpackCursor value) {
    if (key == "publisher_id") return has_publisher = ReadUnsigned(value, &envelope->publisher_id);
    if (key == "sequence") return has_sequence = ReadUnsigned(value, &envelope->sequence);
    if (key == "topic") return value.ReadString(&envelope->topic);
    if (key == "payload") return has_payload = value.ReadBinary(&envelope->payload);
    return true;
  });
  if (!whole || !has_publisher || !has_sequence || !has_payload) return SkipReason::kBadEnvelope;
  envelope->topic = envelope->topic.substr(envelope->topic.rfind('.') + 1);
  return std::nullopt;
}

std::optional<PlaneFrames> ParsePlaneFrames(std::span<const std::string_view> frames) {
  if (frames.size() != 4 || frames[1].size() != 8 || frames[2].size() != 8) return std::nullopt;
  const std::string_view framed = frames[3];
  if (framed.size() < kFrameHeadBytes || framed[0] != kFrameVersion) return std::nullopt;
  uint32_t length = 0;
  for (size_t i = 1; i < kFrameHeadBytes; ++i) {
    length = (length << 8) | static_cast<unsigned char>(framed[i]);
  }
  if (framed.size() - kFrameHeadBytes != length) return std::nullopt;
  return PlaneFrames{.subject = frames[0], .envelope = framed.substr(kFrameHeadBytes)};
}

size_t PlaneEvent::Bytes() const {
  size_t bytes = sizeof(PlaneEvent);
  if (const auto* stored = std::get_if<Stored>(&data))
    bytes += stored->blocks.capacity() * sizeof(StoredBlock);
  if (const auto* removed = std::get_if<Removed>(&data))
    bytes += removed->engine_hashes.capacity() * sizeof(EngineHash);
  return bytes;
}

std::optional<SkipReason> DecodeRouterEvents(std::string_view payload, PlaneBatch* batch) {
  batch->events.clear();
  batch->bad_events = 0;
  MsgpackCursor cursor(payload);
  uint32_t count = 1;
  if (cursor.Peek() != MsgpackCursor::Type::kMap && !cursor.ReadArray(&count))
    return SkipReason::kBadEnvelope;
  if (count > kMaxPlaneEventsPerMessage) return SkipReason::kOversized;
  for (uint32_t i = 0; i < count; ++i) {
    const MsgpackCursor value = cursor;
    if (!cursor.Skip()) {
      batch->events.clear();
      return SkipReason::kBadEnvelope;
    }
    if (!ReadRouterEvent(value, &batch->events.emplace_back())) {
      batch->events.pop_back();
      ++batch->bad_events;
    }
  }
  return std::nullopt;
}

std::optional<ActiveLoad> DecodeActiveLoad(std::string_view payload) {
  ActiveLoad load;
  bool has_worker = false;
  MsgpackCursor cursor(payload);
  const bool whole = ReadFields(&cursor, [&](std::string_view key, MsgpackCursor value) {
    if (key == "worker_id") {
      uint64_t worker = 0;
      has_worker = ReadUnsigned(value, &worker);
      load.target.worker = WorkerId{worker};
      return has_worker;
    }
    if (key == "dp_rank") return ReadRank(value, &load.target.dp_rank);
    if (key == "active_decode_blocks") return ReadOptional(value, &load.active_decode_blocks);
    if (key == "active_prefill_tokens") return ReadOptional(value, &load.active_prefill_tokens);
    if (key == "kv_used_blocks") return ReadOptional(value, &load.kv_used_blocks);
    return true;
  });
  if (!whole || !has_worker) return std::nullopt;
  return load;
}

void MergeLoad(const ActiveLoad& more, ActiveLoad* load) {
  load->target = more.target;
  if (more.active_decode_blocks) load->active_decode_blocks = more.active_decode_blocks;
  if (more.active_prefill_tokens) load->active_prefill_tokens = more.active_prefill_tokens;
  if (more.kv_used_blocks) load->kv_used_blocks = more.kv_used_blocks;
}

std::string PlaneSubject(const PlaneScope& scope, std::string_view topic) {
  std::string subject = "namespace";
  AppendSegment(scope.dynamo_namespace, &subject);
  if (!scope.component.empty()) {
    subject += ".component";
    AppendSegment(scope.component, &subject);
    if (!scope.endpoint.empty()) {
      subject += ".endpoint";
      AppendSegment(scope.endpoint, &subject);
    }
  }
  subject += '.';
  subject += topic;
  return subject;
}

}  // namespace kvrouter
