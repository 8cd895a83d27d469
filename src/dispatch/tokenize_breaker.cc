#include "dispatch/tokenize_breaker.h"

#include <algorithm>

namespace kvrouter {

void TokenizeBreaker::OnSuccess(uint64_t text_bytes) {
  if (text_bytes < failed_from_bytes_) return;  // says nothing of what failed
  failures_ = 0;
  failed_from_bytes_ = kNone;
}

void TokenizeBreaker::OnTimeOut(uint64_t text_bytes, const Limits& limits, MonotonicTime now) {
  Count(text_bytes <= kShortTextBytes ? 0 : text_bytes, limits, now);
}

void TokenizeBreaker::OnNotOffered(const Limits& limits, MonotonicTime now) {
  failures_ = limits.failures;
  failed_from_bytes_ = 0;
  open_until_ = now + limits.open;
  open_from_bytes_ = 0;
}

void TokenizeBreaker::Count(uint64_t from_bytes, const Limits& limits, MonotonicTime now) {
  if (failures_ >= limits.failures && now >= open_until_) {
    // It was open and is not any more: they have as many chances again.
    failures_ = 0;
    failed_from_bytes_ = kNone;
  }
  if (failures_ < limits.failures) ++failures_;
  failed_from_bytes_ = std::min(failed_from_bytes_, from_bytes);
  if (failures_ < limits.failures) return;
  const bool is_open = now < open_until_;
  // What was on its way when it opened does not keep it open.
  if (is_open && failed_from_bytes_ >= open_from_bytes_) return;
  open_until_ = now + limits.open;
  open_from_bytes_ = failed_from_bytes_;
}

}  // namespace kvrouter
