#ifndef KVROUTER_CORE_INDEX_EDGE_H_
#define KVROUTER_CORE_INDEX_EDGE_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <span>
#include <utility>

#include "core/index/slab.h"
#include "kvrouter/types.h"

namespace kvrouter {

// The label of one edge: per block its content hash and its block id, as two arrays in one
// allocation (12 bytes per block plus at most a quarter of slack). Thread-compatible.
class Edge {
 public:
  uint32_t size() const { return size_; }
  std::span<const LocalBlockHash> contents() const { return {Contents(), size_}; }
  std::span<const uint32_t> ids() const { return {Ids(), size_}; }
  size_t bytes() const { return HeapBytes(capacity_ * kBytesPerBlock); }

  void Reserve(uint32_t blocks) {
    if (blocks > capacity_) Resize(std::max(blocks, capacity_ + capacity_ / 4 + 1));
  }

  void PushBack(LocalBlockHash content, uint32_t id) {
    Reserve(size_ + 1);
    Contents()[size_] = content;
    Ids()[size_] = id;
    ++size_;
  }

  void Append(const Edge& other) {
    Reserve(size_ + other.size_);
    std::copy_n(other.Contents(), other.size_, Contents() + size_);
    std::copy_n(other.Ids(), other.size_, Ids() + size_);
    size_ += other.size_;
  }

  void Prepend(const Edge& other) {
    Reserve(size_ + other.size_);
    std::copy_backward(Contents(), Contents() + size_, Contents() + size_ + other.size_);
    std::copy_backward(Ids(), Ids() + size_, Ids() + size_ + other.size_);
    std::copy_n(other.Contents(), other.size_, Contents());
    std::copy_n(other.Ids(), other.size_, Ids());
    size_ += other.size_;
  }

  // Drops everything from offset `size` on.
  void Truncate(uint32_t size) {
    size_ = size;
    // Giving back only at half avoids copying in each step of a tail-first removal.
    if (capacity_ > 8 && size_ * 2 < capacity_) Resize(size_);
  }

  // Keeps [0, at) and returns the rest.
  Edge SplitOff(uint32_t at) {
    Edge lower;
    lower.Reserve(size_ - at);
    std::copy(Contents() + at, Contents() + size_, lower.Contents());
    std::copy(Ids() + at, Ids() + size_, lower.Ids());
    lower.size_ = size_ - at;
    Truncate(at);
    return lower;
  }

 private:
  static constexpr size_t kBytesPerBlock = sizeof(LocalBlockHash) + sizeof(uint32_t);

  LocalBlockHash* Contents() { return reinterpret_cast<LocalBlockHash*>(bytes_.get()); }
  const LocalBlockHash* Contents() const {
    return reinterpret_cast<const LocalBlockHash*>(bytes_.get());
  }
  uint32_t* Ids() { return reinterpret_cast<uint32_t*>(Contents() + capacity_); }
  const uint32_t* Ids() const { return reinterpret_cast<const uint32_t*>(Contents() + capacity_); }

  void Resize(uint32_t capacity) {
    Edge resized;
    if (capacity > 0) resized.bytes_.reset(new std::byte[capacity * kBytesPerBlock]);
    resized.capacity_ = capacity;
    std::copy_n(Contents(), size_, resized.Contents());
    std::copy_n(Ids(), size_, resized.Ids());
    bytes_ = std::move(resized.bytes_);
    capacity_ = capacity;
  }

  std::unique_ptr<std::byte[]> bytes_;  // capacity_ content hashes, then capacity_ ids
  uint32_t size_ = 0;
  uint32_t capacity_ = 0;
};

}  // namespace kvrouter

#endif  // KVROUTER_CORE_INDEX_EDGE_H_
