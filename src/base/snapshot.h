#ifndef KVROUTER_BASE_SNAPSHOT_H_
#define KVROUTER_BASE_SNAPSHOT_H_

#include <memory>
#include <utility>

#include "base/mutex.h"

namespace kvrouter {

// A value that is read often and replaced whole. Thread-safe. Readers keep the version they loaded;
// the last reader of a version frees it.
template <typename T>
class Snapshot {
 public:
  explicit Snapshot(std::shared_ptr<const T> initial) : value_(std::move(initial)) {}

  std::shared_ptr<const T> Load() const {
    MutexLock lock(mu_);
    return value_;
  }

  void Publish(std::shared_ptr<const T> next) {
    MutexLock lock(mu_);
    value_.swap(next);
  }  // Parameters outlive locals: the old value is freed after the lock is released.

 private:
  mutable Mutex mu_;
  std::shared_ptr<const T> value_ ABSL_GUARDED_BY(mu_);
};

}  // namespace kvrouter

#endif  // KVROUTER_BASE_SNAPSHOT_H_
