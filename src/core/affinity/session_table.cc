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

SessionTable::Acquired SessionTable::Acquire(const Request& request, MonotonicTime now) {
  const auto it = slots_.find(request.key);
  if (it == slots_.end()) return Initialise(request.key, now);
  const uint32_t slot = it->second;
  Entry& entry = entries_[slot];
  if (entry.initialising) return Wait(slot, request);
  if (entry.leases == 0 && entry.deadline <= now) {
    Remove(slot, nullptr);
    ++expired_total_;
    return Initialise(request.key, now);
  }
  return Lease(slot, request);
}

SessionTable::Acquired SessionTable::Initialise(SessionKey key, MonotonicTime now) {
  if (slots_.size() >= options_.max_sessions) {
    Sweep(now);
    if (slots_.size() >= options_.max_sessions) {
      if (idle_.Empty()) return Refuse();
      Remove(idle_.First(), nullptr);
      ++evicted_total_;
    }
  }
  uint32_t slot = 0;
  if (free_.empty()) {
    slot = static_cast<uint32_t>(entries_.size());
    entries_.emplace_back().generation = 1;
  } else {
    slot = free_.back();
    free_.pop_back();
  }
  entries_[slot].key = key;
  entries_[slot].initialising = true;
  slots_.emplace(key, slot);
  ++initialising_;
  return {.outcome = Outcome::kInitialise, .hold = HoldOf(slot), .binding = {}};
}

SessionTable::Acquired SessionTable::Lease(uint32_t slot, const Request& request) {
  Entry& entry = entries_[slot];
  if (request.pinned && !request.pinned->Matches(entry.binding.target)) {
    return {.outcome = Outcome::kConflict, .hold = kNoHold, .binding = entry.binding};
  }
  if (entry.leases == 0) idle_.Remove(entries_, slot);
  ++entry.leases;
  ++leases_;
  return {.outcome = Outcome::kLease, .hold = HoldOf(slot), .binding = entry.binding};
}

SessionTable::Acquired SessionTable::Wait(uint32_t slot, const Request& request) {
  if (request.ticket == kNoTicket || waiters_ >= options_.max_waiters) return Refuse();
  entries_[slot].waiters.push_back(request.ticket);
  ++waiters_;
  return {.outcome = Outcome::kWait, .hold = kNoHold, .binding = {}};
}

SessionTable::Acquired SessionTable::Refuse() {
  ++refused_total_;
  return {};
}

bool SessionTable::Commit(SessionHold hold, const Binding& binding, std::vector<TicketId>* woken) {
  const auto slot = Find(hold);
  if (!slot) return false;
  Entry& entry = entries_[*slot];
  entry.binding = binding;
  if (!entry.initialising) return true;
  entry.initialising = false;
  --initialising_;
  entry.leases = 1;
  ++leases_;
  Wake(&entry, woken);
  return true;
}

bool SessionTable::Release(SessionHold hold, MonotonicTime now, std::vector<TicketId>* woken) {
  const auto slot = Find(hold);
  if (!slot) return false;
  Entry& entry = entries_[*slot];
  if (entry.initialising) {
    Remove(*slot, woken);
    return true;
  }
  if (entry.leases == 0) return false;
  --entry.leases;
  --leases_;
  entry.deadline = now + options_.idle_ttl;
  if (entry.leases == 0) idle_.PushBack(entries_, *slot);
  return true;
}

bool SessionTable::Invalidate(SessionHold hold, std::vector<TicketId>* woken) {
  const auto slot = Find(hold);
  if (!slot) return false;
  Remove(*slot, woken);
  ++invalidated_total_;
  return true;
}

bool SessionTable::StopWaiting(SessionKey key, TicketId ticket) {
  const auto it = slots_.find(key);
  if (it == slots_.end()) return false;
  auto& waiters = entries_[it->second].waiters;
  const auto waiter = std::find(waiters.begin(), waiters.end(), ticket);
  if (waiter == waiters.end()) return false;
  waiters.erase(waiter);
  --waiters_;
  return true;
}

std::optional<SessionTable::Binding> SessionTable::Peek(SessionKey key, MonotonicTime now) const {
  const auto it = slots_.find(key);
  if (it == slots_.end()) return std::nullopt;
  const Entry& entry = entries_[it->second];
  if (entry.initialising || (entry.leases == 0 && entry.deadline <= now)) return std::nullopt;
  return entry.binding;
}

void SessionTable::Sweep(MonotonicTime now) {
  while (!idle_.Empty() && entries_[idle_.First()].deadline <= now) {
    Remove(idle_.First(), nullptr);
    ++expired_total_;
  }
}

void SessionTable::Remove(uint32_t slot, std::vector<TicketId>* woken) {
  Entry& entry = entries_[slot];
  Wake(&entry, woken);
  if (entry.initialising) {
    --initialising_;
  } else if (entry.leases == 0) {
    idle_.Remove(entries_, slot);
  }
  leases_ -= entry.leases;
  slots_.erase(entry.key);
  const uint32_t generation = entry.generation + 1;
  entry = Entry();
  entry.generation = generation;
  // A slot whose generations are used up is retired.
  if (generation != 0) free_.push_back(slot);
}

void SessionTable::Wake(Entry* entry, std::vector<TicketId>* woken) {
  waiters_ -= entry->waiters.size();
  if (woken != nullptr) woken->insert(woken->end(), entry->waiters.begin(), entry->waiters.end());
  entry->waiters.clear();
}

SessionTable::Stats SessionTable::GetStats() const {
  return {.sessions = slots_.size(),
          .initialising = initialising_,
          .leases = leases_,
          .waiters = waiters_,
          .expired_total = expired_total_,
          .evicted_total = evicted_total_,
          .invalidated_total = invalidated_total_,
          .refused_total = refused_total_};
}

}  // namespace kvrouter
