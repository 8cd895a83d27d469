#ifndef KVROUTER_SIM_WIRE_KV_TRANSFER_H_
#define KVROUTER_SIM_WIRE_KV_TRANSFER_H_

#include <chrono>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "sim/wire/kv_params.h"
#include "sim/wire/kv_pins.h"

namespace kvrouter::sim {

struct KvTransferConfig {
  bool producer = false;
  bool consumer = false;
  bool nested_block_ids = true;
  std::chrono::nanoseconds lease = std::chrono::seconds(30);  // model time
  // A request whose KV cannot be fetched is computed here; otherwise it fails.
  bool recompute_on_failure = false;
  // Engines of different ones do not exchange KV: it stands for versions, model and layout.
  std::string compatibility = "1";
  uint32_t tp_size = 1;
  std::string host;   // what the handshake names as side channel
  uint16_t port = 0;  // SetPort
};

// An engine's side of exchanging KV with others: its identity, what it holds for them, how it
// answers when they ask. Thread-compatible.
class KvTransfer {
 public:
  KvTransfer(KvTransferConfig config, std::string engine_id);

  const KvTransferConfig& config() const { return config_; }
  void SetPort(uint16_t port) { config_.port = port; }
  // What a request asks for, as far as this engine's roles go.
  KvAsk Asked(const nlohmann::ordered_json& params) const;

  // A producer's request has finished; the model holds `block_ids`. Returns the handshake.
  struct Produced {
    std::string request_id;
    uint64_t model_id = 0;
    std::span<const uint32_t> block_ids;
    uint64_t tokens = 0;
  };
  nlohmann::ordered_json Hold(const Produced& produced, MonotonicTime now);

  struct PullAnswer {
    int status = 200;
    std::string body;
    std::optional<uint64_t> released_model_id;
  };
  // Body of POST /kv_pull, see kv_side_channel.h.
  PullAnswer AnswerPull(std::string_view body, MonotonicTime now);
  // Model ids whose lease has ended.
  std::vector<uint64_t> TakeExpired(MonotonicTime now);
  MonotonicTime NextExpiry() const { return pins_.NextExpiry(); }

  // The process starts anew: another identity, nothing held.
  void Restart(std::string engine_id);
  const KvPins& pins() const { return pins_; }

 private:
  KvTransferConfig config_;
  std::string engine_id_;
  KvPins pins_;
};

}  // namespace kvrouter::sim

#endif  // KVROUTER_SIM_WIRE_KV_TRANSFER_H_
