#ifndef KVROUTER_TESTS_SUPPORT_EVENTUALLY_H_
#define KVROUTER_TESTS_SUPPORT_EVENTUALLY_H_

#include <chrono>
#include <functional>
#include <thread>

namespace kvrouter {

// Whether the condition comes true in time. The time is for machines that are busy with others:
// where all is well nobody waits for it.
inline bool Eventually(const std::function<bool()>& condition,
                       std::chrono::milliseconds deadline = std::chrono::seconds(120)) {
  const auto end = std::chrono::steady_clock::now() + deadline;
  while (!condition()) {
    if (std::chrono::steady_clock::now() > end) return false;
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
  return true;
}

}  // namespace kvrouter

#endif  // KVROUTER_TESTS_SUPPORT_EVENTUALLY_H_
