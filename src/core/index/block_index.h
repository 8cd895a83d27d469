#ifndef KVROUTER_CORE_INDEX_BLOCK_INDEX_H_
#define KVROUTER_CORE_INDEX_BLOCK_INDEX_H_

// (interface only; the model and invariants come with the implementation)
#include <cstdint>
#include <span>
#include <vector>

#include "kvrouter/events.h"
#include "kvrouter/types.h"

namespace kvrouter {

struct OverlapMatch {
  Target target;
  uint32_t blocks = 0;        // > 0: longest prefix of the query held contiguously from the start
  EngineHash last_engine_hash{};  // the target's own name of the last matched block (lower tiers continue from it)
};

struct BlockIndexStats {
  uint64_t unique_blocks = 0;
  uint64_t holder_blocks = 0;
  uint64_t nodes = 0;
  uint64_t bytes = 0;  // estimate
};

class BlockIndex {
 public:
  BlockIndex();
  ~BlockIndex();
  BlockIndex(const BlockIndex&) = delete;
  BlockIndex& operator=(const BlockIndex&) = delete;

  ApplyResult Apply(const KvEvent& event);           // tier and incarnation are the caller's affair
  void RemoveTarget(Target target);
  void FindOverlap(std::span<const LocalBlockHash> query, std::vector<OverlapMatch>* out) const;  // ascending target
  uint64_t HolderBlocks(Target target) const;
  BlockIndexStats Stats() const;

 private:
  struct Impl;
  Impl* impl_;
};

}  // namespace kvrouter

#endif  // KVROUTER_CORE_INDEX_BLOCK_INDEX_H_
