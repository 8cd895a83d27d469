#ifndef KVROUTER_SERVICE_REQUEST_LIMITS_H_
#define KVROUTER_SERVICE_REQUEST_LIMITS_H_

#include <cstddef>
#include <cstdint>

#include "absl/status/status.h"
#include "kvrouter/decision.h"

namespace kvrouter {

struct ServiceConfig {
  // Longest prompt accepted, in tokens. With the 64 MiB message limit of the doors this is never
  // reached by fixed32 ids.
  uint64_t max_prompt_tokens = 16'777'216;
  // Longest request id, bytes.
  uint32_t max_request_id_bytes = 256;
  // Recent decisions kept for Explain: how many (0: none), and how many bytes together.
  uint32_t decision_ring_entries = 4096;
  uint64_t decision_ring_bytes = 64ull << 20;
};

// Fixed limits of the other fields: generous against real use, small against a caller that means
// harm.
inline constexpr size_t kMaxIdentityBytes = 1024;       // lora_name, cache_salt
inline constexpr size_t kMaxTargetsPerRequest = 65536;  // allowed workers, excluded targets
inline constexpr size_t kMaxPolicyClassBytes = 128;
inline constexpr size_t kMaxTaintsPerRequest =
    256;  // required and preferred, each of kMaxTaintBytes

// What can be said about a request without knowing its partition. OK, or kInvalidRequest /
// kTooLarge naming field, value and limit. An empty request id is valid: one will be generated.
// Pure; one place for all doors.
absl::Status CheckRequest(const ServiceConfig& config, const RouteRequest& request);

}  // namespace kvrouter

#endif  // KVROUTER_SERVICE_REQUEST_LIMITS_H_
