#ifndef KVROUTER_BASE_BOUNDED_QUEUE_H_
#define KVROUTER_BASE_BOUNDED_QUEUE_H_

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <optional>
#include <utility>

#include "base/mutex.h"

namespace kvrouter {

// FIFO between threads with a bound. A full queue refuses the newest (TryPush returns false and
// counts it): the caller decides what a refusal means. Thread-safe.
template <typename T>
class BoundedQueue {
 public:
  explicit BoundedQueue(size_t capacity) : capacity_(capacity) {}

  [[nodiscard]] bool TryPush(T value) {
    {
      MutexLock lock(mu_);
      if (closed_ || items_.size() >= capacity_) {
        ++refused_;
        return false;
      }
      items_.push_back(std::move(value));
    }
    not_empty_.NotifyOne();
    return true;
  }

  std::optional<T> TryPop() {
    MutexLock lock(mu_);
    return PopLocked();
  }

  // Waits up to `timeout` (at most an hour); nothing on time-out, or when the queue is closed and
  // empty.
  std::optional<T> PopFor(std::chrono::nanoseconds timeout) {
    const auto end = std::chrono::steady_clock::now() + std::min(timeout, kLongestWait);
    MutexLock lock(mu_);
    // A producer notifies after it has let go of the lock, so the word may come late, when its item
    // was taken long ago: one wait is not enough.
    while (items_.empty() && !closed_) {
      const auto left = end - std::chrono::steady_clock::now();
      if (left <= std::chrono::nanoseconds(0)) break;
      not_empty_.WaitFor(mu_, left);
    }
    return PopLocked();
  }

  // No further pushes; waiting consumers wake. Items already queued can still be popped.
  void Close() {
    {
      MutexLock lock(mu_);
      closed_ = true;
    }
    not_empty_.NotifyAll();
  }

  size_t Size() const {
    MutexLock lock(mu_);
    return items_.size();
  }
  uint64_t Refused() const {
    MutexLock lock(mu_);
    return refused_;
  }

 private:
  static constexpr std::chrono::nanoseconds kLongestWait = std::chrono::hours(1);  // no overflow

  std::optional<T> PopLocked() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_) {
    if (items_.empty()) return std::nullopt;
    std::optional<T> item(std::move(items_.front()));
    items_.pop_front();
    return item;
  }

  const size_t capacity_;
  mutable Mutex mu_;
  CondVar not_empty_;
  std::deque<T> items_ ABSL_GUARDED_BY(mu_);
  bool closed_ ABSL_GUARDED_BY(mu_) = false;
  uint64_t refused_ ABSL_GUARDED_BY(mu_) = 0;
};

}  // namespace kvrouter

#endif  // KVROUTER_BASE_BOUNDED_QUEUE_H_
