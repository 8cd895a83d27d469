#ifndef KVROUTER_SIM_WIRE_LIVE_ANSWER_H_
#define KVROUTER_SIM_WIRE_LIVE_ANSWER_H_

#include <cstdint>
#include <memory>
#include <nlohmann/json.hpp>
#include <string_view>

#include "adapters/http/http_server.h"
#include "sim/wire/completion_reply.h"
#include "sim/wire/completion_request.h"

namespace kvrouter::sim {

// The answer of one live request, told to its client as the model produces it: what the text is and
// how it is put on the wire. All choices of a request grow in step. Thread-compatible.
class LiveAnswer {
 public:
  LiveAnswer(const CompletionRequest& request, CompletionHead head,
             std::shared_ptr<HttpResponder> responder);

  const CompletionUsage& usage() const { return usage_; }
  void SetCachedTokens(uint64_t cached_tokens) { usage_.cached_tokens = cached_tokens; }
  bool ClientGone() const { return responder_->Cancelled(); }

  // Sends the head of a stream now instead of with its first token, as vLLM does.
  void Open();
  // Each choice now has `output_tokens`.
  void Grow(uint64_t output_tokens);
  // `handshake`: what the answer says as kv_transfer_params; a stream cannot say it.
  void Finish(const nlohmann::ordered_json& handshake);
  // HTTP 500, or an error event in a stream that was opened.
  void Fail(std::string_view message);
  void Cut() { responder_->Cut(); }

 private:
  const CompletionUsage* UsageOfChunks() const { return continuous_usage_ ? &usage_ : nullptr; }

  CompletionHead head_;
  std::shared_ptr<HttpResponder> responder_;
  CompletionUsage usage_;
  uint64_t prompt_hash_;
  uint64_t max_tokens_;
  uint64_t sent_tokens_ = 0;  // of each choice
  uint32_t choices_;
  bool opened_ = false;
  bool stream_;
  bool include_usage_;
  bool continuous_usage_;
};

}  // namespace kvrouter::sim

#endif  // KVROUTER_SIM_WIRE_LIVE_ANSWER_H_
