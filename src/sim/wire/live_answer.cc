#include "sim/wire/live_answer.h"

#include <string>
#include <utility>
#include <vector>

#include "sim/wire/json_response.h"
#include "sim/wire/sim_tokenizer.h"

namespace kvrouter::sim {
namespace {

HttpResponse StreamHead() {
  return {.status = 200,
          .content_type = "text/event-stream; charset=utf-8",
          .headers = {{"cache-control", "no-cache"}},
          .body = {}};
}

}  // namespace

LiveAnswer::LiveAnswer(const CompletionRequest& request, CompletionHead head,
                       std::shared_ptr<HttpResponder> responder)
    : head_(std::move(head)),
      responder_(std::move(responder)),
      prompt_hash_(PromptHash(request.prompt_tokens)),
      max_tokens_(request.max_tokens),
      choices_(request.choices),
      stream_(request.stream),
      include_usage_(request.include_usage),
      continuous_usage_(request.include_usage && request.continuous_usage) {
  usage_.prompt_tokens = request.prompt_tokens.size();
}

void LiveAnswer::Open() {
  if (!stream_ || std::exchange(opened_, true)) return;
  responder_->Begin(StreamHead());
}

void LiveAnswer::Grow(uint64_t output_tokens) {
  if (output_tokens <= sent_tokens_) return;
  const bool first = sent_tokens_ == 0;
  const uint64_t first_token = std::exchange(sent_tokens_, output_tokens);
  usage_.completion_tokens = output_tokens * choices_;
  if (!stream_) return;
  std::string lines;
  if (first) {
    Open();
    for (uint32_t choice = 0; head_.chat && choice < choices_; ++choice) {
      lines += ChatOpening(head_, choice, UsageOfChunks());
    }
  }
  for (uint32_t choice = 0; choice < choices_; ++choice) {
    const std::string text = OutputText(
        prompt_hash_,
        {.choice = choice, .first_token = first_token, .tokens = output_tokens - first_token});
    lines += CompletionChunk(head_,
                             {.choice = choice, .text = text, .last = output_tokens == max_tokens_},
                             UsageOfChunks());
  }
  responder_->Write(std::move(lines));
}

void LiveAnswer::Finish(const nlohmann::ordered_json& handshake) {
  Grow(max_tokens_);
  if (stream_) {
    std::string tail;
    if (include_usage_) tail = UsageChunk(head_, usage_);
    tail += kStreamEnd;
    responder_->Write(std::move(tail));
    responder_->End();
    return;
  }
  std::vector<std::string> texts;
  for (uint32_t choice = 0; choice < choices_; ++choice) {
    texts.push_back(
        OutputText(prompt_hash_, {.choice = choice, .first_token = 0, .tokens = max_tokens_}));
  }
  responder_->Complete(JsonResponse(200, CompletionBody(head_, texts, usage_, handshake)));
}

void LiveAnswer::Fail(std::string_view message) {
  if (!opened_) {
    responder_->Complete(JsonResponse(500, ErrorBody(message, "internal_server_error", 500)));
    return;
  }
  responder_->Write(ErrorChunk(message, "internal_server_error", 500) + std::string(kStreamEnd));
  responder_->End();
}

}  // namespace kvrouter::sim
