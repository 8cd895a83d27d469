#ifndef KVROUTER_SIM_WIRE_SIM_TOKENIZER_H_
#define KVROUTER_SIM_WIRE_SIM_TOKENIZER_H_

#include <cstdint>
#include <nlohmann/json.hpp>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "kvrouter/types.h"

namespace kvrouter::sim {

// The language of the simulated model. Every byte of a text is one token; a chat becomes a text by
// a template; the answer to a prompt is a letter per token, drawn from the prompt's tokens and the
// place in the answer and from nothing else. So equal prefixes of text are equal prefixes of
// tokens, an answer that comes back in the next turn is the same tokens again, and whichever
// engines serve a prompt, by whatever plan, its answer is the same.

std::vector<TokenId> TextTokens(std::string_view text);
// The inverse. Ids that are no byte (prompts of token ids) become "<|id|>".
std::string TokensText(std::span<const TokenId> tokens);

// What the model is asked when a client sends this conversation: an object with `messages`, and
// perhaps `tools`, `chat_template_kwargs` and `add_generation_prompt` (default true). Engines of
// different `template_name` render the same conversation differently. Errors name the member.
absl::StatusOr<std::string> RenderChat(const nlohmann::ordered_json& conversation,
                                       std::string_view template_name);

// Stands for a prompt where only its answer matters.
uint64_t PromptHash(std::span<const TokenId> prompt_tokens);

// Tokens [first, first + count) of the answer, as text. `choice` is 0 for the first of `n` answers.
struct OutputRange {
  uint32_t choice = 0;
  uint64_t first_token = 0;
  uint64_t tokens = 0;
};
std::string OutputText(uint64_t prompt_hash, const OutputRange& range);

}  // namespace kvrouter::sim

#endif  // KVROUTER_SIM_WIRE_SIM_TOKENIZER_H_
