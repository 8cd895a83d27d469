#include "property/truth/wire.h"

#include <utility>

#include "support/msgpack_writer.h"

namespace kvrouter::truth {
namespace {

constexpr const char* kTopic = "kv@engine";

void WriteHash(const Dialect& dialect, uint64_t hash, MsgpackWriter* out) {
  switch (dialect.hashes) {
    case Dialect::Hashes::kUnsigned:
      out->Uint(hash);
      return;
    case Dialect::Hashes::kSigned:
      out->Int(static_cast<int64_t>(hash));
      return;
    case Dialect::Hashes::kDigest:
      out->Bin(std::string(24, '\x5a') + BigEndian(hash));
      return;
  }
}

// One event in either form; `group` 1 is the sliding window.
class EventWriter {
 public:
  EventWriter(const PromptTree& tree, const Dialect& dialect, uint64_t life, MsgpackWriter* out)
      : tree_(tree), dialect_(dialect), life_(life), out_(*out) {}

  void Stored(const std::vector<NodeId>& nodes, uint32_t group, StorageTier tier) {
    const bool is_placeholder = tier != StorageTier::kDevice && dialect_.host_placeholders;
    const auto& first = tree_[nodes.front()];
    // The salt is named with the first block of a sequence only.
    const bool salted = !first.parent && !first.salt.empty();
    const bool extras = dialect_.groups || salted;
    if (dialect_.maps) {
      out_.Map(8 + (salted ? 1 : 0) + (dialect_.groups ? 2 : 0)).Str("type").Str("BlockStored");
    } else {
      out_.Array(extras ? (dialect_.groups ? 11 : 9) : 7).Str("BlockStored");
    }
    Key("block_hashes").Array(nodes.size());
    for (const NodeId node : nodes) WriteHash(dialect_, EngineName(life_, node), &out_);
    Key("parent_block_hash");
    first.parent ? WriteHash(dialect_, EngineName(life_, *first.parent), &out_) : (void)out_.Nil();
    std::vector<TokenId> tokens;
    for (const NodeId node : nodes) {
      if (!is_placeholder) tree_.AppendTokens(node, &tokens);
    }
    Key("token_ids").UintArray(tokens);
    Key("block_size").Uint(kBlockTokens);
    Key("lora_id").Nil();
    Key("medium").Str(Medium(tier));
    if (dialect_.maps || extras) Key("lora_name").Nil();
    if (salted) {
      Key("extra_keys").Array(nodes.size()).Array(1).Str(first.salt);
      for (size_t i = 1; i < nodes.size(); ++i) out_.Nil();
    } else if (extras && !dialect_.maps) {
      out_.Nil();
    }
    if (!dialect_.groups) return;
    Key("group_idx").Uint(group);
    Key("kv_cache_spec_kind").Str(group == 0 ? "full_attention" : "sliding_window");
  }

  void Removed(const std::vector<NodeId>& nodes, uint32_t group, StorageTier tier) {
    if (dialect_.maps) {
      out_.Map(dialect_.groups ? 4 : 3).Str("type").Str("BlockRemoved");
    } else {
      out_.Array(dialect_.groups ? 4 : 3).Str("BlockRemoved");
    }
    Key("block_hashes").Array(nodes.size());
    for (const NodeId node : nodes) WriteHash(dialect_, EngineName(life_, node), &out_);
    Key("medium").Str(Medium(tier));
    if (dialect_.groups) Key("group_idx").Uint(group);
  }

  void Cleared() {
    dialect_.maps ? out_.Map(1).Str("type") : out_.Array(1);
    out_.Str("AllBlocksCleared");
  }

 private:
  static const char* Medium(StorageTier tier) {
    return tier == StorageTier::kDevice ? "GPU" : "CPU";
  }
  MsgpackWriter& Key(const char* name) { return dialect_.maps ? out_.Str(name) : out_; }

  const PromptTree& tree_;
  const Dialect& dialect_;
  const uint64_t life_;
  MsgpackWriter& out_;
};

}  // namespace

Dialect Dialect::Random(Dice* dice) {
  return {.maps = dice->Chance(0.5),
          .groups = dice->Chance(0.3),
          .tells_rank = dice->Chance(0.7),
          .replay_topic = dice->Chance(0.5),
          .hashes = static_cast<Hashes>(dice->Below(3))};
}

uint64_t EngineName(uint64_t life, NodeId node) { return Mix(life, node); }

std::string EncodeBatch(const PromptTree& tree, const Dialect& dialect, uint64_t life,
                        uint32_t dp_rank, double wall_time_s, const std::vector<CacheOp>& ops,
                        Dice* dice) {
  std::vector<std::string> events;
  const auto add = [&](const auto& write) {
    MsgpackWriter event;
    EventWriter writer(tree, dialect, life, &event);
    write(writer);
    events.push_back(event.bytes());
  };
  for (const CacheOp& op : ops) {
    const bool has_window = dialect.groups && op.tier == StorageTier::kDevice;
    switch (op.kind) {
      case CacheOp::Kind::kStored:
        add([&](EventWriter& w) { w.Stored(op.nodes, 0, op.tier); });
        if (has_window) add([&](EventWriter& w) { w.Stored(op.nodes, 1, op.tier); });
        break;
      case CacheOp::Kind::kRemoved:
        if (dice->Chance(0.5)) {
          add([&](EventWriter& w) { w.Removed(op.nodes, 0, op.tier); });
        } else {
          for (const NodeId node : op.nodes)
            add([&](EventWriter& w) { w.Removed({node}, 0, op.tier); });
        }
        break;
      case CacheOp::Kind::kCleared:
        add([&](EventWriter& w) { w.Cleared(); });
        break;
    }
    // The window moves on: its copies go while those of the main group stay.
    if (has_window && op.kind == CacheOp::Kind::kStored && dice->Chance(0.5))
      add([&](EventWriter& w) { w.Removed(op.nodes, 1, op.tier); });
  }
  MsgpackWriter batch;
  batch.Array(dialect.tells_rank ? 3 : 2).Float(wall_time_s).Array(events.size());
  for (const std::string& event : events) batch.Raw(event);
  if (dialect.tells_rank) batch.Uint(dp_rank);
  return batch.bytes();
}

std::string BigEndian(uint64_t value) {
  std::string bytes(8, '\0');
  for (size_t i = 0; i < 8; ++i) bytes[i] = static_cast<char>(value >> (8 * (7 - i)));
  return bytes;
}

std::vector<std::string> LiveFrames(uint64_t sequence, std::string payload) {
  return {kTopic, BigEndian(sequence), std::move(payload)};
}

std::vector<std::string> ReplyFrames(const Dialect& dialect, uint64_t sequence,
                                     std::string payload) {
  if (dialect.replay_topic) return {"", kTopic, BigEndian(sequence), std::move(payload)};
  return {"", BigEndian(sequence), std::move(payload)};
}

std::vector<std::string> ReplyEndFrames(const Dialect& dialect) {
  if (dialect.replay_topic) return {"", "", BigEndian(UINT64_MAX), ""};
  return {"", BigEndian(UINT64_MAX), ""};
}

}  // namespace kvrouter::truth
