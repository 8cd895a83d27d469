#ifndef KVROUTER_SIM_PLAYER_PROMPT_BODY_H_
#define KVROUTER_SIM_PLAYER_PROMPT_BODY_H_

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "kvrouter/types.h"

namespace kvrouter::sim {

// JSON of a streaming completion: {"prompt": [ids], "max_tokens": n, "stream": true}, with "model"
// unless empty. Written by hand because prompts have 10^5 tokens and their ids repeat: the text of
// a token is made once per run of equal ones.
std::string CompletionRequestBody(std::span<const TokenId> tokens, uint64_t max_tokens,
                                  std::string_view model_name);

}  // namespace kvrouter::sim

#endif  // KVROUTER_SIM_PLAYER_PROMPT_BODY_H_
