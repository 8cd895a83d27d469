#include "core/affinity/hot_keys.h"

#include <algorithm>
#include <cmath>

namespace kvrouter {

double HotKeys::UnitAt(MonotonicTime now) {
  constexpr double kMaxHalfLives = 64;
  if (!started_) {
    started_ = true;
    epoch_ = now;
  }
  const double half_lives = std::chrono::duration<double>(now - epoch_) /
                            std::chrono::duration<double>(options_.half_life);
  if (half_lives < kMaxHalfLives) return std::exp2(std::max(half_lives, 0.0));
  const double fade = std::exp2(-half_lives);
  for (Counter& counter : counters_) {
    counter.tokens *= fade;
    counter.requests *= fade;
  }
  total_tokens_ *= fade;
  epoch_ = now;
  return 1;
}

HotKeys::Counter& HotKeys::CounterOf(SessionKey key) {
  const auto it = places_.find(key);
  if (it != places_.end()) return counters_[it->second];
  if (counters_.size() < options_.tracked_keys) {
    places_[key] = static_cast<uint32_t>(counters_.size());
    return counters_.emplace_back(Counter{.key = key});
  }
  const auto lightest =
      std::min_element(counters_.begin(), counters_.end(),
                       [](const Counter& a, const Counter& b) { return a.tokens < b.tokens; });
  places_.erase(lightest->key);
  places_[key] = static_cast<uint32_t>(lightest - counters_.begin());
  if (lightest->hot) --hot_count_;
  lightest->key = key;
  lightest->hot = false;
  return *lightest;
}

void HotKeys::Judge(Counter* counter, uint64_t targets, double unit) {
  const double share_of_mean =
      counter->tokens / total_tokens_ * static_cast<double>(std::max<uint64_t>(targets, 1));
  const double bound = counter->hot ? options_.hot_share_of_mean / 2 : options_.hot_share_of_mean;
  const double requests = counter->requests / unit;
  const double enough = counter->hot ? options_.min_requests / 2 : options_.min_requests;
  const bool hot = share_of_mean > bound && requests >= enough;
  if (hot == counter->hot) return;
  counter->hot = hot;
  if (hot) {
    ++hot_count_;
    ++turned_hot_total_;
  } else {
    --hot_count_;
  }
}

bool HotKeys::Note(SessionKey key, const Load& load, MonotonicTime now) {
  const double unit = UnitAt(now);
  Counter& counter = CounterOf(key);
  counter.tokens += load.weight_tokens * unit;
  counter.requests += unit;
  total_tokens_ += load.weight_tokens * unit;
  Judge(&counter, load.targets, unit);
  return counter.hot;
}

bool HotKeys::IsHot(SessionKey key) const {
  const auto it = places_.find(key);
  return it != places_.end() && counters_[it->second].hot;
}

}  // namespace kvrouter
