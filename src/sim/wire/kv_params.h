#ifndef KVROUTER_SIM_WIRE_KV_PARAMS_H_
#define KVROUTER_SIM_WIRE_KV_PARAMS_H_

#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <span>
#include <string>

namespace kvrouter::sim {

// `kv_transfer_params` as vLLM's NIXL connector reads and writes them.

enum class KvAsk : uint8_t {
  kNothing,
  kProduce,  // do_remote_decode: keep the prompt's blocks, answer with a handshake
  kConsume,  // do_remote_prefill: fetch the prompt's KV from where the handshake says
};
KvAsk WhatIsAsked(const nlohmann::ordered_json& params);

// Where KV is to be had.
struct KvSource {
  std::string engine_id;
  std::string request_id;
  std::string host;
  uint16_t port = 0;
  uint64_t blocks = 0;  // > 0
};
// Nothing if the handshake is incomplete: a real engine then waits for ever, or dies.
std::optional<KvSource> ReadSource(const nlohmann::ordered_json& params);

struct KvHandshake {
  KvSource source;
  std::span<const uint32_t> block_ids;
  bool nested_block_ids = true;  // a list per KV group (new), or one flat list (old)
  uint64_t tokens = 0;
  uint32_t tp_size = 1;
};
nlohmann::ordered_json HandshakeJson(const KvHandshake& handshake);

}  // namespace kvrouter::sim

#endif  // KVROUTER_SIM_WIRE_KV_PARAMS_H_
