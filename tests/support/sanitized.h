#ifndef KVROUTER_TESTS_SUPPORT_SANITIZED_H_
#define KVROUTER_TESTS_SUPPORT_SANITIZED_H_

namespace kvrouter {

// Built with ASan or TSan: they keep freed memory back and take ten times as long, so that a look
// at the process's memory says nothing and long runs are to be shorter.
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
inline constexpr bool kSanitized = true;
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
inline constexpr bool kSanitized = true;
#else
inline constexpr bool kSanitized = false;
#endif
#else
inline constexpr bool kSanitized = false;
#endif

}  // namespace kvrouter

#endif  // KVROUTER_TESTS_SUPPORT_SANITIZED_H_
