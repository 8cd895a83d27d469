#include "adapters/peer/peer_dump.h"

#include <fmt/format.h>
#include <simdjson.h>

#include <algorithm>
#include <optional>
#include <string_view>
#include <tuple>
#include <utility>

#include "kvrouter/error.h"

namespace kvrouter {
namespace {

namespace ondemand = simdjson::ondemand;

absl::Status Malformed(std::string_view why) {
  return MakeError(absl::StatusCode::kDataLoss, ErrorReason::kInvalidRequest,
                   fmt::format("it is no dump: {}", why));
}

// The wishes by what a dump names them by.
class Wishes {
 public:
  explicit Wishes(std::span<const PeerWish> wishes) : wishes_(wishes) {
    for (size_t i = 0; i < wishes.size(); ++i) {
      const WorkerSpec& spec = wishes[i].spec;
      numbers_[{spec.model_name + ":" + spec.routing_group, static_cast<uint64_t>(spec.id),
                wishes[i].dp_rank}] = i;
    }
  }

  std::optional<size_t> Find(const std::string& tree, uint64_t block_size_tokens, uint64_t worker,
                             uint64_t dp_rank) const {
    const auto found = numbers_.find({tree, worker, dp_rank});
    if (found == numbers_.end()) return std::nullopt;
    if (wishes_[found->second].spec.block_size_tokens != block_size_tokens) return std::nullopt;
    return found->second;
  }

 private:
  std::span<const PeerWish> wishes_;
  std::map<std::tuple<std::string, uint64_t, uint64_t>, size_t> numbers_;
};

std::optional<StorageTier> TierOf(std::string_view name) {
  if (name == "device") return StorageTier::kDevice;
  if (name == "host_pinned") return StorageTier::kHostPinned;
  if (name == "disk") return StorageTier::kDisk;
  if (name == "external") return StorageTier::kExternal;
  return std::nullopt;
}

// The parser on demand believes that its text is JSON, and must not be used where it is not.
bool IsJson(simdjson::dom::parser* parser, simdjson::padded_string_view text) {
  return parser->parse(text.data(), text.size(), /*realloc_if_needed=*/false).error() ==
         simdjson::SUCCESS;
}

// Whether there is something of the kind that was looked for. A text that is broken at this place is
// noted in `broken`: the parser must not be asked for anything more then.
bool Got(simdjson::error_code error, bool* broken) {
  if (error == simdjson::SUCCESS) return true;
  *broken = *broken || (error != simdjson::NO_SUCH_FIELD && error != simdjson::INCORRECT_TYPE);
  return false;
}

// Unsigned, or the same bits as a signed number.
std::optional<uint64_t> HashOf(ondemand::value value) {
  uint64_t hash = 0;
  if (value.get_uint64().get(hash) == simdjson::SUCCESS) return hash;
  int64_t bits = 0;
  if (value.get_int64().get(bits) == simdjson::SUCCESS) return static_cast<uint64_t>(bits);
  return std::nullopt;
}

std::optional<Stored> ReadStored(ondemand::object object, bool* broken) {
  Stored stored;
  ondemand::value parent;
  if (Got(object["parent_hash"].get(parent), broken) && !parent.is_null()) {
    const auto hash = HashOf(parent);
    if (!hash) return std::nullopt;
    stored.parent = EngineHash{*hash};
  }
  ondemand::value position;
  if (*broken) return std::nullopt;
  if (Got(object["start_position"].get(position), broken) && !position.is_null()) {
    uint64_t start = 0;
    if (!Got(position.get_uint64().get(start), broken) || (start > 0 && !stored.parent))
      return std::nullopt;
  }
  ondemand::array blocks;
  if (*broken || !Got(object["blocks"].get_array().get(blocks), broken)) return std::nullopt;
  for (auto item : blocks) {
    ondemand::object block;
    ondemand::value name, content;
    if (!Got(item.get_object().get(block), broken) || !Got(block["block_hash"].get(name), broken))
      return std::nullopt;
    const auto engine_hash = HashOf(name);
    if (!Got(block["tokens_hash"].get(content), broken)) return std::nullopt;
    const auto local_hash = HashOf(content);
    if (!engine_hash || !local_hash) return std::nullopt;
    stored.blocks.push_back({EngineHash{*engine_hash}, LocalBlockHash{*local_hash}});
  }
  return stored;
}

class DumpReader {
 public:
  explicit DumpReader(std::span<const PeerWish> wishes) : wishes_(wishes), found_(wishes) {}

  // Of one tree. Nothing may be read after it if the text is broken().
  void ReadEvent(const std::string& tree, uint64_t block_size_tokens, ondemand::object event) {
    uint64_t worker = 0;
    if (!Got(event["worker_id"].get_uint64().get(worker), &broken_)) return;
    std::string_view text;
    KvEvent out;
    if (Got(event["storage_tier"].get_string().get(text), &broken_)) {
      const auto tier = TierOf(text);
      if (!tier) return;
      out.tier = *tier;
    }
    ondemand::value domain;
    if (broken_) return;
    if (Got(event["residency_domain"].get(domain), &broken_) &&
        (!Got(domain.get_string().get(text), &broken_) || text != "worker"))
      return;
    ondemand::object inner;
    if (broken_ || !Got(event["event"].get_object().get(inner), &broken_)) return;
    uint64_t dp_rank = 0;
    ondemand::value rank;
    if (Got(inner["dp_rank"].get(rank), &broken_) && !Got(rank.get_uint64().get(dp_rank), &broken_))
      return;
    if (broken_) return;
    const auto wish = found_.Find(tree, block_size_tokens, worker, dp_rank);
    if (!wish) return;
    ondemand::object stored;
    if (!Got(inner["data"]["stored"].get_object().get(stored), &broken_)) return;
    auto read = ReadStored(stored, &broken_);
    if (!read || read->blocks.empty()) return;
    const PeerWish& wished = wishes_[*wish];
    out.target = {wished.spec.id, wished.dp_rank};
    out.incarnation = wished.spec.incarnation;
    out.counting = StoreCounting::kSet;
    out.data = *std::move(read);
    events_[*wish].push_back(std::move(out));
  }

  bool broken() const { return broken_; }

  std::map<size_t, std::vector<KvEvent>> Take() && { return std::move(events_); }

 private:
  std::span<const PeerWish> wishes_;
  Wishes found_;
  bool broken_ = false;
  std::map<size_t, std::vector<KvEvent>> events_;
};

absl::Status ReadTrees(ondemand::object trees, DumpReader* reader) {
  for (auto field : trees) {
    std::string_view key;
    if (field.unescaped_key().get(key) != simdjson::SUCCESS) return Malformed("a broken key");
    const std::string tree(key);
    ondemand::object body;
    if (field.value().get_object().get(body) != simdjson::SUCCESS)
      return Malformed("a tree that is no object");
    uint64_t block_size_tokens = 0;
    bool broken = false;
    ondemand::array events;
    if (!Got(body["block_size"].get_uint64().get(block_size_tokens), &broken) ||
        !Got(body["events"].get_array().get(events), &broken)) {
      if (broken) return Malformed("a broken tree");
      continue;  // {"error": ...}
    }
    for (auto item : events) {
      ondemand::object event;
      if (item.get_object().get(event) != simdjson::SUCCESS)
        return Malformed("an event that is no object");
      reader->ReadEvent(tree, block_size_tokens, event);
      if (reader->broken()) return Malformed("a broken event");
    }
  }
  return absl::OkStatus();
}

// One line of the other form; false: it is not of that form.
bool ReadRecord(ondemand::object record, DumpReader* reader) {
  std::string_view key;
  uint64_t block_size_tokens = 0;
  ondemand::object event;
  if (record["key"].get_string().get(key) != simdjson::SUCCESS) return false;
  const std::string tree(key);
  if (record["block_size"].get_uint64().get(block_size_tokens) != simdjson::SUCCESS) return false;
  if (record["event"].get_object().get(event) == simdjson::SUCCESS)
    reader->ReadEvent(tree, block_size_tokens, event);
  return !reader->broken();
}

absl::Status ReadLines(const std::string& json, size_t length, DumpReader* reader) {
  simdjson::dom::parser checker;
  ondemand::parser parser;
  for (size_t begin = 0; begin < length;) {
    const size_t end = std::min(json.find('\n', begin), length);
    // Behind each line there is the next one, or the padding.
    const simdjson::padded_string_view line(json.data() + begin, end - begin, json.size() - begin);
    begin = end + 1;
    if (line.find_first_not_of(" \t\r") == std::string_view::npos) continue;
    ondemand::document document;
    ondemand::object record;
    if (!IsJson(&checker, line) || parser.iterate(line).get(document) != simdjson::SUCCESS ||
        document.get_object().get(record) != simdjson::SUCCESS || !ReadRecord(record, reader))
      return Malformed("a line that is no record");
  }
  return absl::OkStatus();
}

bool IsRecords(const std::string& json, size_t length) {
  const size_t end = std::min(json.find('\n'), length);
  ondemand::parser parser;
  ondemand::document document;
  ondemand::object record;
  std::string_view key;
  const simdjson::padded_string_view line(json.data(), end, json.size());
  simdjson::dom::parser checker;
  return IsJson(&checker, line) && parser.iterate(line).get(document) == simdjson::SUCCESS &&
         document.get_object().get(record) == simdjson::SUCCESS &&
         record["key"].get_string().get(key) == simdjson::SUCCESS;
}

}  // namespace

absl::StatusOr<std::map<size_t, std::vector<KvEvent>>> ReadPeerDump(
    std::string json, std::span<const PeerWish> wishes) {
  const size_t length = json.size();
  json.append(simdjson::SIMDJSON_PADDING, ' ');
  DumpReader reader(wishes);
  if (IsRecords(json, length)) {
    if (absl::Status status = ReadLines(json, length, &reader); !status.ok()) return status;
    return std::move(reader).Take();
  }
  ondemand::parser parser;
  ondemand::document document;
  ondemand::object trees;
  const simdjson::padded_string_view text(json.data(), length, json.size());
  if (simdjson::dom::parser checker; !IsJson(&checker, text)) return Malformed("no JSON");
  if (const auto error = parser.iterate(text).get(document); error != simdjson::SUCCESS)
    return Malformed(simdjson::error_message(error));
  if (const auto error = document.get_object().get(trees); error != simdjson::SUCCESS)
    return Malformed(simdjson::error_message(error));
  if (absl::Status status = ReadTrees(trees, &reader); !status.ok()) return status;
  return std::move(reader).Take();
}

}  // namespace kvrouter
