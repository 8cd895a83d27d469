#include "dispatch/token_cache.h"

#include <utility>

namespace kvrouter {
namespace {

constexpr uint64_t kEntryBytes = 160;  // of list node, map slot and headers of the vectors

}  // namespace

uint64_t TokenCache::BytesOf(const Entry& entry) {
  return kEntryBytes + entry.text.size() + entry.ids->size() * sizeof(TokenId);
}

TokenIds TokenCache::Find(std::string_view text) {
  MutexLock lock(mu_);
  const auto found = by_text_.find(text);
  if (found == by_text_.end()) return nullptr;
  entries_.splice(entries_.begin(), entries_, found->second);
  return found->second->ids;
}

void TokenCache::Insert(std::string text, TokenIds ids) {
  Entry entry{.text = std::move(text), .ids = std::move(ids)};
  const uint64_t bytes = BytesOf(entry);
  if (bytes > max_bytes_) return;
  MutexLock lock(mu_);
  if (by_text_.contains(entry.text)) return;
  while (bytes_ + bytes > max_bytes_) EraseOldest();
  entries_.push_front(std::move(entry));
  by_text_.emplace(entries_.front().text, entries_.begin());
  bytes_ += bytes;
}

void TokenCache::EraseOldest() {
  const Entry& oldest = entries_.back();
  bytes_ -= BytesOf(oldest);
  by_text_.erase(oldest.text);
  entries_.pop_back();
  ++evicted_;
}

TokenCache::Figures TokenCache::Read() const {
  MutexLock lock(mu_);
  return {.entries = entries_.size(), .bytes = bytes_, .evicted_total = evicted_};
}

}  // namespace kvrouter
