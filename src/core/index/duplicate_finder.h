#ifndef KVROUTER_CORE_INDEX_DUPLICATE_FINDER_H_
#define KVROUTER_CORE_INDEX_DUPLICATE_FINDER_H_

#include <algorithm>
#include <bit>
#include <cstdint>
#include <span>
#include <vector>

#include "core/index/block_table.h"

namespace kvrouter {

// Is a name twice in an event? A small hash table that keeps its memory between events.
// Thread-compatible.
class DuplicateFinder {
 public:
  bool HasDuplicate(std::span<const BlockName> names) {
    if (names.size() < 2) return false;
    const size_t capacity = std::bit_ceil(names.size() * 2);
    first_.assign(capacity, 0);
    for (size_t i = 0; i < names.size(); ++i) {
      size_t at = static_cast<uint64_t>(names[i]) & (capacity - 1);  // names are well mixed
      for (; first_[at] != 0; at = (at + 1) & (capacity - 1)) {
        if (names[first_[at] - 1] == names[i]) return true;
      }
      first_[at] = static_cast<uint32_t>(i + 1);
    }
    if (first_.capacity() > kKeptEntries) std::vector<uint32_t>().swap(first_);
    return false;
  }

 private:
  static constexpr size_t kKeptEntries = 1 << 16;

  std::vector<uint32_t> first_;  // 1 + index of a name; 0: empty
};

}  // namespace kvrouter

#endif  // KVROUTER_CORE_INDEX_DUPLICATE_FINDER_H_
