#ifndef KVROUTER_SIM_WIRE_COMPLETION_REPLY_H_
#define KVROUTER_SIM_WIRE_COMPLETION_REPLY_H_

#include <cstdint>
#include <string>
#include <string_view>

namespace kvrouter::sim {

// OpenAI completion answers as vLLM shapes them. Every generated token is the text " t".

struct CompletionUsage {
  uint64_t prompt_tokens = 0;
  uint64_t completion_tokens = 0;
  uint64_t cached_tokens = 0;  // of the prompt, found in the prefix cache
};

struct CompletionHead {
  std::string id;  // "cmpl-…"
  std::string model;
  int64_t created_s = 0;
};

// The whole answer of a request that does not stream.
std::string CompletionBody(const CompletionHead& head, const CompletionUsage& usage);

// One `data:` line of a stream with `new_tokens` more tokens; the last one carries the finish
// reason.
std::string CompletionChunk(const CompletionHead& head, uint64_t new_tokens, bool last);
// The line with the sums, for requests that asked for it, between the last chunk and the end.
std::string UsageChunk(const CompletionHead& head, const CompletionUsage& usage);
inline constexpr std::string_view kStreamEnd = "data: [DONE]\n\n";

// {"error": {...}}; `type` in OpenAI's words, e.g. "invalid_request_error".
std::string ErrorBody(std::string_view message, std::string_view type, int code);

}  // namespace kvrouter::sim

#endif  // KVROUTER_SIM_WIRE_COMPLETION_REPLY_H_
