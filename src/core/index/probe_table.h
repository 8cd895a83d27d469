#ifndef KVROUTER_CORE_INDEX_PROBE_TABLE_H_
#define KVROUTER_CORE_INDEX_PROBE_TABLE_H_

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstring>
#include <memory>
#include <optional>
#include <utility>

#include "core/index/slab.h"

namespace kvrouter {

// From well-mixed hashes to 32-bit ids. A sorted array with gaps: the entry of `key` lies at or
// right of its home, key * capacity / 2^bits, and entries are in key order, so that
//  - an unsuccessful search stops at the first larger key,
//  - growing is one sequential pass, so capacity may grow in small steps and the array stays
//    70-85 % full (a table that doubles is 44-88 % full),
//  - an erased entry leaves no tombstone: churn costs nothing.
// The same key may occur several times with different ids: Key = uint32_t is a part of a hash, and
// the caller tells the entries apart.
//
//   home:    0    1    2    3    4    5        (pad)
//   slots: | 03 | -- | 21 | 24 | 31 | 52 | -- | -- | end |    24 has home 2, 31 has home 3
//
// Thread-compatible.
template <typename Key>
class ProbeTable {
 public:
  // Id of the entry with this key for which matches(id) holds, or kNoId.
  template <typename Matches>
  uint32_t Find(Key key, Matches matches) const {
    if (size_ == 0) return kNoId;
    const Entry* e = slots_.get() + Home(key);
    while (e->id != kNoId && e->key < key) ++e;
    for (; e->id != kNoId && e->key == key; ++e) {
      if (matches(e->id)) return e->id;
    }
    return kNoId;
  }

  void Insert(Key key, uint32_t id) {
    if ((uint64_t{size_} + 1) * 20 > uint64_t{capacity_} * 17) Rebuild(CapacityFor(size_ + 1));
    while (!TryInsert(key, id)) Rebuild(capacity_ + capacity_ / 4 + 1);
    ++size_;
  }

  // Visits entries in key order from `key` on, at most `limit` of them. The key to go on from,
  // which stays right whatever changes in between; absent when all were visited. REQUIRES: keys are
  // unique.
  template <typename Visit>
  std::optional<Key> Scan(Key key, uint32_t limit, Visit visit) const {
    if (size_ == 0) return std::nullopt;
    for (uint32_t i = Home(key); i < end_; ++i) {
      if (slots_[i].id == kNoId || slots_[i].key < key) continue;
      if (limit-- == 0) return Key{slots_[i].key};
      visit(Key{slots_[i].key}, uint32_t{slots_[i].id});
    }
    return std::nullopt;
  }

  // REQUIRES: the entry is there.
  void Erase(Key key, uint32_t id) {
    uint32_t i = IndexOf(key, id);
    // Entries right of it that are not at home move one to the left.
    uint32_t end = i + 1;
    while (slots_[end].id != kNoId && Home(slots_[end].key) < end) ++end;
    std::memmove(&slots_[i], &slots_[i + 1], (end - i - 1) * sizeof(Entry));
    slots_[end - 1].id = kNoId;
    --size_;
    if (size_ == 0) {
      Clear();
    } else if (capacity_ > 64 && uint64_t{size_} * 5 < uint64_t{capacity_} * 2) {
      Rebuild(CapacityFor(size_));
    }
  }

  // REQUIRES: the entry is there.
  void Replace(Key key, uint32_t old_id, uint32_t new_id) {
    slots_[IndexOf(key, old_id)].id = new_id;
  }

  void Clear() {
    slots_.reset();
    size_ = capacity_ = end_ = 0;
  }

  uint32_t size() const { return size_; }
  size_t bytes() const { return slots_ ? HeapBytes((size_t{end_} + 1) * sizeof(Entry)) : 0; }

 private:
  struct __attribute__((packed, aligned(4))) Entry {
    Key key;
    uint32_t id;  // kNoId: empty
  };
  static_assert(sizeof(Entry) == sizeof(Key) + 4);

  static uint32_t CapacityFor(uint32_t size) {
    return static_cast<uint32_t>(uint64_t{size} * 10 / 7) + 3;
  }

  uint32_t Home(Key key) const {
    if constexpr (sizeof(Key) == 8) {
      __extension__ using Wide = unsigned __int128;
      return static_cast<uint32_t>((Wide{key} * capacity_) >> 64);
    } else {
      return static_cast<uint32_t>((uint64_t{key} * capacity_) >> 32);
    }
  }

  uint32_t IndexOf(Key key, uint32_t id) const {
    uint32_t i = Home(key);
    while (i < end_ && (slots_[i].id == kNoId || slots_[i].key < key)) ++i;
    while (i < end_ && slots_[i].id != id) ++i;
    KVR_CHECK(i < end_ && slots_[i].key == key, "entry is missing: id={}", id);
    return i;
  }

  // False if the entries would run over the end.
  bool TryInsert(Key key, uint32_t id) {
    uint32_t i = Home(key);
    while (slots_[i].id != kNoId && slots_[i].key <= key) ++i;
    uint32_t gap = i;
    while (slots_[gap].id != kNoId) ++gap;
    if (gap >= end_) return false;
    std::memmove(&slots_[i + 1], &slots_[i], (gap - i) * sizeof(Entry));
    slots_[i] = Entry{key, id};
    return true;
  }

  void Rebuild(uint32_t capacity) {
    const std::unique_ptr<Entry[]> old = std::move(slots_);
    const uint32_t old_end = end_;
    for (;; capacity += capacity / 4 + 1) {
      if (Place(old.get(), old_end, capacity)) return;
    }
  }

  bool Place(const Entry* old, uint32_t old_end, uint32_t capacity) {
    capacity_ = capacity;
    end_ = capacity + std::min<uint32_t>(64, 4 + capacity / 8);
    slots_.reset(new Entry[size_t{end_} + 1]);
    uint32_t next = 0;
    for (uint32_t i = 0; i < old_end; ++i) {
      if (old[i].id == kNoId) continue;
      const uint32_t at = std::max(next, Home(old[i].key));
      if (at >= end_) return false;
      while (next < at) slots_[next++].id = kNoId;
      slots_[next++] = old[i];
    }
    while (next <= end_)
      slots_[next++].id = kNoId;  // slots_[end_] is never used: searches stop there
    return true;
  }

  std::unique_ptr<Entry[]> slots_;
  uint32_t size_ = 0;
  uint32_t capacity_ = 0;  // homes are 0..capacity_-1
  uint32_t end_ = 0;       // slots; >= capacity_
};

// From 64-bit hashes to ids whose full key lies with the caller (8 bytes per entry). Split into
// shards, so that growing a table of ten million entries is many short pauses, not a long one.
class HashToId {
 public:
  template <typename Matches>
  uint32_t Find(uint64_t hash, Matches matches) const {
    return shards_[hash >> 58].Find(Part(hash), matches);
  }
  void Insert(uint64_t hash, uint32_t id) { shards_[hash >> 58].Insert(Part(hash), id); }
  void Erase(uint64_t hash, uint32_t id) { shards_[hash >> 58].Erase(Part(hash), id); }
  void Replace(uint64_t hash, uint32_t old_id, uint32_t new_id) {
    shards_[hash >> 58].Replace(Part(hash), old_id, new_id);
  }
  size_t size() const {
    size_t total = 0;
    for (const auto& shard : shards_) total += shard.size();
    return total;
  }
  size_t bytes() const {
    size_t total = 0;
    for (const auto& shard : shards_) total += shard.bytes();
    return total;
  }

 private:
  static uint32_t Part(uint64_t hash) { return static_cast<uint32_t>(hash >> 26); }

  std::array<ProbeTable<uint32_t>, 64> shards_;
};

}  // namespace kvrouter

#endif  // KVROUTER_CORE_INDEX_PROBE_TABLE_H_
