#ifndef KVROUTER_DISPATCH_SERIAL_EVENTS_H_
#define KVROUTER_DISPATCH_SERIAL_EVENTS_H_

#include <functional>
#include <utility>
#include <vector>

#include "base/mutex.h"

namespace kvrouter {

// Events of one request, one after another, whatever threads they come on. Whoever comes while
// another event is handled leaves his own for that thread, so nobody waits; an event that is caused
// by handling one (a client that turns out to be gone when it is written to) comes after it. No
// lock is held while an event is handled.
//
// Thread safety: thread-safe. Bound: what an exchange can deliver while one event is handled; an
// exchange has one thread, and is paused for a slow client.
class SerialEvents {
 public:
  // `now` handles the event. `later` makes a task of it that borrows nothing, for the case that it
  // has to wait; under the lock.
  template <typename Now, typename Later>
  void Run(Now&& now, Later&& later) {
    {
      MutexLock lock(mu_);
      if (busy_) {
        waiting_.push_back(later());
        return;
      }
      busy_ = true;
    }
    now();
    RunWaiting();
  }

  void Run(std::function<void()> event) {
    Run([&event] { event(); }, [&event] { return std::move(event); });
  }

 private:
  void RunWaiting() {
    std::vector<std::function<void()>> batch;
    while (true) {
      batch.clear();
      {
        MutexLock lock(mu_);
        if (waiting_.empty()) {
          busy_ = false;
          return;
        }
        batch.swap(waiting_);
      }
      for (std::function<void()>& event : batch) {
        event();
        event = nullptr;
      }
    }
  }

  Mutex mu_;
  bool busy_ ABSL_GUARDED_BY(mu_) = false;
  std::vector<std::function<void()>> waiting_ ABSL_GUARDED_BY(mu_);
};

}  // namespace kvrouter

#endif  // KVROUTER_DISPATCH_SERIAL_EVENTS_H_
