#ifndef KVROUTER_CORE_AFFINITY_RECENT_MAP_H_
#define KVROUTER_CORE_AFFINITY_RECENT_MAP_H_

#include <cstddef>
#include <cstdint>
#include <deque>
#include <optional>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "core/schedule/index_list.h"

namespace kvrouter {

// A map with room for so many entries; the least recently put one makes room. Every operation is
// O(1). Thread-compatible.
//
// `Key` and `Value` are small and cheap to copy. REQUIRES: capacity > 0.
template <typename Key, typename Value>
class RecentMap {
 public:
  struct Evicted {
    Key key;
    Value value;
  };

  explicit RecentMap(size_t capacity) : capacity_(capacity) {}

  // Null if unknown; valid until the next Put or Erase.
  const Value* Find(const Key& key) const {
    const auto it = slots_.find(key);
    return it == slots_.end() ? nullptr : &entries_[it->second].value;
  }

  bool Contains(const Key& key) const { return slots_.contains(key); }

  // Adds or replaces; the entry is now the most recent one. Returns who had to go, if the map was
  // full.
  std::optional<Evicted> Put(const Key& key, Value value) {
    const auto it = slots_.find(key);
    if (it != slots_.end()) {
      entries_[it->second].value = std::move(value);
      MakeMostRecent(it->second);
      return std::nullopt;
    }
    std::optional<Evicted> evicted;
    if (slots_.size() >= capacity_) {
      const uint32_t oldest = by_age_.First();
      evicted = Evicted{entries_[oldest].key, std::move(entries_[oldest].value)};
      EraseSlot(oldest);
      ++evictions_total_;
    }
    const uint32_t slot = TakeSlot();
    entries_[slot].key = key;
    entries_[slot].value = std::move(value);
    by_age_.PushBack(entries_, slot);
    slots_.emplace(key, slot);
    return evicted;
  }

  // The entry becomes the most recent one. False if unknown.
  bool Touch(const Key& key) {
    const auto it = slots_.find(key);
    if (it == slots_.end()) return false;
    MakeMostRecent(it->second);
    return true;
  }

  bool Erase(const Key& key) {
    const auto it = slots_.find(key);
    if (it == slots_.end()) return false;
    EraseSlot(it->second);
    return true;
  }

  size_t size() const { return slots_.size(); }
  uint64_t EvictionsTotal() const { return evictions_total_; }

 private:
  struct Entry {
    Key key{};
    Value value{};
    IndexLinks by_age;
  };

  void MakeMostRecent(uint32_t slot) {
    by_age_.Remove(entries_, slot);
    by_age_.PushBack(entries_, slot);
  }

  uint32_t TakeSlot() {
    if (free_.empty()) {
      entries_.emplace_back();
      return static_cast<uint32_t>(entries_.size() - 1);
    }
    const uint32_t slot = free_.back();
    free_.pop_back();
    return slot;
  }

  void EraseSlot(uint32_t slot) {
    by_age_.Remove(entries_, slot);
    slots_.erase(entries_[slot].key);
    entries_[slot] = Entry();
    free_.push_back(slot);
  }

  const size_t capacity_;
  absl::flat_hash_map<Key, uint32_t> slots_;
  std::deque<Entry> entries_;  // a deque: growing moves nothing
  std::vector<uint32_t> free_;
  IndexList<&Entry::by_age> by_age_;  // least recent first
  uint64_t evictions_total_ = 0;
};

}  // namespace kvrouter

#endif  // KVROUTER_CORE_AFFINITY_RECENT_MAP_H_
