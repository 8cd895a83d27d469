#ifndef KVROUTER_SIM_MODEL_AGE_LIST_H_
#define KVROUTER_SIM_MODEL_AGE_LIST_H_

#include <cstddef>
#include <cstdint>
#include <limits>
#include <vector>

namespace kvrouter::sim {

// A doubly linked list of slot numbers, oldest first; every operation is O(1). Slots are small
// numbers that the owner hands out; a slot is in the list at most once. Thread-compatible.
class AgeList {
 public:
  static constexpr uint32_t kNone = std::numeric_limits<uint32_t>::max();

  // Adds `slot` as the youngest. REQUIRES: it is not in the list.
  void PushYoungest(uint32_t slot) {
    if (slot >= links_.size()) links_.resize(size_t{slot} + 1);
    links_[slot] = {.older = youngest_, .younger = kNone};
    (youngest_ == kNone ? oldest_ : links_[youngest_].younger) = slot;
    youngest_ = slot;
    ++size_;
  }

  // REQUIRES: it is in the list.
  void Remove(uint32_t slot) {
    const Links links = links_[slot];
    (links.older == kNone ? oldest_ : links_[links.older].younger) = links.younger;
    (links.younger == kNone ? youngest_ : links_[links.younger].older) = links.older;
    --size_;
  }

  // kNone if empty.
  uint32_t Oldest() const { return oldest_; }
  size_t size() const { return size_; }

 private:
  struct Links {
    uint32_t older = kNone;
    uint32_t younger = kNone;
  };
  std::vector<Links> links_;
  uint32_t oldest_ = kNone;
  uint32_t youngest_ = kNone;
  size_t size_ = 0;
};

}  // namespace kvrouter::sim

#endif  // KVROUTER_SIM_MODEL_AGE_LIST_H_
