#include "service/request_table.h"

#include <utility>
#include <vector>

#include "absl/container/flat_hash_set.h"
#include "base/check.h"

namespace kvrouter {

RequestTable::Shard& RequestTable::ShardOf(std::string_view request_id) const {
  // The top bits: the maps inside the shards use the low ones of what may be the same hash.
  return shards_[uint64_t{IdHash{}(request_id)} >> (64 - kShardBits)];
}

RequestTable::Reserved RequestTable::Reserve(std::string_view request_id) {
  Shard& shard = ShardOf(request_id);
  MutexLock lock(shard.mu);
  const auto [it, inserted] = shard.records.try_emplace(std::string(request_id));
  if (inserted) {
    it->second = std::make_unique<Record>();
    return {};
  }
  if (it->second->booking == kNoBooking) return {.result = ReserveResult::kDeciding};
  return {.result = ReserveResult::kBooked, .booking = it->second->booking};
}

bool RequestTable::Confirm(std::string_view request_id, RouteDecision decision) {
  Shard& shard = ShardOf(request_id);
  MutexLock lock(shard.mu);
  const auto it = shard.records.find(request_id);
  KVR_CHECK(it != shard.records.end() && it->second->booking == kNoBooking,
            "request {} was confirmed without being reserved", request_id);
  if (it->second->released) {
    shard.records.erase(it);
    return false;
  }
  it->second->booking = decision.booking;
  it->second->ticket = kNoTicket;
  it->second->decision = std::move(decision);
  booked_count_.fetch_add(1, std::memory_order_relaxed);
  return true;
}

bool RequestTable::SetTicket(std::string_view request_id, TicketId ticket) {
  Shard& shard = ShardOf(request_id);
  MutexLock lock(shard.mu);
  const auto it = shard.records.find(request_id);
  KVR_CHECK(it != shard.records.end() && it->second->booking == kNoBooking,
            "request {} got a ticket without being reserved", request_id);
  it->second->ticket = ticket;
  return !it->second->released;
}

void RequestTable::Withdraw(std::string_view request_id) {
  Shard& shard = ShardOf(request_id);
  MutexLock lock(shard.mu);
  const auto it = shard.records.find(request_id);
  KVR_CHECK(it != shard.records.end() && it->second->booking == kNoBooking,
            "request {} was withdrawn without being reserved", request_id);
  shard.records.erase(it);
}

RequestTable::Released RequestTable::Release(std::string_view request_id) {
  Shard& shard = ShardOf(request_id);
  MutexLock lock(shard.mu);
  const auto it = shard.records.find(request_id);
  if (it == shard.records.end()) return {};
  Record& record = *it->second;
  if (record.booking == kNoBooking) {
    const bool first = !std::exchange(record.released, true);
    return {.found = first, .ticket = first ? record.ticket : kNoTicket};
  }
  const Released released{.found = true, .booking = record.booking};
  shard.records.erase(it);
  booked_count_.fetch_sub(1, std::memory_order_relaxed);
  return released;
}

BookingId RequestTable::FindBooking(std::string_view request_id) const {
  Shard& shard = ShardOf(request_id);
  MutexLock lock(shard.mu);
  const auto it = shard.records.find(request_id);
  return it == shard.records.end() ? kNoBooking : it->second->booking;
}

std::optional<RouteDecision> RequestTable::FindDecision(std::string_view request_id) const {
  Shard& shard = ShardOf(request_id);
  MutexLock lock(shard.mu);
  const auto it = shard.records.find(request_id);
  if (it == shard.records.end() || it->second->booking == kNoBooking) return std::nullopt;
  return it->second->decision;
}

bool RequestTable::EraseBooking(std::string_view request_id, BookingId booking) {
  Shard& shard = ShardOf(request_id);
  MutexLock lock(shard.mu);
  const auto it = shard.records.find(request_id);
  if (it == shard.records.end() || it->second->booking != booking) return false;
  shard.records.erase(it);
  booked_count_.fetch_sub(1, std::memory_order_relaxed);
  return true;
}

uint64_t RequestTable::Sweep(const std::function<bool(BookingId)>& is_live) {
  uint64_t erased = 0;
  std::vector<BookingId> bookings;
  absl::flat_hash_set<BookingId> dead;
  for (Shard& shard : shards_) {
    bookings.clear();
    dead.clear();
    {
      MutexLock lock(shard.mu);
      for (const auto& [id, record] : shard.records) {
        if (record->booking != kNoBooking) bookings.push_back(record->booking);
      }
    }
    for (const BookingId booking : bookings) {
      if (!is_live(booking)) dead.insert(booking);
    }
    if (dead.empty()) continue;
    MutexLock lock(shard.mu);
    erased += absl::erase_if(
        shard.records, [&](const auto& entry) { return dead.contains(entry.second->booking); });
  }
  booked_count_.fetch_sub(erased, std::memory_order_relaxed);
  return erased;
}

}  // namespace kvrouter
