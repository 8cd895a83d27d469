#ifndef KVROUTER_CORE_SCHEDULE_INDEX_LIST_H_
#define KVROUTER_CORE_SCHEDULE_INDEX_LIST_H_

#include <cstdint>
#include <limits>

namespace kvrouter {

inline constexpr uint32_t kNoIndex = std::numeric_limits<uint32_t>::max();

struct IndexLinks {
  uint32_t previous = kNoIndex;
  uint32_t next = kNoIndex;
};

// A doubly linked list through the records of a table: no allocation, O(1) everything. A record has
// one IndexLinks per list it can be in; the table only needs operator[]. Thread-compatible.
template <auto Links>
class IndexList {
 public:
  bool Empty() const { return first_ == kNoIndex; }
  uint32_t First() const { return first_; }

  template <typename Table>
  void PushBack(Table& table, uint32_t index) {
    table[index].*Links = {.previous = last_, .next = kNoIndex};
    (last_ == kNoIndex ? first_ : (table[last_].*Links).next) = index;
    last_ = index;
  }

  template <typename Table>
  void Remove(Table& table, uint32_t index) {
    const IndexLinks links = table[index].*Links;
    (links.previous == kNoIndex ? first_ : (table[links.previous].*Links).next) = links.next;
    (links.next == kNoIndex ? last_ : (table[links.next].*Links).previous) = links.previous;
    table[index].*Links = {};
  }

 private:
  uint32_t first_ = kNoIndex;
  uint32_t last_ = kNoIndex;
};

}  // namespace kvrouter

#endif  // KVROUTER_CORE_SCHEDULE_INDEX_LIST_H_
