#ifndef KVROUTER_CORE_AFFINITY_HOT_KEYS_H_
#define KVROUTER_CORE_AFFINITY_HOT_KEYS_H_

#include <chrono>
#include <cstdint>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "core/affinity/session_key.h"
#include "kvrouter/types.h"

namespace kvrouter {

// Tells derived keys that must not pin: those with more of the load than one target should carry.
// Such a key is no conversation but what many have in common, e.g. a system prompt longer than the
// prefix that makes the key; all of them on one target would be a herd.
//
// Load is the tokens of the requests seen, fading with a half-life. A key turns hot when it has
//
//   share of all load * number of targets > hot_share_of_mean       and at least min_requests
//
// so with one target nothing is hot, and a lone conversation of an idle fleet stays pinned until it
// sends as many requests as only a crowd does. It turns cold again at half of that share or when
// its load has faded: a key on the edge does not flap.
//
// Only the heaviest keys can be hot, so few are tracked (the "space saving" way: a new key takes
// over the lightest counter and its figures, an error of at most total / tracked_keys).
//
// Thread safety: thread-compatible.
class HotKeys {
 public:
  struct Options {
    double hot_share_of_mean = 1.0;      // > 0, finite
    double min_requests = 32;            // faded count
    std::chrono::seconds half_life{60};  // > 0
    uint32_t tracked_keys = 256;         // > 0
  };

  struct Load {
    double weight_tokens = 0;  // > 0
    uint64_t targets = 1;      // that could serve the request
  };

  explicit HotKeys(const Options& options) : options_(options) {}

  // A request of this key comes. True: the key is hot, do not pin it.
  bool Note(SessionKey key, const Load& load, MonotonicTime now);

  // Whether Note last found it hot. For advice.
  bool IsHot(SessionKey key) const;

  // Keys that are hot, as of their last request.
  uint64_t HotCount() const { return hot_count_; }
  uint64_t TurnedHotTotal() const { return turned_hot_total_; }

 private:
  // Figures are in units that grow with time, so that nothing must be faded: what is added now
  // weighs 2^(age / half-life) of what was added at the epoch.
  struct Counter {
    SessionKey key = kNoSession;
    double tokens = 0;
    double requests = 0;
    bool hot = false;
  };

  // The unit of `now`; starts a new epoch before units grow too large for a double.
  double UnitAt(MonotonicTime now);
  Counter& CounterOf(SessionKey key);
  void Judge(Counter* counter, uint64_t targets, double unit);

  const Options options_;
  std::vector<Counter> counters_;
  absl::flat_hash_map<SessionKey, uint32_t> places_;
  double total_tokens_ = 0;
  MonotonicTime epoch_{};
  bool started_ = false;
  uint64_t hot_count_ = 0;
  uint64_t turned_hot_total_ = 0;
};

}  // namespace kvrouter

#endif  // KVROUTER_CORE_AFFINITY_HOT_KEYS_H_
