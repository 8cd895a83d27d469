#ifndef KVROUTER_SERVICE_REFUSAL_COUNTS_H_
#define KVROUTER_SERVICE_REFUSAL_COUNTS_H_

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>

#include "absl/status/status.h"
#include "kvrouter/error.h"

namespace kvrouter {

// How many calls were answered with an error, by its reason. Thread-safe.
class RefusalCounts {
 public:
  using ByReason = std::array<uint64_t, kErrorReasonCount>;

  // Nothing if `answer` is OK.
  void Count(const absl::Status& answer) {
    if (answer.ok()) return;
    counts_[static_cast<size_t>(ErrorReasonOf(answer))].fetch_add(1, std::memory_order_relaxed);
  }

  ByReason Read() const {
    ByReason out{};
    for (size_t i = 0; i < out.size(); ++i) out[i] = counts_[i].load(std::memory_order_relaxed);
    return out;
  }

 private:
  std::array<std::atomic<uint64_t>, kErrorReasonCount> counts_{};
};

}  // namespace kvrouter

#endif  // KVROUTER_SERVICE_REFUSAL_COUNTS_H_
