#ifndef KVROUTER_TESTS_PROPERTY_TRUTH_TIMELINE_H_
#define KVROUTER_TESTS_PROPERTY_TRUTH_TIMELINE_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <queue>
#include <utility>
#include <vector>

#include "kvrouter/types.h"

namespace kvrouter::truth {

// Virtual time: what is due happens in order of time, then of planning.
class Timeline {
 public:
  MonotonicTime Now() const { return now_; }

  void At(MonotonicTime at, std::function<void()> what) {
    due_.push({at < now_ ? now_ : at, order_++, std::move(what)});
  }
  void In(MonotonicTime delay, std::function<void()> what) { At(now_ + delay, std::move(what)); }
  // Nothing happens if the owner is gone by then.
  template <typename T, typename What>
  void InLifeOf(const std::shared_ptr<T>& owner, MonotonicTime at, What what) {
    At(at, [weak = std::weak_ptr<T>(owner), what = std::move(what)] {
      if (const auto alive = weak.lock()) what(*alive);
    });
  }

  void RunUntil(MonotonicTime end) {
    while (!due_.empty() && due_.top().at <= end) {
      now_ = due_.top().at;
      const std::function<void()> what = std::move(const_cast<Due&>(due_.top()).what);
      due_.pop();
      what();
    }
    now_ = end;
  }

 private:
  struct Due {
    MonotonicTime at{};
    uint64_t order = 0;
    std::function<void()> what;

    bool operator<(const Due& other) const {  // the queue's top is the largest
      return at != other.at ? at > other.at : order > other.order;
    }
  };

  MonotonicTime now_{};
  uint64_t order_ = 0;
  std::priority_queue<Due> due_;
};

}  // namespace kvrouter::truth

#endif  // KVROUTER_TESTS_PROPERTY_TRUTH_TIMELINE_H_
