#ifndef KVROUTER_CORE_INDEX_SLAB_H_
#define KVROUTER_CORE_INDEX_SLAB_H_

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <new>
#include <type_traits>
#include <utility>
#include <vector>

#include "base/check.h"

namespace kvrouter {

inline constexpr uint32_t kNoId = 0xffffffff;

// What malloc really takes for a request of this size: 8 bytes of header, multiples of 16, at
// least 32.
inline size_t HeapBytes(size_t requested) {
  if (requested == 0) return 0;
  const size_t rounded = (requested + 8 + 15) / 16 * 16;
  return rounded < 32 ? 32 : rounded;
}

// Items addressed by dense 32-bit ids, in chunks of kChunkItems. Ids of freed items are used again;
// a chunk without items is given back, so memory follows the number of items up and down and
// nothing is ever copied to grow. Addresses are stable for the life of an item.
//
// Thread-compatible.
template <typename T, uint32_t kChunkItems>
class Slab {
  static_assert(sizeof(T) >= sizeof(uint32_t) && (kChunkItems & (kChunkItems - 1)) == 0);

 public:
  Slab() = default;
  Slab(const Slab&) = delete;
  Slab& operator=(const Slab&) = delete;
  ~Slab() { KVR_CHECK(size_ == 0 || std::is_trivially_destructible_v<T>, "items left: {}", size_); }

  // The new item is value-initialised.
  uint32_t Allocate() {
    if (open_.empty()) AddChunk();
    const uint32_t c = open_.back();
    Chunk& chunk = *chunks_[c];
    uint32_t index = chunk.free_head;
    if (index != kNoId) {
      std::memcpy(&chunk.free_head, chunk.At(index), sizeof(uint32_t));
    } else {
      index = chunk.used++;
    }
    if (++chunk.live == kChunkItems) {
      open_.pop_back();
      chunk.open_position = kNoId;
    }
    ++size_;
    new (chunk.At(index)) T();
    return c * kChunkItems + index;
  }

  void Free(uint32_t id) {
    const uint32_t c = id / kChunkItems;
    const uint32_t index = id % kChunkItems;
    Chunk& chunk = *chunks_[c];
    std::destroy_at(std::launder(reinterpret_cast<T*>(chunk.At(index))));
    std::memcpy(chunk.At(index), &chunk.free_head, sizeof(uint32_t));
    chunk.free_head = index;
    --size_;
    if (chunk.open_position == kNoId) {
      chunk.open_position = static_cast<uint32_t>(open_.size());
      open_.push_back(c);
    }
    if (--chunk.live == 0) DropChunk(c);
  }

  T& operator[](uint32_t id) {
    return *std::launder(reinterpret_cast<T*>(chunks_[id / kChunkItems]->At(id % kChunkItems)));
  }
  const T& operator[](uint32_t id) const {
    return *std::launder(
        reinterpret_cast<const T*>(chunks_[id / kChunkItems]->At(id % kChunkItems)));
  }

  size_t size() const { return size_; }
  size_t bytes() const {
    return (chunks_.size() - absent_.size()) * HeapBytes(sizeof(Chunk)) +
           HeapBytes(chunks_.capacity() * sizeof(chunks_[0])) +
           HeapBytes(open_.capacity() * sizeof(uint32_t)) +
           HeapBytes(absent_.capacity() * sizeof(uint32_t));
  }

 private:
  struct Chunk {
    std::byte* At(uint32_t index) { return storage + index * sizeof(T); }
    const std::byte* At(uint32_t index) const { return storage + index * sizeof(T); }

    alignas(T) std::byte storage[kChunkItems * sizeof(T)];
    uint32_t free_head = kNoId;  // freed items, each holding the index of the next
    uint32_t used = 0;           // items from here on were never allocated
    uint32_t live = 0;
    uint32_t open_position = kNoId;  // where in open_, kNoId when full
  };

  void AddChunk() {
    uint32_t c = 0;
    if (!absent_.empty()) {
      c = absent_.back();
      absent_.pop_back();
    } else {
      KVR_CHECK(chunks_.size() < kNoId / kChunkItems, "ids exhausted: {} chunks", chunks_.size());
      c = static_cast<uint32_t>(chunks_.size());
      chunks_.emplace_back();
    }
    chunks_[c].reset(new Chunk);
    chunks_[c]->open_position = static_cast<uint32_t>(open_.size());
    open_.push_back(c);
  }

  void DropChunk(uint32_t c) {
    // The last open chunk stays, or a block stored and removed in turns would allocate a chunk each
    // time.
    if (open_.size() == 1 && size_ > 0) return;
    const uint32_t position = chunks_[c]->open_position;
    open_[position] = open_.back();
    chunks_[open_[position]]->open_position = position;
    open_.pop_back();
    chunks_[c].reset();
    absent_.push_back(c);
  }

  std::vector<std::unique_ptr<Chunk>> chunks_;
  std::vector<uint32_t> open_;    // chunks with room; the last one is used first
  std::vector<uint32_t> absent_;  // numbers of chunks that were given back
  size_t size_ = 0;
};

}  // namespace kvrouter

#endif  // KVROUTER_CORE_INDEX_SLAB_H_
