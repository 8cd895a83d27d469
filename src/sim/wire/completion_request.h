#ifndef KVROUTER_SIM_WIRE_COMPLETION_REQUEST_H_
#define KVROUTER_SIM_WIRE_COMPLETION_REQUEST_H_

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "kvrouter/types.h"

namespace kvrouter::sim {

// The part of an OpenAI body, of /v1/completions or /v1/chat/completions, that the simulated engine
// understands. Other members are ignored, except `cache_salt`, which would change the identity of
// blocks and is refused.
struct CompletionRequest {
  std::vector<TokenId> prompt_tokens;  // never empty
  std::string model;                   // empty: the engine's only one
  std::string request_id;              // the client's x-request-id; empty: none
  uint64_t max_tokens = 16;            // OpenAI's default, for chats too
  uint32_t choices = 1;                // `n`
  bool chat = false;
  bool stream = false;
  bool include_usage = false;     // stream_options.include_usage
  bool continuous_usage = false;  // stream_options.continuous_usage_stats, of no effect without
  nlohmann::ordered_json kv_transfer_params;  // as sent; null: none
};

struct CompletionLimits {
  uint64_t prompt_tokens = 2'000'000;
  uint64_t max_tokens = 1'000'000;
  uint32_t choices = 128;
};

// A prompt is an array of token ids, or a text (sim_tokenizer.h). Errors name the member, the value
// and the limit.
absl::StatusOr<CompletionRequest> ParseCompletionRequest(std::string_view body,
                                                         const CompletionLimits& limits);
// A chat is rendered by the template of this name.
absl::StatusOr<CompletionRequest> ParseChatRequest(std::string_view body,
                                                   std::string_view template_name,
                                                   const CompletionLimits& limits);

}  // namespace kvrouter::sim

#endif  // KVROUTER_SIM_WIRE_COMPLETION_REQUEST_H_
