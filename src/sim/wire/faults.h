#ifndef KVROUTER_SIM_WIRE_FAULTS_H_
#define KVROUTER_SIM_WIRE_FAULTS_H_

#include <chrono>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "base/mutex.h"

namespace kvrouter::sim {

enum class FaultKind : uint8_t {
  kStallBeforeHead,  // no answer until the client leaves
  kStallMidStream,   // a piece of the answer, then nothing until the client leaves
  kCutBeforeHead,    // the connection closes instead of an answer
  kCutMidStream,     // a piece of the answer, then the connection closes
  kHttp500,
  kHttp429,
  kWrongHandshake,  // of another request, which the source does not hold
  kNoHandshake,     // kv_transfer_params null, as old engines that hit a stop token
  kSlowHandshake,   // /kv_pull answers after a delay
  kRestart,         // the engine loses all it had once it has answered
};
enum class FaultLeg : uint8_t { kAny, kProducer, kConsumer, kPlain };

// Which requests an engine treats badly, and how.
struct FaultRule {
  FaultKind kind{};
  std::string path;  // the path it applies to; empty: completions and chats
  FaultLeg leg = FaultLeg::kAny;
  uint64_t skip = 0;                   // matching requests that pass before each one that does not
  uint64_t left = 0;                   // how many more times; 0: until cleared
  uint64_t pieces = 1;                 // of a stream that come through before its middle
  std::chrono::milliseconds delay{0};  // kSlowHandshake, real time

  uint64_t seen = 0;
};
// {"kind": "cut_mid_stream", "next": 1 | "every": n, "path": "/tokenize", "leg": "producer",
// "pieces": n, "delay_ms": n}; without `next` and `every`: every request until cleared. Errors name
// the member.
absl::StatusOr<FaultRule> ParseFaultRule(const nlohmann::ordered_json& json);

// The faults of one engine. Thread-safe.
class Faults {
 public:
  // False: kMaxRules are there already.
  [[nodiscard]] bool Add(FaultRule rule);
  void Clear();
  // The first rule that hits this request, which uses it up.
  std::optional<FaultRule> Take(std::string_view path, FaultLeg leg);
  uint64_t taken() const;

  static constexpr size_t kMaxRules = 64;

 private:
  mutable Mutex mu_;
  std::vector<FaultRule> rules_ ABSL_GUARDED_BY(mu_);
  uint64_t taken_ ABSL_GUARDED_BY(mu_) = 0;
};

}  // namespace kvrouter::sim

#endif  // KVROUTER_SIM_WIRE_FAULTS_H_
