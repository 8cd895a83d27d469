#ifndef KVROUTER_FEED_HASH_MEMORY_H_
#define KVROUTER_FEED_HASH_MEMORY_H_

#include <cstddef>
#include <cstdint>
#include <optional>

#include "absl/container/flat_hash_map.h"

namespace kvrouter {

// A bounded note per engine hash, for blocks about which a later event needs to know something.
// Counted: a hash added twice needs two releases, as engines keep physical duplicates. When full,
// further hashes are not remembered.
//
// Thread-compatible.
template <typename Note>
class HashMemory {
 public:
  explicit HashMemory(size_t capacity) : capacity_(capacity) {}

  bool Empty() const { return notes_.empty(); }
  size_t Size() const { return notes_.size(); }

  // False when full. The newest note of a hash wins.
  bool Add(uint64_t hash, Note note) {
    if (notes_.size() >= capacity_ && !notes_.contains(hash)) return false;
    Entry& entry = notes_[hash];
    entry.note = note;
    ++entry.count;
    return true;
  }

  std::optional<Note> Find(uint64_t hash) const {
    const auto it = notes_.find(hash);
    if (it == notes_.end()) return std::nullopt;
    return it->second.note;
  }

  // Takes back one Add; the note if there was one.
  std::optional<Note> Release(uint64_t hash) {
    const auto it = notes_.find(hash);
    if (it == notes_.end()) return std::nullopt;
    const Note note = it->second.note;
    if (--it->second.count == 0) notes_.erase(it);
    return note;
  }

  // Takes back every Add.
  void Erase(uint64_t hash) { notes_.erase(hash); }

  // As after `count` times Add. False when full.
  bool Restore(uint64_t hash, Note note, uint32_t count) {
    if (notes_.size() >= capacity_ && !notes_.contains(hash)) return false;
    notes_[hash] = {note, count};
    return true;
  }
  // visit(hash, note, count), in no order.
  template <typename Visit>
  void ForEach(Visit visit) const {
    for (const auto& [hash, entry] : notes_) visit(hash, entry.note, entry.count);
  }

  void Clear() { absl::flat_hash_map<uint64_t, Entry>().swap(notes_); }  // memory returns

 private:
  struct Entry {
    Note note{};
    uint32_t count = 0;
  };

  size_t capacity_;
  absl::flat_hash_map<uint64_t, Entry> notes_;
};

}  // namespace kvrouter

#endif  // KVROUTER_FEED_HASH_MEMORY_H_
