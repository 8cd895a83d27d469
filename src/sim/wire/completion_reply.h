#ifndef KVROUTER_SIM_WIRE_COMPLETION_REPLY_H_
#define KVROUTER_SIM_WIRE_COMPLETION_REPLY_H_

#include <cstdint>
#include <nlohmann/json.hpp>
#include <span>
#include <string>
#include <string_view>

namespace kvrouter::sim {

// OpenAI answers to completions and chats as vLLM shapes them.

struct CompletionUsage {
  uint64_t prompt_tokens = 0;
  uint64_t completion_tokens = 0;  // of all choices
  uint64_t cached_tokens = 0;      // of the prompt, found in the prefix cache
};

struct CompletionHead {
  std::string id;  // "cmpl-…" or "chatcmpl-…"
  std::string model;
  int64_t created_s = 0;
  bool chat = false;
};

// More text of one choice; the last piece carries the finish reason.
struct CompletionPiece {
  uint32_t choice = 0;
  std::string_view text;
  bool last = false;
};

// The whole answer of a request that does not stream: one text per choice. Only such answers can
// carry a handshake.
std::string CompletionBody(const CompletionHead& head, std::span<const std::string> texts,
                           const CompletionUsage& usage,
                           const nlohmann::ordered_json& kv_transfer_params);

// One `data:` line of a stream; `usage` so far, if wanted in every line.
std::string CompletionChunk(const CompletionHead& head, const CompletionPiece& piece,
                            const CompletionUsage* usage);
// The line a choice of a chat begins with: the role, no text.
std::string ChatOpening(const CompletionHead& head, uint32_t choice, const CompletionUsage* usage);
// The line with the sums, for requests that asked for it, between the last chunk and the end.
std::string UsageChunk(const CompletionHead& head, const CompletionUsage& usage);
// An error after a stream has begun: an event, since the status is long sent.
std::string ErrorChunk(std::string_view message, std::string_view type, int code);
inline constexpr std::string_view kStreamEnd = "data: [DONE]\n\n";

// {"error": {...}}; `type` in OpenAI's words, e.g. "invalid_request_error".
std::string ErrorBody(std::string_view message, std::string_view type, int code);

}  // namespace kvrouter::sim

#endif  // KVROUTER_SIM_WIRE_COMPLETION_REPLY_H_
