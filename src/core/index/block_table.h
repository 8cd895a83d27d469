#ifndef KVROUTER_CORE_INDEX_BLOCK_TABLE_H_
#define KVROUTER_CORE_INDEX_BLOCK_TABLE_H_

#include <cstdint>

#include "core/index/probe_table.h"
#include "core/index/slab.h"
#include "kvrouter/types.h"

namespace kvrouter {

// An engine hash as the index keeps it: mixed by a bijection, so it is as exact as the hash itself
// and can be used as a table key although engines may number their blocks 1, 2, 3.
enum class BlockName : uint64_t {};

// Salt with the load address: whoever can choose engine hashes cannot choose collisions.
inline uint64_t NameSalt() {
  static const char salt = 0;
  return reinterpret_cast<uintptr_t>(&salt) * 0x9e3779b97f4a7c15;
}

inline constexpr uint64_t kNameFactor = 0xd6e8feb86659fd93;

inline BlockName NameOf(EngineHash hash) {
  uint64_t x = static_cast<uint64_t>(hash) ^ NameSalt();
  x ^= x >> 32;
  x *= kNameFactor;
  x ^= x >> 32;
  x *= kNameFactor;
  x ^= x >> 32;
  return BlockName{x};
}

// Inverse of an odd number modulo 2^64; each step doubles the number of right bits.
constexpr uint64_t InverseOf(uint64_t odd) {
  uint64_t inverse = odd;
  for (int step = 0; step < 6; ++step) inverse *= 2 - odd * inverse;
  return inverse;
}

// EngineHashOf(NameOf(h)) == h.
inline EngineHash EngineHashOf(BlockName name) {
  constexpr uint64_t kInverse = InverseOf(kNameFactor);
  static_assert(kInverse * kNameFactor == 1);
  uint64_t x = static_cast<uint64_t>(name);
  x ^= x >> 32;
  x *= kInverse;
  x ^= x >> 32;
  x *= kInverse;
  x ^= x >> 32;
  return EngineHash{x ^ NameSalt()};
}

// One block: a position in the tree, i.e. some content and everything before it, at least one of
// whose successors or itself is held by somebody.
struct Block {
  uint32_t depth() const { return depth_and_named >> 1; }
  bool named() const { return (depth_and_named & 1) != 0; }

  BlockName name{};
  uint32_t node = 0;             // whose edge it lies on; changes when edges are split or joined
  uint32_t depth_and_named = 0;  // depth = distance from the start in blocks; never changes
};

// All blocks by id, and by *shared name*. The shared name of a block is the engine hash that its
// first holder used for it. Where all engines hash alike, every holder uses it and a holder costs
// no memory per block; a holder with another name keeps that name by itself (Holder::own_names). A
// name that already means another block is not shared: such a block has no shared name.
//
// Thread-compatible.
class BlockTable {
 public:
  uint32_t Create(BlockName name, bool named, uint32_t node, uint32_t depth) {
    const uint32_t id = blocks_.Allocate();
    blocks_[id] = Block{name, node, depth << 1 | (named ? 1 : 0)};
    if (named) by_name_.Insert(static_cast<uint64_t>(name), id);
    return id;
  }

  void Free(uint32_t id) {
    if (blocks_[id].named()) by_name_.Erase(static_cast<uint64_t>(blocks_[id].name), id);
    blocks_.Free(id);
  }

  // kNoId if no block has this shared name.
  uint32_t FindByName(BlockName name) const {
    return by_name_.Find(static_cast<uint64_t>(name),
                         [&](uint32_t id) { return blocks_[id].name == name; });
  }

  const Block& operator[](uint32_t id) const { return blocks_[id]; }
  void SetNode(uint32_t id, uint32_t node) { blocks_[id].node = node; }

  size_t size() const { return blocks_.size(); }
  size_t bytes() const { return blocks_.bytes() + by_name_.bytes(); }

 private:
  Slab<Block, 1024> blocks_;
  HashToId by_name_;
};

}  // namespace kvrouter

#endif  // KVROUTER_CORE_INDEX_BLOCK_TABLE_H_
