#ifndef KVROUTER_CORE_INDEX_TIER_HITS_H_
#define KVROUTER_CORE_INDEX_TIER_HITS_H_

#include <span>
#include <vector>

#include "core/index/holder_table.h"
#include "core/index/radix_tree.h"
#include "kvrouter/shared_cache.h"
#include "kvrouter/types.h"

namespace kvrouter {

// Which blocks of the query anybody holds on `tier`, with or without gaps; ascending, disjoint,
// joined where they touch. Replaces `hits`. Costs one walk along the query's path.
void FindTierHits(const RadixTree& tree, const HolderTable& holders,
                  std::span<const LocalBlockHash> query, StorageTier tier,
                  std::vector<BlockRange>* hits);

}  // namespace kvrouter

#endif  // KVROUTER_CORE_INDEX_TIER_HITS_H_
