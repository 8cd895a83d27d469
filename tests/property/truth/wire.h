#ifndef KVROUTER_TESTS_PROPERTY_TRUTH_WIRE_H_
#define KVROUTER_TESTS_PROPERTY_TRUTH_WIRE_H_

#include <cstdint>
#include <string>
#include <vector>

#include "property/truth/dice.h"
#include "property/truth/engine_cache.h"
#include "property/truth/prompt_tree.h"

namespace kvrouter::truth {

// How one engine writes. All of these are on the road; none may make a difference.
struct Dialect {
  enum class Hashes : uint8_t { kUnsigned, kSigned, kDigest };  // digest: 32 bytes
  bool maps = false;                                            // events as maps, else as arrays
  bool groups = false;  // two KV groups, the second a sliding window, which evicts by itself
  bool tells_rank = true;
  bool replay_topic = false;  // replies carry the topic frame
  Hashes hashes = Hashes::kUnsigned;
  bool host_placeholders = false;  // copies to the host are named only, not told again

  static Dialect Random(Dice* dice);
};

// The engine's own names: seeded at random in each life, so that equal blocks have other names on
// every engine and after every restart.
uint64_t EngineName(uint64_t life, NodeId node);

// vLLM's batch: [timestamp, [event...], rank].
std::string EncodeBatch(const PromptTree& tree, const Dialect& dialect, uint64_t life,
                        uint32_t dp_rank, double wall_time_s, const std::vector<CacheOp>& ops,
                        Dice* dice);

// Frames of a live message and of a replay's answer.
std::string BigEndian(uint64_t value);
std::vector<std::string> LiveFrames(uint64_t sequence, std::string payload);
std::vector<std::string> ReplyFrames(const Dialect& dialect, uint64_t sequence,
                                     std::string payload);
std::vector<std::string> ReplyEndFrames(const Dialect& dialect);

}  // namespace kvrouter::truth

#endif  // KVROUTER_TESTS_PROPERTY_TRUTH_WIRE_H_
