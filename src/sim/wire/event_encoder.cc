#include "sim/wire/event_encoder.h"

#include <string_view>

#include "sim/wire/msgpack_writer.h"

namespace kvrouter::sim {
namespace {

constexpr std::string_view kMedium = "GPU";
constexpr uint64_t kGroup = 0;
constexpr std::string_view kSpecKind = "full_attention";

void WriteHashes(const std::vector<EngineHash>& hashes, MsgpackWriter* out) {
  out->Array(hashes.size());
  for (const EngineHash hash : hashes) out->Uint(static_cast<uint64_t>(hash));
}

void WriteParent(const std::optional<EngineHash>& parent, MsgpackWriter* out) {
  if (parent.has_value()) {
    out->Uint(static_cast<uint64_t>(*parent));
  } else {
    out->Nil();
  }
}

void WriteTokens(const std::vector<TokenId>& tokens, MsgpackWriter* out) {
  out->Array(tokens.size());
  for (const TokenId token : tokens) out->Uint(token);
}

// Positions are the order of declaration; trailing fields at their default are cut off, those in
// between are nil.
struct ArrayForm {
  MsgpackWriter* out;

  void operator()(const WireStored& event) const {
    out->Array(11);
    out->Str("BlockStored");
    WriteHashes(event.hashes, out);
    WriteParent(event.parent, out);
    WriteTokens(event.token_ids, out);
    out->Uint(event.block_size_tokens);
    out->Nil();  // lora_id
    out->Str(kMedium);
    out->Nil();  // lora_name
    out->Nil();  // extra_keys
    out->Uint(kGroup);
    out->Str(kSpecKind);
  }
  void operator()(const WireRemoved& event) const {
    out->Array(4);
    out->Str("BlockRemoved");
    WriteHashes({event.hash}, out);
    out->Str(kMedium);
    out->Uint(kGroup);
  }
  void operator()(const WireCleared&) const {
    out->Array(1);
    out->Str("AllBlocksCleared");
  }
};

// Fields without a default are present even when nil, the others absent at their default.
struct MapForm {
  MsgpackWriter* out;

  void operator()(const WireStored& event) const {
    out->Map(10);
    Tag("BlockStored");
    out->Str("block_hashes");
    WriteHashes(event.hashes, out);
    out->Str("parent_block_hash");
    WriteParent(event.parent, out);
    out->Str("token_ids");
    WriteTokens(event.token_ids, out);
    out->Str("block_size");
    out->Uint(event.block_size_tokens);
    out->Str("lora_id");
    out->Nil();
    Medium();
    out->Str("lora_name");
    out->Nil();
    Group();
    out->Str("kv_cache_spec_kind");
    out->Str(kSpecKind);
  }
  void operator()(const WireRemoved& event) const {
    out->Map(4);
    Tag("BlockRemoved");
    out->Str("block_hashes");
    WriteHashes({event.hash}, out);
    Medium();
    Group();
  }
  void operator()(const WireCleared&) const {
    out->Map(1);
    Tag("AllBlocksCleared");
  }

  void Tag(std::string_view name) const {
    out->Str("type");
    out->Str(name);
  }
  void Medium() const {
    out->Str("medium");
    out->Str(kMedium);
  }
  void Group() const {
    out->Str("group_idx");
    out->Uint(kGroup);
  }
};

}  // namespace

std::string EncodeBatch(const WireBatch& batch, EventForm form) {
  MsgpackWriter out;
  out.Array(3);
  out.Double(batch.wall_time_s);
  out.Array(batch.events.size());
  for (const WireEvent& event : batch.events) {
    if (form == EventForm::kArray) {
      std::visit(ArrayForm{&out}, event);
    } else {
      std::visit(MapForm{&out}, event);
    }
  }
  out.Uint(batch.dp_rank);
  return out.Take();
}

}  // namespace kvrouter::sim
