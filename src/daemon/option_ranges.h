#ifndef KVROUTER_DAEMON_OPTION_RANGES_H_
#define KVROUTER_DAEMON_OPTION_RANGES_H_

#include <cstdint>
#include <limits>

namespace kvrouter {

// Upper ends of what settings may be, where several have the same.

inline constexpr uint64_t kMaxU64 = std::numeric_limits<uint64_t>::max();
inline constexpr uint64_t kMaxU32 = std::numeric_limits<uint32_t>::max();
// One message or body; gRPC's own limit is a signed 32-bit number.
inline constexpr uint64_t kMaxBytes = uint64_t{1} << 31;
inline constexpr uint64_t kHourMs = 3600ull * 1000;
inline constexpr uint64_t kDayMs = 24ull * 3600 * 1000;
inline constexpr uint64_t kYearSeconds = 365ull * 24 * 3600;
// With what follows, the end of the daemon stays under 5 s.
inline constexpr uint64_t kMaxShutdownGraceMs = 3000;

}  // namespace kvrouter

#endif  // KVROUTER_DAEMON_OPTION_RANGES_H_
