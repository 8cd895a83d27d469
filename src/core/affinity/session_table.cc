#include "core/affinity/session_table.h"

#include <algorithm>

namespace kvrouter {

SessionHold SessionTable::HoldOf(uint32_t slot) const {
  // Generations start at 1, so no hold is kNoHold.
  return SessionHold{(uint64_t{entries_[slot].generation} << 32) | slot};
}

std::optional<uint32_t> SessionTable::Find(SessionHold hold) const {
  const auto slot = static_cast<uint32_t>(static_cast<uint64_t>(hold));
  if (slot >= entries_.size() || entries_[slot].key == kNoSession) return std::nullopt;
  return HoldOf(slot) == hold ? std::optional(slot) : std::nullopt;
}

std::optional<SessionTable::Binding> SessionTable::Find(SessionKey key, MonotonicTime now) const {
  const auto it = slots_.find(key);
  if (it == slots_.end() || IsExpired(entries_[it->second], now)) return std::nullopt;
  return entries_[it->second].binding;
}

SessionHold SessionTable::Bind(SessionKey key, const Binding& binding, MonotonicTime now) {
  const auto it = slots_.find(key);
  if (it != slots_.end()) {
    const uint32_t known = it->second;
    const bool expired = IsExpired(entries_[known], now);
    if (!expired && entries_[known].binding == binding) return Lease(known);
    Remove(known);
    if (expired) ++expired_total_;
  }
  if (slots_.size() >= options_.max_sessions && !MakeRoom(now)) {
    ++refused_total_;
    return kNoHold;
  }
  uint32_t slot = 0;
  if (free_.empty()) {
    slot = static_cast<uint32_t>(entries_.size());
    entries_.emplace_back().generation = 1;
  } else {
    slot = free_.back();
    free_.pop_back();
  }
  Entry& entry = entries_[slot];
  entry.key = key;
  entry.binding = binding;
  entry.leases = 1;
  ++leases_;
  slots_.emplace(key, slot);
  return HoldOf(slot);
}

bool SessionTable::MakeRoom(MonotonicTime now) {
  Sweep(now);
  if (slots_.size() < options_.max_sessions) return true;
  if (idle_.Empty()) return false;
  Remove(idle_.First());
  ++evicted_total_;
  return true;
}

SessionHold SessionTable::Lease(uint32_t slot) {
  Entry& entry = entries_[slot];
  if (entry.leases == 0) idle_.Remove(entries_, slot);
  ++entry.leases;
  ++leases_;
  return HoldOf(slot);
}

bool SessionTable::Release(SessionHold hold, MonotonicTime now) {
  const auto slot = Find(hold);
  if (!slot || entries_[*slot].leases == 0) return false;
  Entry& entry = entries_[*slot];
  --entry.leases;
  --leases_;
  // Times are taken before the lock; by a little they may come in the wrong order.
  latest_deadline_ = std::max(latest_deadline_, now + options_.idle_ttl);
  entry.deadline = latest_deadline_;
  if (entry.leases == 0) idle_.PushBack(entries_, *slot);
  return true;
}

bool SessionTable::Invalidate(SessionHold hold) {
  const auto slot = Find(hold);
  if (!slot) return false;
  Remove(*slot);
  ++invalidated_total_;
  return true;
}

bool SessionTable::Forget(SessionKey key) {
  const auto it = slots_.find(key);
  if (it == slots_.end()) return false;
  Remove(it->second);
  ++invalidated_total_;
  return true;
}

void SessionTable::Sweep(MonotonicTime now) {
  while (!idle_.Empty() && entries_[idle_.First()].deadline <= now) {
    Remove(idle_.First());
    ++expired_total_;
  }
}

void SessionTable::Remove(uint32_t slot) {
  Entry& entry = entries_[slot];
  if (entry.leases == 0) idle_.Remove(entries_, slot);
  leases_ -= entry.leases;
  slots_.erase(entry.key);
  const uint32_t generation = entry.generation + 1;
  entry = Entry();
  entry.generation = generation;
  // A slot whose generations are used up is retired.
  if (generation != 0) free_.push_back(slot);
}

SessionTable::Stats SessionTable::GetStats() const {
  return {.sessions = slots_.size(),
          .leases = leases_,
          .expired_total = expired_total_,
          .evicted_total = evicted_total_,
          .invalidated_total = invalidated_total_,
          .refused_total = refused_total_};
}

}  // namespace kvrouter
