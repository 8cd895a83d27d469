#ifndef KVROUTER_CORE_SCHEDULE_BOOKING_ID_H_
#define KVROUTER_CORE_SCHEDULE_BOOKING_ID_H_

#include <cstdint>

#include "kvrouter/types.h"

namespace kvrouter {

// How a BookingId is made up, so that it finds its partition and its record without a table, and so
// that a stale one is recognised for the life of the Router:
//
//   63        52 51          30 29             0
//   | partition |     slot     |  generation   |
//
// A slot's generation rises with each use and is never reused: a slot whose generations are used up
// is retired. Generations start at 1, so no booking has the id kNoBooking.
inline constexpr int kGenerationBits = 30;
inline constexpr int kSlotBits = 22;
inline constexpr int kPartitionBits = 12;
static_assert(kGenerationBits + kSlotBits + kPartitionBits == 64);

inline constexpr uint32_t kMaxGeneration = (uint32_t{1} << kGenerationBits) - 1;
inline constexpr uint64_t kMaxBookingSlots = uint64_t{1} << kSlotBits;
inline constexpr uint64_t kMaxPartitionIndexes = uint64_t{1} << kPartitionBits;

struct BookingParts {
  uint32_t partition = 0;
  uint32_t slot = 0;
  uint32_t generation = 0;
};

inline BookingId MakeBookingId(const BookingParts& parts) {
  return BookingId{(uint64_t{parts.partition} << (kSlotBits + kGenerationBits)) |
                   (uint64_t{parts.slot} << kGenerationBits) | parts.generation};
}

inline BookingParts PartsOf(BookingId id) {
  const auto bits = static_cast<uint64_t>(id);
  return {.partition = static_cast<uint32_t>(bits >> (kSlotBits + kGenerationBits)),
          .slot = static_cast<uint32_t>((bits >> kGenerationBits) & (kMaxBookingSlots - 1)),
          .generation = static_cast<uint32_t>(bits & kMaxGeneration)};
}

}  // namespace kvrouter

#endif  // KVROUTER_CORE_SCHEDULE_BOOKING_ID_H_
