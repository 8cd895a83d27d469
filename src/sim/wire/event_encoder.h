#ifndef KVROUTER_SIM_WIRE_EVENT_ENCODER_H_
#define KVROUTER_SIM_WIRE_EVENT_ENCODER_H_

#include <cstdint>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "kvrouter/types.h"

namespace kvrouter::sim {

// KV-cache events in the words of vLLM's wire, and their msgpack bytes.

// Events were positional arrays until mid-2026 and are maps with a `type` key since; the batch
// around them is an array.
enum class EventForm : uint8_t { kArray, kMap };

struct WireStored {
  std::vector<EngineHash> hashes;
  std::optional<EngineHash> parent;  // of the first hash; none at the start of a sequence
  std::vector<TokenId> token_ids;    // hashes * block_size_tokens of them
  uint32_t block_size_tokens = 0;
};
struct WireRemoved {  // one hash an event, as vLLM sends them
  EngineHash hash{};
};
struct WireCleared {};
using WireEvent = std::variant<WireStored, WireRemoved, WireCleared>;

struct WireBatch {
  double wall_time_s = 0;
  uint32_t dp_rank = 0;
  std::vector<WireEvent> events;
};

// Fields that a single-group GPU cache leaves unset (LoRA, extra keys) are nil or absent exactly
// where vLLM's encoder makes them so.
std::string EncodeBatch(const WireBatch& batch, EventForm form);

}  // namespace kvrouter::sim

#endif  // KVROUTER_SIM_WIRE_EVENT_ENCODER_H_
