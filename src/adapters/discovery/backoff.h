#ifndef KVROUTER_ADAPTERS_DISCOVERY_BACKOFF_H_
#define KVROUTER_ADAPTERS_DISCOVERY_BACKOFF_H_

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <random>

namespace kvrouter {

// Waits that double from `first` up to `longest`, each shortened at random by up to half, so that
// the routers of a cluster do not come back to its API server all at once. Thread-compatible.
class Backoff {
 public:
  using Duration = std::chrono::milliseconds;
  Backoff(Duration first, Duration longest, uint64_t seed)
      : first_(first), longest_(longest), next_(first), random_(seed) {}

  void Reset() { next_ = first_; }
  Duration Next() {
    const Duration whole = next_;
    next_ = std::min(longest_, next_ * 2);
    return Duration(
        std::uniform_int_distribution<int64_t>(whole.count() / 2, whole.count())(random_));
  }

 private:
  const Duration first_;
  const Duration longest_;
  Duration next_;
  std::mt19937_64 random_;
};

}  // namespace kvrouter

#endif  // KVROUTER_ADAPTERS_DISCOVERY_BACKOFF_H_
