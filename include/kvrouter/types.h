#ifndef KVROUTER_TYPES_H_
#define KVROUTER_TYPES_H_

#include <chrono>
#include <compare>
#include <cstdint>
#include <utility>

namespace kvrouter {

// Identities. Strong types: passing a LocalBlockHash where a SequenceHash belongs does not compile.
// All hash types are bit patterns; a signed 64-bit value on a wire means the same bits.

// A worker (one engine deployment with >= 1 data-parallel ranks), chosen by whoever registers it.
enum class WorkerId : uint64_t {};

// One life of a worker. A restart under the same WorkerId is a new incarnation; whatever an older
// one still says (events, releases) is void. 0 is never a live incarnation.
enum class Incarnation : uint64_t {};

// Hash of one block's tokens together with LoRA name, cache salt and multimodal identity;
// independent of position. Equal on all workers for equal content. See block_hash.h.
enum class LocalBlockHash : uint64_t {};

// Identity of an image or another item that is no text. Equal for equal content. See block_hash.h.
enum class MultimodalHash : uint64_t {};

// Chained hash: names a block and everything before it. See block_hash.h.
enum class SequenceHash : uint64_t {};

// The engine's own name for a block, opaque, meaningful only within one (worker, dp_rank): engines
// may seed their hashes at random. Never compared across workers. 0 is a valid value.
enum class EngineHash : uint64_t {};

// A booking inside the load ledger, unique for the life of the Router. kNoBooking = 0.
enum class BookingId : uint64_t {};
inline constexpr BookingId kNoBooking{0};

// A request that waits for a decision. kNoTicket = 0.
enum class TicketId : uint64_t {};
inline constexpr TicketId kNoTicket{0};

using TokenId = uint32_t;

// What is scheduled on: one data-parallel rank of one worker.
struct Target {
  WorkerId worker{};
  uint32_t dp_rank = 0;

  friend auto operator<=>(const Target&, const Target&) = default;
  template <typename H>
  friend H AbslHashValue(H h, const Target& t) {
    return H::combine(std::move(h), t.worker, t.dp_rank);
  }
};

// Where a block lies. Order is the order in which a prefix may continue from tier to tier.
enum class StorageTier : uint8_t { kDevice, kHostPinned, kDisk, kExternal };
inline constexpr int kStorageTierCount = 4;

// Time as the core sees it: handed in by the caller, nanoseconds since an arbitrary fixed point,
// never going back. The core reads no clock.
using MonotonicTime = std::chrono::nanoseconds;

}  // namespace kvrouter

#endif  // KVROUTER_TYPES_H_
