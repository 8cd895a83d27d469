#ifndef KVROUTER_DISPATCH_TOKENIZE_CALL_H_
#define KVROUTER_DISPATCH_TOKENIZE_CALL_H_

#include <memory>
#include <string>
#include <string_view>

#include "dispatch/answer_collector.h"
#include "dispatch/body_edit.h"
#include "dispatch/dispatch_observer.h"
#include "dispatch/engine_link.h"
#include "dispatch/openai_request.h"
#include "dispatch/token_cache.h"

namespace kvrouter {

// How an engine is asked for the token ids of a request, and what its answer means. Pure.

// vLLM's two ways. /tokenize is the older and more common one; what renders a chat also says how
// images become tokens.
enum class TokenizePath : uint8_t { kTokenize, kChatRender };
std::string_view TokenizeUrl(TokenizePath path);

// A body for /tokenize: those members of the client's that decide what the ids are. Its bytes are
// what texts are told apart by.
std::string TokenizeBody(const OpenAiRequest& request, const JsonObject& body);

struct TokenizeReading {
  TokenIds ids;  // null: none
  TokenizeOutcome outcome = TokenizeOutcome::kEngine;
  // It does not have this endpoint.
  bool not_offered = false;
};
TokenizeReading ReadTokenizeAnswer(const CollectedAnswer& answer, uint64_t max_tokens);

}  // namespace kvrouter

#endif  // KVROUTER_DISPATCH_TOKENIZE_CALL_H_
