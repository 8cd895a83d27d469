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

// The parser on demand reads beyond what is broken; nothing but JSON may come to it.
bool IsJson(simdjson::dom::parser* checker, simdjson::padded_string_view text) {
  return checker->parse(text.data(), text.size(), /*realloc_if_needed=*/false).error() ==
         simdjson::SUCCESS;
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

// Unsigned, or the same bits as a signed number.
std::optional<uint64_t> HashOf(ondemand::value value) {
  uint64_t hash = 0;
  if (value.get_uint64().get(hash) == simdjson::SUCCESS) return hash;
  int64_t bits = 0;
  if (value.get_int64().get(bits) == simdjson::SUCCESS) return static_cast<uint64_t>(bits);
  return std::nullopt;
}

std::optional<Stored> ReadStored(ondemand::object object) {
  Stored stored;
  ondemand::value parent;
  if (object["parent_hash"].get(parent) == simdjson::SUCCESS && !parent.is_null()) {
    const auto hash = HashOf(parent);
    if (!hash) return std::nullopt;
    stored.parent = EngineHash{*hash};
  }
  ondemand::value position;
  if (object["start_position"].get(position) == simdjson::SUCCESS && !position.is_null()) {
    uint64_t start = 0;
    if (position.get_uint64().get(start) != simdjson::SUCCESS || (start > 0 && !stored.parent))
      return std::nullopt;
  }
  ondemand::array blocks;
  if (object["blocks"].get_array().get(blocks) != simdjson::SUCCESS) return std::nullopt;
  for (auto item : blocks) {
    ondemand::object block;
    ondemand::value name, content;
    if (item.get_object().get(block) != simdjson::SUCCESS ||
        block["block_hash"].get(name) != simdjson::SUCCESS)
      return std::nullopt;
    const auto engine_hash = HashOf(name);
    if (block["tokens_hash"].get(content) != simdjson::SUCCESS) return std::nullopt;
    const auto local_hash = HashOf(content);
    if (!engine_hash || !local_hash) return std::nullopt;
    stored.blocks.push_back({EngineHash{*engine_hash}, LocalBlockHash{*local_hash}});
  }
  return stored;
}

class DumpReader {
 public:
  explicit DumpReader(std::span<const PeerWish> wishes) : wishes_(wishes), found_(wishes) {}

  // Of one tree.
  void ReadEvent(const std::string& tree, uint64_t block_size_tokens, ondemand::object event) {
    uint64_t worker = 0;
    if (event["worker_id"].get_uint64().get(worker) != simdjson::SUCCESS) return;
    std::string_view text;
    KvEvent out;
    if (event["storage_tier"].get_string().get(text) == simdjson::SUCCESS) {
      const auto tier = TierOfName(text);
      if (!tier) return;
      out.tier = *tier;
    }
    ondemand::value domain;
    if (event["residency_domain"].get(domain) == simdjson::SUCCESS &&
        (domain.get_string().get(text) != simdjson::SUCCESS || text != "worker"))
      return;
    ondemand::object inner;
    if (event["event"].get_object().get(inner) != simdjson::SUCCESS) return;
    uint64_t dp_rank = 0;
    ondemand::value rank;
    if (inner["dp_rank"].get(rank) == simdjson::SUCCESS &&
        rank.get_uint64().get(dp_rank) != simdjson::SUCCESS)
      return;
    const auto wish = found_.Find(tree, block_size_tokens, worker, dp_rank);
    if (!wish) return;
    ondemand::object stored;
    if (inner["data"]["stored"].get_object().get(stored) != simdjson::SUCCESS) return;
    auto read = ReadStored(stored);
    if (!read || read->blocks.empty()) return;
    const PeerWish& wished = wishes_[*wish];
    out.target = {wished.spec.id, wished.dp_rank};
    out.incarnation = wished.spec.incarnation;
    out.counting = StoreCounting::kSet;
    out.data = *std::move(read);
    events_[*wish].push_back(std::move(out));
  }

  std::map<size_t, std::vector<KvEvent>> Take() && { return std::move(events_); }

 private:
  std::span<const PeerWish> wishes_;
  Wishes found_;
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
    if (body["block_size"].get_uint64().get(block_size_tokens) != simdjson::SUCCESS)
      continue;  // {"error": ...}
    ondemand::array events;
    if (body["events"].get_array().get(events) != simdjson::SUCCESS) continue;
    for (auto item : events) {
      ondemand::object event;
      if (item.get_object().get(event) != simdjson::SUCCESS)
        return Malformed("an event that is no object");
      reader->ReadEvent(tree, block_size_tokens, event);
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
  return true;
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
