#include "ctl/dump_text.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <string_view>

namespace kvrouter::ctl {
namespace {

std::string_view DynamoTier(std::string_view medium) {
  if (medium == "CPU") return "host_pinned";
  if (medium == "DISK") return "disk";
  if (medium == "EXTERNAL") return "external";
  return "device";
}

}  // namespace

std::string DumpLine(const std::string& model_name, const std::string& routing_group,
                     const v1::DumpedEvent& event) {
  using Json = nlohmann::ordered_json;
  const v1::BlocksStored& stored = event.stored();
  Json blocks = Json::array();
  const int count = std::min(stored.engine_hashes_size(), stored.local_block_hashes_size());
  for (int i = 0; i < count; ++i) {
    blocks.push_back(
        {{"block_hash", stored.engine_hashes(i)}, {"tokens_hash", stored.local_block_hashes(i)}});
  }
  Json parent;
  if (stored.has_parent_hash()) parent = stored.parent_hash();
  const Json record = {
      {"key", fmt::format("{}:{}", model_name, routing_group)},
      {"block_size", stored.block_size_tokens()},
      {"event",
       {{"worker_id", event.target().worker_id()},
        {"incarnation", event.incarnation()},
        {"storage_tier", DynamoTier(stored.medium())},
        {"event",
         {{"event_id", event.event_id()},
          {"dp_rank", event.target().dp_rank()},
          {"data",
           {{"stored",
             {{"parent_hash", parent}, {"start_position", nullptr}, {"blocks", blocks}}}}}}}}}};
  return record.dump(-1, ' ', false, Json::error_handler_t::replace) + "\n";
}

std::string DumpSummary(const v1::DumpCounts& counts) {
  std::string text = fmt::format("{} events, {} blocks", counts.events(), counts.blocks());
  if (counts.omitted_blocks() > 0) {
    text += fmt::format("; {} blocks behind a hole left out", counts.omitted_blocks());
  }
  return text + "\n";
}

}  // namespace kvrouter::ctl
