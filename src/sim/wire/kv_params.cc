#include "sim/wire/kv_params.h"

#include <utility>
#include <vector>

namespace kvrouter::sim {
namespace {

using Json = nlohmann::ordered_json;

bool IsTrue(const Json& params, const char* name) {
  const auto member = params.find(name);
  return member != params.end() && member->is_boolean() && member->get<bool>();
}

std::string TextOf(const Json& params, const char* name) {
  const auto member = params.find(name);
  return member != params.end() && member->is_string() ? member->get<std::string>() : "";
}

uint64_t CountBlocks(const Json& ids) {
  if (!ids.is_array()) return 0;
  uint64_t blocks = 0;
  for (const Json& id : ids) blocks += id.is_array() ? id.size() : 1;
  return blocks;
}

}  // namespace

KvAsk WhatIsAsked(const Json& params) {
  if (!params.is_object()) return KvAsk::kNothing;
  if (IsTrue(params, "do_remote_decode")) return KvAsk::kProduce;
  return IsTrue(params, "do_remote_prefill") ? KvAsk::kConsume : KvAsk::kNothing;
}

std::optional<KvSource> ReadSource(const Json& params) {
  KvSource source{.engine_id = TextOf(params, "remote_engine_id"),
                  .request_id = TextOf(params, "remote_request_id"),
                  .host = TextOf(params, "remote_host")};
  const auto port = params.find("remote_port");
  if (port != params.end() && port->is_number_unsigned() && port->get<uint64_t>() <= 65535) {
    source.port = port->get<uint16_t>();
  }
  if (const auto ids = params.find("remote_block_ids"); ids != params.end()) {
    source.blocks = CountBlocks(*ids);
  }
  if (source.engine_id.empty() || source.request_id.empty() || source.host.empty() ||
      source.port == 0 || source.blocks == 0) {
    return std::nullopt;
  }
  return source;
}

Json HandshakeJson(const KvHandshake& handshake) {
  Json ids = Json::array();
  for (const uint32_t id : handshake.block_ids) ids.push_back(id);
  if (handshake.nested_block_ids) {
    Json group = std::move(ids);
    ids = Json::array();
    ids.push_back(std::move(group));
  }
  const KvSource& source = handshake.source;
  return {{"do_remote_prefill", true},
          {"do_remote_decode", false},
          {"remote_block_ids", std::move(ids)},
          {"remote_engine_id", source.engine_id},
          {"remote_request_id", source.request_id},
          {"remote_host", source.host},
          {"remote_port", source.port},
          {"tp_size", handshake.tp_size},
          {"dcp_size", 1},
          {"pp_size", 1},
          {"remote_num_tokens", handshake.tokens},
          {"remote_blocks_expiry_time", nullptr},
          {"transfer_mode", "pull"}};
}

}  // namespace kvrouter::sim
