#ifndef KVROUTER_BASE_CHECK_H_
#define KVROUTER_BASE_CHECK_H_

#include <fmt/format.h>

#include <string_view>

namespace kvrouter::internal {
[[noreturn]] void CheckFailed(const char* file, int line, const char* condition,
                              std::string_view message);
}  // namespace kvrouter::internal

// For our own bugs only: crashes with the condition and the formatted values. Bytes from outside
// get a Status instead.
//   KVR_CHECK(count > 0, "count={} target={}", count, target);
#define KVR_CHECK(condition, ...)                                                                  \
  do {                                                                                             \
    if (!(condition)) [[unlikely]] {                                                               \
      ::kvrouter::internal::CheckFailed(__FILE__, __LINE__, #condition, fmt::format(__VA_ARGS__)); \
    }                                                                                              \
  } while (false)

#endif  // KVROUTER_BASE_CHECK_H_
