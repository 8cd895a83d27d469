#include "service/select_cache.h"

#include <utility>

namespace kvrouter {
namespace {

// The node of the list, that of the map, and what they point to.
uint64_t SizeBytes(const CachedSelection& s) {
  return sizeof(CachedSelection) + 128 + 2 * s.selection_id.capacity() + s.model_name.capacity() +
         s.session_id.capacity() +
         s.routing_group.capacity() + s.block_hashes.capacity() * sizeof(LocalBlockHash) +
         s.sequence_hashes.capacity() * sizeof(SequenceHash);
}

}  // namespace

void SelectCache::Put(CachedSelection selection, MonotonicTime now) {
  selection.expires_at = now + config_.ttl;
  MutexLock lock(mu_);
  ExpireLocked(now);
  const auto known = by_id_.find(selection.selection_id);
  if (known != by_id_.end()) EraseLocked(known->second);
  InsertLocked(std::move(selection));
}

void SelectCache::Restore(CachedSelection selection) {
  MutexLock lock(mu_);
  if (!by_id_.contains(selection.selection_id)) InsertLocked(std::move(selection));
}

std::optional<CachedSelection> SelectCache::Take(const std::string& selection_id,
                                                 const std::string& model_name,
                                                 const std::string& routing_group,
                                                 MonotonicTime now) {
  MutexLock lock(mu_);
  ExpireLocked(now);
  const auto known = by_id_.find(selection_id);
  if (known == by_id_.end()) return std::nullopt;
  const Order::iterator entry = known->second;
  if (entry->model_name != model_name || entry->routing_group != routing_group) return std::nullopt;
  if (entry->expires_at <= now) {  // a restored entry may lie behind younger ones
    ++expired_;
    EraseLocked(entry);
    return std::nullopt;
  }
  CachedSelection taken = *entry;
  EraseLocked(entry);
  return taken;
}

void SelectCache::Expire(MonotonicTime now) {
  MutexLock lock(mu_);
  ExpireLocked(now);
}

SelectCache::Counters SelectCache::Read() const {
  MutexLock lock(mu_);
  return {.entries = by_id_.size(), .bytes = bytes_, .evicted = evicted_, .expired = expired_};
}

void SelectCache::InsertLocked(CachedSelection selection) {
  bytes_ += SizeBytes(selection);
  order_.push_back(std::move(selection));
  by_id_[order_.back().selection_id] = std::prev(order_.end());
  while (order_.size() > config_.max_entries || bytes_ > config_.max_bytes) {
    ++evicted_;
    EraseLocked(order_.begin());
  }
}

void SelectCache::EraseLocked(Order::iterator entry) {
  bytes_ -= SizeBytes(*entry);
  by_id_.erase(entry->selection_id);
  order_.erase(entry);
}

void SelectCache::ExpireLocked(MonotonicTime now) {
  while (!order_.empty() && order_.front().expires_at <= now) {
    ++expired_;
    EraseLocked(order_.begin());
  }
}

}  // namespace kvrouter
