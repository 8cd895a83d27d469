#ifndef KVROUTER_LIMITS_H_
#define KVROUTER_LIMITS_H_

#include <cstdint>

namespace kvrouter {

// Upper ends of what a RouterConfig may ask for: Validate enforces them, the daemon documents them.
inline constexpr uint64_t kMaxBookingsLimit = 4'194'304;  // SchedulerConfig::max_bookings
inline constexpr uint64_t kMaxPartitionsLimit = 4096;     // RouterConfig::max_partitions

inline constexpr uint64_t kMaxRoutedBlocksLimit =
    1'073'741'824;  // OverlapSourceConfig::max_routed_blocks

inline constexpr uint32_t kMaxBlockSizeTokens = 65536;  // WorkerSpec::block_size_tokens

// Entries of a prompt's items by block that a door takes:
// more blocks than any prompt has that shows images.
inline constexpr uint64_t kMaxItemBlocks = 1'048'576;

}  // namespace kvrouter

#endif  // KVROUTER_LIMITS_H_
