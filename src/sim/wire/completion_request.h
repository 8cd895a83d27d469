#ifndef KVROUTER_SIM_WIRE_COMPLETION_REQUEST_H_
#define KVROUTER_SIM_WIRE_COMPLETION_REQUEST_H_

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "kvrouter/types.h"

namespace kvrouter::sim {

// The part of an OpenAI /v1/completions body that the simulated engine understands. Other members
// are ignored, except `cache_salt`, which would change the identity of blocks and is refused.
struct CompletionRequest {
  std::vector<TokenId> prompt_tokens;  // never empty
  std::string model;                   // empty: the engine's only one
  uint64_t max_tokens = 16;            // OpenAI's default
  bool stream = false;
  bool include_usage = false;  // stream_options.include_usage
};

struct CompletionLimits {
  uint64_t prompt_tokens = 2'000'000;
  uint64_t max_tokens = 1'000'000;
};

// A prompt is an array of token ids, or a text, of which every byte is one token: no tokeniser, but
// equal prefixes of text are equal prefixes of tokens. Errors name the member, the value and the
// limit.
absl::StatusOr<CompletionRequest> ParseCompletionRequest(std::string_view body,
                                                         const CompletionLimits& limits);

}  // namespace kvrouter::sim

#endif  // KVROUTER_SIM_WIRE_COMPLETION_REQUEST_H_
