#ifndef KVROUTER_DISPATCH_DISPATCH_CONFIG_H_
#define KVROUTER_DISPATCH_DISPATCH_CONFIG_H_

#include <chrono>
#include <cstdint>
#include <string>

#include "absl/status/status.h"

namespace kvrouter {

// How text becomes token ids: by the engines' own endpoints.
struct TokenizeConfig {
  // False: requests without token ids are routed by load alone.
  bool enabled = true;
  std::chrono::nanoseconds timeout = std::chrono::seconds(2);  // > 0
  uint64_t cache_bytes = 64ull << 20;  // texts and ids together; 0: nothing is kept
  // Longer texts are tokenised, but not kept.
  uint64_t max_cached_text_bytes = 1ull << 20;
  // Texts on their way to engines at one time; more are routed by load alone.
  uint32_t max_in_flight = 256;  // > 0
  // So many failures in a row of one model open its breaker: it is asked again after breaker_open.
  uint32_t breaker_failures = 5;                                     // > 0
  std::chrono::nanoseconds breaker_open = std::chrono::seconds(10);  // > 0

  friend bool operator==(const TokenizeConfig&, const TokenizeConfig&) = default;
};

// What the dispatcher is told by its settings. Whether disaggregation is strict, and how long a
// migration's source may take, is in the plans it is given (RouterConfig).
struct DispatchConfig {
  // Of requests that name none (x-kvrouter-routing-group), if their model is served there; else the
  // only one that serves it.
  std::string routing_group = "default";
  // Requests at one time; more are refused with 429.
  uint32_t max_live_requests = 65'536;  // > 0
  // From arrival to the end of the answer; 0: no limit.
  std::chrono::nanoseconds total_timeout = std::chrono::seconds(3600);
  // From sending a streaming request to an engine until its answer begins. One that does not
  // stream answers when all is generated, so only the total time bounds it.
  std::chrono::nanoseconds head_timeout = std::chrono::seconds(300);  // > 0
  // Between two pieces of an engine's answer.
  std::chrono::nanoseconds idle_timeout = std::chrono::seconds(300);  // > 0
  // A prefill leg that has not answered after this has failed.
  std::chrono::nanoseconds prefill_timeout = std::chrono::seconds(120);  // > 0
  // A request whose leg failed before its client got a byte is sent to another worker this often.
  uint32_t max_retries = 2;
  // A handshake older than this is not used any more: the producer's blocks may be gone.
  // vLLM's kv_lease_duration is 30 s.
  std::chrono::nanoseconds handshake_lease = std::chrono::seconds(25);  // > 0
  // Signs of life of a request that waits for its engine; well below active_request_expiry.
  std::chrono::nanoseconds keep_alive_period = std::chrono::seconds(60);  // > 0
  // An answer that does not stream is kept whole up to this size, so that its failure can still be
  // retried; the rest of a larger one is passed on as it comes.
  uint64_t max_held_reply_bytes = 8ull << 20;  // > 0
  // Plans of two legs for chat requests, between workers that render a probe conversation alike.
  bool two_leg_chat = true;
  // Whether clients get x-kvrouter-* headers when they ask for them (x-route-explain: 1).
  bool explain_headers = true;
  // Engines are asked for the usage of streams whose clients did not ask, and the event that only
  // brings it does not reach them: so what the engine found in its cache is known of streams, too.
  bool ask_usage = false;
  TokenizeConfig tokenize = {};

  friend bool operator==(const DispatchConfig&, const DispatchConfig&) = default;
};

// INVALID_ARGUMENT naming the field, the value and the limit.
absl::Status Validate(const DispatchConfig& config);

}  // namespace kvrouter

#endif  // KVROUTER_DISPATCH_DISPATCH_CONFIG_H_
