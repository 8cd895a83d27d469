#ifndef KVROUTER_SERVICE_REQUEST_TABLE_H_
#define KVROUTER_SERVICE_REQUEST_TABLE_H_

#include <array>
#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string_view>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "base/mutex.h"
#include "kvrouter/decision.h"
#include "kvrouter/plan.h"
#include "service/booked_request.h"
#include "service/request_observer.h"
#include "service/request_progress.h"

namespace kvrouter {

// Request records by id. A record goes through
//
//   Reserve ──> deciding ──> (waiting for a ticket) ──> booked ──> gone
//                  │                 │                    └ Release, EraseBooking or Sweep: whoever
//                  takes it out of └── Withdraw ─────┴──> gone              the table gives the
//                  booking back, so it happens once
//
// A request whose plan is a remote prefill books a second time, for its decode leg: the same record
// then owns that booking, and the first one is handed out to be given back. With a fixed plan it
// owns both from the start.
//
// Until it is booked only the call that reserved it may take it out; a Release meanwhile leaves a
// mark and Confirm reports it. So two calls with one id can neither both book nor leave a booking
// without an owner.
//
// Thread safety: thread-safe. Sharded by id, one mutex per shard, held for map operations only.
// Bound: one record per booking or call in progress; the core bounds bookings
// (SchedulerConfig::max_bookings).
class RequestTable {
 public:
  enum class ReserveResult : uint8_t { kReserved, kDeciding, kBooked };
  struct Reserved {
    ReserveResult result = ReserveResult::kReserved;
    BookingId booking = kNoBooking;  // with kBooked: whose
  };
  Reserved Reserve(std::string_view request_id);

  struct Times {
    MonotonicTime arrived_at{};
    MonotonicTime decided_at{};
  };
  // For the call that reserved; `decision` without its lists. Null: released meanwhile; the record
  // is gone and the caller gives the booking back.
  [[nodiscard]] std::shared_ptr<const BookedRequest> Confirm(std::string_view request_id,
                                                             RouteDecision decision,
                                                             const Times& times);
  // For the call that reserved: the decision comes later, under this ticket. False: released
  // meanwhile; the record stays reserved.
  [[nodiscard]] bool SetTicket(std::string_view request_id, TicketId ticket);
  // For the call that reserved: no booking came of it.
  void Withdraw(std::string_view request_id);

  struct SecondLeg {
    bool begun = false;  // the caller decides it, and then Confirms or Withdraws
    bool busy = false;   // an earlier call is deciding it
    Target prefilled_by = {};
    RouteDecision first = {};  // without its lists
  };
  // Begun if a booked request's prefill leg is out and its decode leg is not placed yet.
  SecondLeg BeginSecondLeg(std::string_view request_id);
  struct Confirmed {
    std::shared_ptr<const BookedRequest> record;  // null: released meanwhile
    BookingId prefill_booking = kNoBooking;       // the caller gives it back
  };
  // For the call that began; `decision` without its lists.
  [[nodiscard]] Confirmed ConfirmSecondLeg(std::string_view request_id, RouteDecision decision,
                                           MonotonicTime decided_at);
  void WithdrawSecondLeg(std::string_view request_id);
  struct PrefillEnd {
    BookingId booking = kNoBooking;  // of a fixed plan's prefill leg; the caller gives it back
    std::optional<ServedBy> pulled;  // who decodes from pulled blocks: see NotePulled
  };
  // The prompt is computed. Each is given out once.
  PrefillEnd TakePrefillEnd(std::string_view request_id);

  struct Released {
    bool found = false;
    BookingId booking = kNoBooking;          // was booked; the caller gives it back
    BookingId prefill_booking = kNoBooking;  // of a fixed plan, likewise
    TicketId ticket = kNoTicket;             // waits; the caller may cancel it
    ServedBy by = {};                        // with a booking, like the next
    uint64_t output_tokens = 0;              // as far as reported
  };
  // Takes a booked record out; marks one that is not booked yet. With a ticket: only if it is the
  // record that got this ticket, and keeps it when it is booked: its answer may be lost on the way.
  Released Release(std::string_view request_id, TicketId only_if = kNoTicket);

  // kNoBooking without a booked record.
  BookingId FindBooking(std::string_view request_id) const;
  // The same if the record is about this booking, by which its caller knows it: of a fixed plan
  // that is the prefill leg's, also when it is given back. Else kNoBooking.
  BookingId FindBookingOf(std::string_view request_id, BookingId booking) const;
  // Of a fixed plan whose prompt is not computed yet; else kNoBooking.
  BookingId FindPrefillBooking(std::string_view request_id) const;
  std::optional<RouteDecision> FindDecision(std::string_view request_id) const;
  // Which leg of a booked request: the first of its plan that is of this kind and goes to this
  // target, each if given. Neither: the one that runs, which is the prefill leg until it is over.
  struct LegName {
    std::optional<LegKind> kind = {};
    std::optional<Target> target = {};
  };
  struct PlacedLeg {
    LegKind kind = LegKind::kServe;
    ServedBy by;
    BookingId booking = kNoBooking;  // on its target, if there is one and it is not given back
    MonotonicTime decided_at{};
  };
  struct LegSearch {
    bool booked = false;           // the request is known
    std::optional<PlacedLeg> leg;  // absent: it has no such leg, or not yet
  };
  LegSearch FindLeg(std::string_view request_id, const LegName& name) const;
  // The request's blocks were handed over; once its prompt is computed, TakePrefillEnd says so.
  void NotePulled(std::string_view request_id);

  // Takes the record out if it is still about this booking, as FindBookingOf; else found is false.
  Released EraseBooking(std::string_view request_id, BookingId booking);

  // Calls use(RequestProgress&, ServedBy) if the record is still about this booking, under the
  // shard's lock.
  template <typename Use>
  void WithProgress(std::string_view request_id, BookingId booking, Use use) {
    const size_t id_hash = HashOfId(request_id);
    Shard& shard = ShardOf(id_hash);
    MutexLock lock(shard.mu);
    const auto it = shard.records.find(request_id, id_hash);
    if (it == shard.records.end() || it->second->booking != booking) return;
    use(it->second->progress, ServedByOf(it->second->decision));
  }

  // Takes out all booked records whose booking `is_live` denies; how many. `is_live` runs outside
  // the locks, once per booked record. Prefill bookings of theirs are appended to `left_over`, for
  // the caller to give back.
  uint64_t Sweep(const std::function<bool(BookingId)>& is_live, std::vector<BookingId>* left_over);

  uint64_t BookedCount() const { return booked_count_.load(std::memory_order_relaxed); }

 private:
  struct Record : BookedRequest {
    using BookedRequest::BookedRequest;
    BookingId booking = kNoBooking;          // kNoBooking: not decided yet
    BookingId prefill_booking = kNoBooking;  // of a fixed plan, whose `booking` decodes
    bool placing_second_leg = false;
    std::optional<PlacedLeg> first_leg;  // of one whose decode leg was placed later
    bool pulled = false;
    TicketId ticket = kNoTicket;
    bool released = false;  // before it was booked
    RequestProgress progress;
  };
  static bool IsAbout(const Record& record, BookingId booking) {
    return record.booking != kNoBooking &&
           (record.booking == booking || record.decision.booking == booking);
  }
  static ServedBy ServedByOf(const RouteDecision& decision) {
    return {.target = decision.target, .incarnation = decision.incarnation};
  }
  static std::vector<PlacedLeg> LegsOf(const Record& record);
  // What Release and EraseBooking say of a booked record.
  static Released ReleasedOf(const Record& record);
  using RecordPtr = std::shared_ptr<Record>;
  struct IdHash {
    size_t operator()(std::string_view id) const { return HashOfId(id); }
  };
  struct alignas(64) Shard {
    mutable Mutex mu;
    // Keys are the ids inside the records.
    absl::flat_hash_map<std::string_view, RecordPtr, IdHash> records ABSL_GUARDED_BY(mu);
  };
  static constexpr size_t kShardBits = 6;

  Shard& ShardOf(size_t id_hash) const {
    // The top bits: the maps inside the shards use the low ones of the same hash.
    return shards_[uint64_t{id_hash} >> (64 - kShardBits)];
  }

  mutable std::array<Shard, size_t{1} << kShardBits> shards_;
  std::atomic<uint64_t> booked_count_{0};
};

}  // namespace kvrouter

#endif  // KVROUTER_SERVICE_REQUEST_TABLE_H_
