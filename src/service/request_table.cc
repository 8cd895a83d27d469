#include "service/request_table.h"

#include <utility>
#include <vector>

#include "absl/container/flat_hash_set.h"
#include "base/check.h"

namespace kvrouter {

RequestTable::Reserved RequestTable::Reserve(std::string_view request_id) {
  auto record = std::make_shared<Record>(request_id);
  const std::string_view id = record->request_id;
  Shard& shard = ShardOf(record->id_hash);
  MutexLock lock(shard.mu);
  bool inserted = false;
  const auto it = shard.records.lazy_emplace(id, [&](const auto& construct) {
    construct(id, std::move(record));
    inserted = true;
  });
  if (inserted) return {};
  if (it->second->booking == kNoBooking) return {.result = ReserveResult::kDeciding};
  return {.result = ReserveResult::kBooked, .booking = it->second->booking};
}

RequestTable::Released RequestTable::ReleasedOf(const Record& record) {
  return {.found = true,
          .booking = record.booking,
          .prefill_booking = record.prefill_booking,
          .by = ServedByOf(record.decision),
          .output_tokens = record.progress.output_tokens()};
}

std::shared_ptr<const BookedRequest> RequestTable::Confirm(std::string_view request_id,
                                                           RouteDecision decision,
                                                           const Times& times) {
  const size_t id_hash = HashOfId(request_id);
  Shard& shard = ShardOf(id_hash);
  MutexLock lock(shard.mu);
  const auto it = shard.records.find(request_id, id_hash);
  KVR_CHECK(it != shard.records.end() && it->second->booking == kNoBooking,
            "request {} was confirmed without being reserved", request_id);
  Record& record = *it->second;
  if (record.released) {
    shard.records.erase(it);
    return nullptr;
  }
  record.booking = decision.booking;
  if (decision.decode_booking != kNoBooking) {
    record.booking = decision.decode_booking;
    record.prefill_booking = decision.booking;
  }
  record.decision = std::move(decision);
  record.decided_at = times.decided_at;
  record.progress = RequestProgress({.arrived_at = times.arrived_at,
                                     .isl_tokens = record.decision.isl_tokens,
                                     .block_size_tokens = record.decision.block_size_tokens});
  booked_count_.fetch_add(1, std::memory_order_relaxed);
  return it->second;
}

bool RequestTable::SetTicket(std::string_view request_id, TicketId ticket) {
  const size_t id_hash = HashOfId(request_id);
  Shard& shard = ShardOf(id_hash);
  MutexLock lock(shard.mu);
  const auto it = shard.records.find(request_id, id_hash);
  KVR_CHECK(it != shard.records.end() && it->second->booking == kNoBooking,
            "request {} got a ticket without being reserved", request_id);
  it->second->ticket = ticket;
  return !it->second->released;
}

void RequestTable::Withdraw(std::string_view request_id) {
  const size_t id_hash = HashOfId(request_id);
  Shard& shard = ShardOf(id_hash);
  MutexLock lock(shard.mu);
  const auto it = shard.records.find(request_id, id_hash);
  KVR_CHECK(it != shard.records.end() && it->second->booking == kNoBooking,
            "request {} was withdrawn without being reserved", request_id);
  shard.records.erase(it);
}

RequestTable::Released RequestTable::Release(std::string_view request_id, TicketId only_if) {
  const size_t id_hash = HashOfId(request_id);
  Shard& shard = ShardOf(id_hash);
  RecordPtr gone;  // freed after the lock
  MutexLock lock(shard.mu);
  const auto it = shard.records.find(request_id, id_hash);
  if (it == shard.records.end()) return {};
  Record& record = *it->second;
  if (only_if != kNoTicket && record.ticket != only_if) return {};
  if (record.booking == kNoBooking) {
    const bool first = !std::exchange(record.released, true);
    return {.found = first, .ticket = first ? record.ticket : kNoTicket};
  }
  gone = std::move(it->second);
  shard.records.erase(it);
  booked_count_.fetch_sub(1, std::memory_order_relaxed);
  return ReleasedOf(*gone);
}

BookingId RequestTable::FindBooking(std::string_view request_id) const {
  const size_t id_hash = HashOfId(request_id);
  Shard& shard = ShardOf(id_hash);
  MutexLock lock(shard.mu);
  const auto it = shard.records.find(request_id, id_hash);
  return it == shard.records.end() ? kNoBooking : it->second->booking;
}

BookingId RequestTable::FindBookingOf(std::string_view request_id, BookingId booking) const {
  const size_t id_hash = HashOfId(request_id);
  Shard& shard = ShardOf(id_hash);
  MutexLock lock(shard.mu);
  const auto it = shard.records.find(request_id, id_hash);
  const bool about = it != shard.records.end() && IsAbout(*it->second, booking);
  return about ? it->second->booking : kNoBooking;
}

BookingId RequestTable::FindPrefillBooking(std::string_view request_id) const {
  const size_t id_hash = HashOfId(request_id);
  Shard& shard = ShardOf(id_hash);
  MutexLock lock(shard.mu);
  const auto it = shard.records.find(request_id, id_hash);
  return it == shard.records.end() ? kNoBooking : it->second->prefill_booking;
}

// In the order in which they run.
std::vector<RequestTable::PlacedLeg> RequestTable::LegsOf(const Record& record) {
  const RouteDecision& decision = record.decision;
  const bool both_booked = decision.decode_booking != kNoBooking;
  const auto booking_of = [&](LegKind kind) {
    if (kind == LegKind::kKvSource) return kNoBooking;
    return both_booked && kind == LegKind::kPrefill ? record.prefill_booking : record.booking;
  };
  std::vector<PlacedLeg> legs;
  if (record.first_leg) legs.push_back(*record.first_leg);
  if (decision.planning) {
    for (const Leg& leg : decision.planning->legs.legs) {
      if (!leg.where) continue;
      legs.push_back({.kind = leg.kind,
                      .by = {.target = leg.where->target, .incarnation = leg.where->incarnation},
                      .booking = booking_of(leg.kind),
                      .decided_at = record.decided_at});
    }
    return legs;
  }
  const LegKind kind = decision.leg == RequestPhase::kPrefill  ? LegKind::kPrefill
                       : decision.leg == RequestPhase::kDecode ? LegKind::kDecode
                                                               : LegKind::kServe;
  legs.push_back({.kind = kind,
                  .by = ServedByOf(decision),
                  .booking = booking_of(kind),
                  .decided_at = record.decided_at});
  return legs;
}

RequestTable::LegSearch RequestTable::FindLeg(std::string_view request_id,
                                              const LegName& name) const {
  const size_t id_hash = HashOfId(request_id);
  Shard& shard = ShardOf(id_hash);
  MutexLock lock(shard.mu);
  const auto it = shard.records.find(request_id, id_hash);
  if (it == shard.records.end() || it->second->booking == kNoBooking) return {};
  LegSearch found{.booked = true, .leg = std::nullopt};
  const Record& record = *it->second;
  const bool named = name.kind || name.target;
  const BookingId running =
      record.prefill_booking != kNoBooking ? record.prefill_booking : record.booking;
  for (const PlacedLeg& leg : LegsOf(record)) {
    const bool matches = named ? (!name.kind || *name.kind == leg.kind) &&
                                     (!name.target || *name.target == leg.by.target)
                               : leg.booking == running;
    if (!matches) continue;
    found.leg = leg;
    break;
  }
  return found;
}

void RequestTable::NotePulled(std::string_view request_id) {
  const size_t id_hash = HashOfId(request_id);
  Shard& shard = ShardOf(id_hash);
  MutexLock lock(shard.mu);
  const auto it = shard.records.find(request_id, id_hash);
  if (it != shard.records.end()) it->second->pulled = true;
}

std::optional<RouteDecision> RequestTable::FindDecision(std::string_view request_id) const {
  const size_t id_hash = HashOfId(request_id);
  Shard& shard = ShardOf(id_hash);
  MutexLock lock(shard.mu);
  const auto it = shard.records.find(request_id, id_hash);
  if (it == shard.records.end() || it->second->booking == kNoBooking) return std::nullopt;
  return it->second->decision;
}

RequestTable::Released RequestTable::EraseBooking(std::string_view request_id, BookingId booking) {
  const size_t id_hash = HashOfId(request_id);
  Shard& shard = ShardOf(id_hash);
  RecordPtr gone;  // freed after the lock
  MutexLock lock(shard.mu);
  const auto it = shard.records.find(request_id, id_hash);
  if (it == shard.records.end() || !IsAbout(*it->second, booking)) return {};
  gone = std::move(it->second);
  shard.records.erase(it);
  booked_count_.fetch_sub(1, std::memory_order_relaxed);
  return ReleasedOf(*gone);
}

RequestTable::SecondLeg RequestTable::BeginSecondLeg(std::string_view request_id) {
  const size_t id_hash = HashOfId(request_id);
  Shard& shard = ShardOf(id_hash);
  MutexLock lock(shard.mu);
  const auto it = shard.records.find(request_id, id_hash);
  if (it == shard.records.end()) return {};
  Record& record = *it->second;
  const bool waits_for_decode = record.booking != kNoBooking &&
                                record.prefill_booking == kNoBooking &&
                                record.decision.leg == RequestPhase::kPrefill;
  if (!waits_for_decode) return {};
  if (std::exchange(record.placing_second_leg, true)) return {.busy = true};
  return {.begun = true, .prefilled_by = record.decision.target, .first = record.decision};
}

RequestTable::Confirmed RequestTable::ConfirmSecondLeg(std::string_view request_id,
                                                       RouteDecision decision,
                                                       MonotonicTime decided_at) {
  // What others read is written once, so the second leg is a record of its own.
  auto record = std::make_shared<Record>(request_id);
  record->booking = decision.booking;
  record->decision = std::move(decision);
  record->decided_at = decided_at;
  const std::string_view id = record->request_id;
  Shard& shard = ShardOf(record->id_hash);
  RecordPtr before;  // freed after the lock
  MutexLock lock(shard.mu);
  const auto it = shard.records.find(id, record->id_hash);
  if (it == shard.records.end() || !it->second->placing_second_leg) return {};
  before = std::move(it->second);
  shard.records.erase(it);
  record->progress = before->progress;
  record->first_leg = {.kind = LegKind::kPrefill,
                       .by = ServedByOf(before->decision),
                       .booking = kNoBooking,
                       .decided_at = before->decided_at};
  shard.records.emplace(id, record);
  return {.record = record, .prefill_booking = before->booking};
}

void RequestTable::WithdrawSecondLeg(std::string_view request_id) {
  const size_t id_hash = HashOfId(request_id);
  Shard& shard = ShardOf(id_hash);
  MutexLock lock(shard.mu);
  const auto it = shard.records.find(request_id, id_hash);
  if (it != shard.records.end()) it->second->placing_second_leg = false;
}

RequestTable::PrefillEnd RequestTable::TakePrefillEnd(std::string_view request_id) {
  const size_t id_hash = HashOfId(request_id);
  Shard& shard = ShardOf(id_hash);
  MutexLock lock(shard.mu);
  const auto it = shard.records.find(request_id, id_hash);
  if (it == shard.records.end()) return {};
  Record& record = *it->second;
  PrefillEnd end{.booking = std::exchange(record.prefill_booking, kNoBooking),
                 .pulled = std::nullopt};
  if (std::exchange(record.pulled, false)) end.pulled = ServedByOf(record.decision);
  return end;
}

uint64_t RequestTable::Sweep(const std::function<bool(BookingId)>& is_live,
                             std::vector<BookingId>* left_over) {
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
    erased += absl::erase_if(shard.records, [&](const auto& entry) {
      if (!dead.contains(entry.second->booking)) return false;
      const BookingId prefill = entry.second->prefill_booking;
      if (prefill != kNoBooking) left_over->push_back(prefill);
      return true;
    });
  }
  booked_count_.fetch_sub(erased, std::memory_order_relaxed);
  return erased;
}

}  // namespace kvrouter
