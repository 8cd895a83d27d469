#ifndef KVROUTER_CORE_SCHEDULE_RECORD_MEMORY_H_
#define KVROUTER_CORE_SCHEDULE_RECORD_MEMORY_H_

#include <array>
#include <cstddef>
#include <memory>

namespace kvrouter {

// Memory for records that are written once, shared, and let go of roughly in the order they were
// made: explanations in the ring of recent decisions. Records lie one behind the other in chunks,
// and a chunk is freed with its last record. So a record costs neither an allocation nor the cache
// misses of freeing what was last touched thousands of decisions ago.
//
// A record that is held for long holds its whole chunk. Thread-compatible; what Take returned may
// be shared with any thread.
class RecordMemory {
 public:
  static constexpr size_t kChunkBytes = 32 * 1024;

  // Uninitialised, aligned for any object, to be filled with what needs no destructor.
  // REQUIRES: bytes <= kChunkBytes.
  std::shared_ptr<std::byte> Take(size_t bytes) {
    std::byte* const place = NextPlace(bytes);
    used_bytes_ += (bytes + kAlignment - 1) / kAlignment * kAlignment;
    return {chunk_, place};
  }

  // What the next Take of at most this many bytes is going to return, if it comes before another
  // call with more. It may be written to before.
  std::byte* NextPlace(size_t bytes) {
    if (!chunk_ || used_bytes_ + bytes > kChunkBytes) {
      chunk_ = std::make_shared_for_overwrite<Chunk>();
      used_bytes_ = 0;
    }
    return chunk_->data() + used_bytes_;
  }

 private:
  static constexpr size_t kAlignment = alignof(std::max_align_t);
  struct alignas(kAlignment) Chunk : std::array<std::byte, kChunkBytes> {};

  std::shared_ptr<Chunk> chunk_;
  size_t used_bytes_ = 0;
};

}  // namespace kvrouter

#endif  // KVROUTER_CORE_SCHEDULE_RECORD_MEMORY_H_
