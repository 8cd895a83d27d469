#ifndef KVROUTER_LIMITS_H_
#define KVROUTER_LIMITS_H_

#include <cstdint>

namespace kvrouter {

// Upper ends of what a RouterConfig may ask for: Validate enforces them, the daemon documents them.
inline constexpr uint64_t kMaxBookingsLimit = 4'194'304;  // SchedulerConfig::max_bookings
inline constexpr uint64_t kMaxPartitionsLimit = 4096;     // RouterConfig::max_partitions

}  // namespace kvrouter

#endif  // KVROUTER_LIMITS_H_
