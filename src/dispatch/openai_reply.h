#ifndef KVROUTER_DISPATCH_OPENAI_REPLY_H_
#define KVROUTER_DISPATCH_OPENAI_REPLY_H_

#include <cstdint>
#include <optional>
#include <string>

namespace kvrouter {

struct OpenAiUsage {
  std::optional<uint64_t> prompt_tokens;
  std::optional<uint64_t> completion_tokens;
  std::optional<uint64_t> cached_tokens;  // prompt_tokens_details.cached_tokens
};

// What the router wants to know of an engine's answer: a whole one, or a chunk of a stream.
struct OpenAiReply {
  bool is_json = false;
  bool is_error = false;    // an error object, or a choice that finished with "error"
  uint64_t error_code = 0;  // a number like an HTTP status, as vLLM names it; 0: none
  bool has_output = false;
  bool finished = false;  // a choice did
  // Of a chunk: no choice and a usage, as the last one of a stream that was asked for it.
  bool only_usage = false;
  // Of a chunk: what its choices bring; one each, unless it lists the ids.
  uint64_t output_tokens = 0;
  OpenAiUsage usage;
};

// Of any text. Reads in place if there are 64 bytes of capacity behind it.
OpenAiReply ReadOpenAiReply(const std::string& text);

}  // namespace kvrouter

#endif  // KVROUTER_DISPATCH_OPENAI_REPLY_H_
