#ifndef KVROUTER_SIM_WIRE_LIVE_ANSWER_H_
#define KVROUTER_SIM_WIRE_LIVE_ANSWER_H_

#include <cstdint>
#include <memory>

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

  // Each choice now has `output_tokens`; the first call opens a stream.
  void Grow(uint64_t output_tokens);
  void Finish();

 private:
  const CompletionUsage* UsageOfChunks() const { return continuous_usage_ ? &usage_ : nullptr; }

  CompletionHead head_;
  std::shared_ptr<HttpResponder> responder_;
  CompletionUsage usage_;
  uint64_t prompt_hash_;
  uint64_t max_tokens_;
  uint64_t sent_tokens_ = 0;  // of each choice
  uint32_t choices_;
  bool stream_;
  bool include_usage_;
  bool continuous_usage_;
};

}  // namespace kvrouter::sim

#endif  // KVROUTER_SIM_WIRE_LIVE_ANSWER_H_
