#ifndef KVROUTER_DISPATCH_OPENAI_REQUEST_H_
#define KVROUTER_DISPATCH_OPENAI_REQUEST_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "kvrouter/decision.h"
#include "kvrouter/types.h"

namespace kvrouter {

// What the router reads of an OpenAI body. The engine judges all else, and its own words on a bad
// field reach the client; only what the router itself needs is an error here: the body is no JSON
// object, or a field that says where to send it makes no sense.
//
// Pure. Cost: one pass over the body; token ids are read where they lie.

enum class OpenAiEndpoint : uint8_t { kCompletions, kChatCompletions };
std::optional<OpenAiEndpoint> OpenAiEndpointOf(std::string_view path);

// Routing fields of the `nvext` object. Parity: Dynamo v1.4.1; unknown ones are left to the engine,
// since we have no list of those of later versions.
struct NvExt {
  std::optional<uint64_t> decode_worker_id;  // or backend_instance_id
  std::optional<uint64_t> prefill_worker_id;
  std::optional<uint32_t> dp_rank;
  std::optional<uint32_t> prefill_dp_rank;
  std::optional<int64_t> priority;  // agent_hints.priority, else .latency_sensitivity
  std::optional<uint32_t> strict_priority;
  std::optional<uint64_t> expected_output_tokens;  // agent_hints.osl
  RoutingConstraints constraints;
};

// Why a request may only be served by one engine, as it is.
enum class PlainReason : uint8_t {
  kNone,
  kSeveralPrompts,
  kSeveralChoices,     // n, best_of, beam search: every sequence would pull the same blocks
  kWholePrompt,        // echo, suffix, prompt_logprobs, truncation: more than the prompt's blocks
  kCallersParameters,  // the caller does the transfer itself
};

struct OpenAiRequest {
  OpenAiEndpoint endpoint = OpenAiEndpoint::kCompletions;
  std::string model;  // empty: none named
  bool stream = false;
  bool has_stream_options = false;
  // Token ids the client sent (or nvext.token_data); of several prompts the first one's.
  std::optional<std::vector<TokenId>> token_ids;
  bool token_ids_are_prompt = false;  // false: they came beside a text
  // The prompt's text where it lies in the body, quotes included; empty: ids, messages, or several.
  size_t text_begin = 0;
  size_t text_bytes = 0;
  bool has_messages = false;
  bool has_cache_salt = false;
  std::string cache_salt;
  PlainReason plain = PlainReason::kNone;
  NvExt nvext;
};

struct OpenAiLimits {
  uint64_t max_prompt_tokens = 16'777'216;
  // Each is kept track of where a body is edited, which takes ten times what `"":0,` does.
  uint64_t max_members = 4096;
};

// Errors: kInvalidRequest or kTooLarge, naming field, value and limit. Reads in place a `body` with
// 64 bytes of capacity behind its text.
absl::StatusOr<OpenAiRequest> ReadOpenAiRequest(OpenAiEndpoint endpoint, const std::string& body,
                                                const OpenAiLimits& limits);

// The `model` of any JSON object; empty if there is none.
absl::StatusOr<std::string> ReadModel(const std::string& body);

}  // namespace kvrouter

#endif  // KVROUTER_DISPATCH_OPENAI_REQUEST_H_
