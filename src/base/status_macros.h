#ifndef KVROUTER_BASE_STATUS_MACROS_H_
#define KVROUTER_BASE_STATUS_MACROS_H_

// Debian's abseil has no status_macros.h.

#define KVR_RETURN_IF_ERROR(expr)                                      \
  do {                                                                 \
    if (auto kvr_status = (expr); !kvr_status.ok()) return kvr_status; \
  } while (false)

#define KVR_CONCAT_INNER(a, b) a##b
#define KVR_CONCAT(a, b) KVR_CONCAT_INNER(a, b)

//   KVR_ASSIGN_OR_RETURN(const auto value, Compute());
#define KVR_ASSIGN_OR_RETURN(lhs, expr)                  \
  auto KVR_CONCAT(kvr_statusor_, __LINE__) = (expr);     \
  if (!KVR_CONCAT(kvr_statusor_, __LINE__).ok()) {       \
    return KVR_CONCAT(kvr_statusor_, __LINE__).status(); \
  }                                                      \
  lhs = *std::move(KVR_CONCAT(kvr_statusor_, __LINE__))

#endif  // KVROUTER_BASE_STATUS_MACROS_H_
