#ifndef KVROUTER_SHARED_CACHE_H_
#define KVROUTER_SHARED_CACHE_H_

#include <algorithm>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "kvrouter/types.h"

namespace kvrouter {

// Blocks [from, to) of a prompt.
struct BlockRange {
  uint32_t from = 0;
  uint32_t to = 0;

  friend bool operator==(const BlockRange&, const BlockRange&) = default;
};

// A cache beside the workers' own that all of them read from.
class SharedCacheView {
 public:
  virtual ~SharedCacheView() = default;
  // Replaces `hits`: the blocks of the prompt that are there, ascending, disjoint, not empty. On
  // the path of every decision, from any thread: answers from memory, does not wait.
  virtual void FindHits(std::string_view model_name, std::string_view routing_group,
                        std::span<const LocalBlockHash> local_hashes,
                        std::span<const SequenceHash> sequence_hashes,
                        std::vector<BlockRange>* hits) const = 0;
};

// How many blocks of these ranges lie at `position` or behind it.
inline uint64_t HitsBeyond(std::span<const BlockRange> hits, uint64_t position) {
  uint64_t blocks = 0;
  for (const BlockRange& range : hits)
    if (range.to > position) blocks += range.to - std::max<uint64_t>(range.from, position);
  return blocks;
}

}  // namespace kvrouter

#endif  // KVROUTER_SHARED_CACHE_H_
