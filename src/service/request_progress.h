#ifndef KVROUTER_SERVICE_REQUEST_PROGRESS_H_
#define KVROUTER_SERVICE_REQUEST_PROGRESS_H_

#include <chrono>
#include <cstdint>
#include <optional>

#include "kvrouter/types.h"

namespace kvrouter {

// What a caller has reported of one request, and what follows from it for latency figures.
//
//   arrival ──> first token ──> block boundary ──> block boundary ──> … ──> end
//      └─ time to first ─┘ └─ average inter-token, at each boundary ─┘
//
// Parity: Dynamo observes the average since the first token, (now - first token) / (tokens - 1),
// each time prompt plus output grow into another block, so a long answer counts more often. A
// caller that counts blocks instead of tokens reports at just these boundaries, which
// tells the tokens.
//
// Thread-compatible.
class RequestProgress {
 public:
  struct Start {
    MonotonicTime arrived_at{};
    uint64_t isl_tokens = 0;
    uint32_t block_size_tokens = 1;
  };

  RequestProgress() = default;
  explicit RequestProgress(const Start& start);

  // The prompt is computed. The time since the request arrived; absent if that was reported before.
  std::optional<std::chrono::nanoseconds> FirstToken(MonotonicTime now);

  // `output_tokens` cumulative; fewer than before count as a repetition. The average time between
  // tokens if a block boundary was crossed, two tokens are known and the first one's time is.
  std::optional<std::chrono::nanoseconds> OutputTokens(uint64_t output_tokens, MonotonicTime now);
  // One more block was begun.
  std::optional<std::chrono::nanoseconds> OutputBlock(MonotonicTime now);

  // As far as reported: of a caller that counts blocks, those up to the first token of the last
  // one.
  uint64_t output_tokens() const { return output_tokens_; }

 private:
  // Blocks that prompt and output fill or have begun.
  uint64_t BlocksWith(uint64_t output_tokens) const;

  Start start_;
  std::optional<MonotonicTime> first_token_at_;
  uint64_t output_tokens_ = 0;
};

}  // namespace kvrouter

#endif  // KVROUTER_SERVICE_REQUEST_PROGRESS_H_
