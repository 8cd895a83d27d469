#include "service/request_progress.h"

#include <algorithm>
#include <limits>

namespace kvrouter {

RequestProgress::RequestProgress(const Start& start) : start_(start) {}

uint64_t RequestProgress::BlocksWith(uint64_t output_tokens) const {
  // Without adding: a caller may report any number.
  const uint64_t block = start_.block_size_tokens;
  const uint64_t rest = start_.isl_tokens % block + output_tokens % block;
  return start_.isl_tokens / block + output_tokens / block + (rest + block - 1) / block;
}

std::optional<std::chrono::nanoseconds> RequestProgress::FirstToken(MonotonicTime now) {
  if (first_token_at_) return std::nullopt;
  first_token_at_ = now;
  return now - start_.arrived_at;
}

std::optional<std::chrono::nanoseconds> RequestProgress::OutputTokens(uint64_t output_tokens,
                                                                      MonotonicTime now) {
  if (output_tokens <= output_tokens_) return std::nullopt;
  const bool crossed = BlocksWith(output_tokens) > BlocksWith(output_tokens_);
  output_tokens_ = output_tokens;
  if (!crossed || !first_token_at_ || output_tokens_ < 2) return std::nullopt;
  // Never below 0: `now` may have been read before a first token that was noted sooner, and any
  // number of tokens may be reported.
  const auto elapsed = std::max(now - *first_token_at_, MonotonicTime(0));
  const uint64_t intervals =
      std::min<uint64_t>(output_tokens_ - 1, std::numeric_limits<int64_t>::max());
  return elapsed / static_cast<int64_t>(intervals);
}

std::optional<std::chrono::nanoseconds> RequestProgress::OutputBlock(MonotonicTime now) {
  const uint64_t block = start_.block_size_tokens;
  // The first token that does not fit into the blocks begun so far.
  const uint64_t in_last_block = (start_.isl_tokens % block + output_tokens_ % block) % block;
  const uint64_t room = in_last_block == 0 ? 0 : block - in_last_block;
  if (output_tokens_ > std::numeric_limits<uint64_t>::max() - room - 1) return std::nullopt;
  return OutputTokens(output_tokens_ + room + 1, now);
}

}  // namespace kvrouter
