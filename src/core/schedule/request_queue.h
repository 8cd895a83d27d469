#ifndef KVROUTER_CORE_SCHEDULE_REQUEST_QUEUE_H_
#define KVROUTER_CORE_SCHEDULE_REQUEST_QUEUE_H_

#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "absl/status/status.h"
#include "core/schedule/policy_classes.h"
#include "kvrouter/types.h"

namespace kvrouter {

// Requests that wait until some target is less busy, each under a ticket.
//
//   class A ─┬─ shared lane      [r1 r4 r9]      head-of-line: r4 does not pass r1
//            ├─ lane of target 7 [r2]            pinned: a busy target holds up its own only
//            └─ lane of target 8 [r3 r5]
//   class B ─── ...                              turns between classes by deficit round robin
//
// Order within a lane, and between the heads of a class: strict_priority (high first), score (high
// first), arrival. Scores are computed once, when the request parks:
//
//   fcfs   jump - t          t: seconds since the queue was made
//   lcfs   jump + t          jump: max(0, priority_jump)
//   wspt   (1 + jump) / max(1, isl - best cached)
//
// Classes with something to release take turns: a request costs max(1, uncached tokens) of its
// class's deficit. Whoever was last goes on while its deficit lasts; then the next class in order
// whose deficit suffices; if none suffices, all get the fewest whole rounds of their quantum that
// let one go. A class that empties loses its deficit.
//
// The queue knows no loads: Pump asks of each head whether it can go. It does not look past a head
// that cannot, and a head for which nobody can serve goes, too: its error is the scheduler's to
// say.
//
// Limits are compared with what waits *before* the request is added, so one request may cross them.
//
// Bounded by max_waiting. Thread safety: thread-compatible; guarded by the scheduler's mutex, like
// the loads it waits for. Parity: Dynamo v1.4.1 scheduling/queue, policy_queue.
class RequestQueue {
 public:
  struct Options {
    uint32_t partition = 0;         // goes into tickets
    uint32_t first_generation = 1;  // > those of earlier queues with the same partition number
    uint32_t max_waiting = 65'536;
    // A request that waited this long has its overlap looked up again; 0: never.
    std::chrono::nanoseconds overlap_refresh_after = std::chrono::seconds(10);
  };

  struct Request {
    uint32_t policy_class = 0;
    uint32_t strict_priority = 0;
    double priority_jump = 0;  // negative and NaN count as 0
    uint64_t isl_tokens = 0;
    // The best over the targets that could serve it (the pinned one), at most isl_tokens.
    uint64_t cached_tokens = 0;
    std::optional<Target> pinned = {};
    MonotonicTime deadline = MonotonicTime::max();
  };

  enum class LimitKind : uint8_t { kRequests, kRawIslTokens, kCachedTokens, kMaxWaiting };

  static constexpr size_t kLimitKindCount = 4;

  struct Rejection {
    std::string policy_class;
    LimitKind kind = LimitKind::kRequests;
    uint64_t current = 0;
    uint64_t limit = 0;
  };

  enum class Readiness : uint8_t {
    kReady,   // a target that could serve it is not busy
    kBusy,    // all of them are
    kNobody,  // there is none: it goes, to its error
  };

  // A request that goes.
  struct Released {
    TicketId ticket{};
    std::chrono::nanoseconds waited{};
    bool refresh_overlap = false;
  };

  struct ClassStats {
    uint64_t waiting = 0;
    uint64_t waiting_isl_tokens = 0;
    uint64_t waiting_cached_tokens = 0;
    uint64_t parked_total = 0;
    uint64_t released_total = 0;
    uint64_t cancelled_total = 0;
    uint64_t expired_total = 0;
    uint64_t rejected_total = 0;
    std::array<uint64_t, kLimitKindCount> rejected_by_limit{};
  };

  // `start` is where t counts from.
  RequestQueue(const Options& options, PolicyClasses classes, MonotonicTime start);

  const PolicyClasses& classes() const { return classes_; }
  // Some class may queue; else nobody ever waits.
  bool Queues() const { return queues_; }

  // Whether a request must park: its class queues at all, and has a backlog (or it would bypass
  // those who wait) or all targets that could serve it are busy.
  bool MustPark(uint32_t policy_class, bool all_targets_busy) const;

  // Takes the request in. Call Pump after it: it may be able to go at once, e.g. to a pinned target
  // that is free while its class waits for others. REQUIRES: policy_class < classes().size().
  std::variant<TicketId, Rejection> Park(const Request& request, uint64_t workers,
                                         MonotonicTime now);

  using Judge = std::function<Readiness(TicketId)>;
  using Place = std::function<void(const Released&)>;

  // Releases whoever can go, in order. `place` books the request before the next one is judged; it
  // may only add load, and must not call the queue. Call it when prefill completes, a booking ends
  // or expires, workers change, a request parks, and on a timer.
  void Pump(MonotonicTime now, const Judge& judge, const Place& place);
  // The first step of Pump: releases one at most. False: nobody can go.
  bool PumpOne(MonotonicTime now, const Judge& judge, const Place& place);

  // A waiting request leaves. False if the ticket waits no more.
  bool Cancel(TicketId ticket);

  // Requests whose deadline is over leave; appends their tickets.
  void Expire(MonotonicTime now, std::vector<TicketId>* expired);

  // Other classes and bounds from now on. Who waits keeps ticket, arrival, time and deadline, and
  // is put into the class that `class_of` says, whatever that class's limits; to leave one class
  // for another counts as released and parked. A class of the same name keeps its counts.
  using ClassOf = std::function<uint32_t(TicketId)>;
  void Reconfigure(PolicyClasses classes, uint32_t max_waiting,
                   std::chrono::nanoseconds overlap_refresh_after, const ClassOf& class_of);

  // Greater than the generation of every ticket handed out.
  uint32_t NextGeneration() const;

  // Everybody leaves, in order of arrival.
  void Clear(std::vector<TicketId>* cleared);

  // REQUIRES: it waits.
  uint32_t ClassOfWaiting(TicketId ticket) const {
    return entries_[*Find(ticket)].request.policy_class;
  }
  // REQUIRES: it waits. As of when it was parked.
  uint64_t UncachedTokensOf(TicketId ticket) const {
    const Request& request = entries_[*Find(ticket)].request;
    return request.isl_tokens - request.cached_tokens;
  }
  size_t WaitingCount() const { return by_deadline_.size(); }
  ClassStats StatsOf(uint32_t policy_class) const { return states_[policy_class].stats; }

 private:
  // Ascending = who goes first.
  struct OrderKey {
    uint32_t strict_priority = 0;
    double score = 0;
    uint64_t arrival = 0;
    uint32_t slot = 0;

    friend bool operator<(const OrderKey& a, const OrderKey& b) {
      if (a.strict_priority != b.strict_priority) return a.strict_priority > b.strict_priority;
      if (a.score != b.score) return a.score > b.score;
      return a.arrival < b.arrival;
    }
  };
  using Lane = std::set<OrderKey>;
  using LaneName = std::optional<Target>;  // absent: shared

  struct Entry {
    uint32_t generation = 0;
    bool waiting = false;
    Request request;
    OrderKey key;
    MonotonicTime parked_at{};
  };

  struct ClassState {
    std::map<LaneName, Lane> lanes;      // none is empty
    std::map<OrderKey, LaneName> heads;  // of the lanes
    uint64_t deficit_tokens = 0;
    ClassStats stats;
  };

  // A class whose `head` can go.
  struct Ready {
    uint32_t policy_class = 0;
    uint32_t slot = 0;
    uint64_t cost_tokens = 0;
  };

  double ScoreOf(const Request& request, MonotonicTime now) const;
  std::optional<Rejection> OverLimit(uint32_t policy_class, uint64_t workers) const;
  std::optional<uint32_t> TakeSlot();
  TicketId TicketOf(uint32_t slot) const;
  std::optional<uint32_t> Find(TicketId ticket) const;
  void Insert(uint32_t slot);
  void Remove(uint32_t slot);
  // By class: heads found busy are kept apart for the rest of a pass, since load only grows in it.
  using BusyHeads = std::vector<std::map<OrderKey, LaneName>>;
  bool ReleaseOne(MonotonicTime now, const Judge& judge, const Place& place, BusyHeads* busy);
  void TakeBack(BusyHeads* busy);
  std::optional<Ready> FirstReady(uint32_t policy_class, const Judge& judge, BusyHeads* busy);
  Ready TakeTurn(const std::vector<Ready>& ready);

  Options options_;
  PolicyClasses classes_;
  bool queues_;
  const MonotonicTime start_;
  std::vector<ClassState> states_;
  std::deque<Entry> entries_;
  std::vector<uint32_t> free_;
  std::set<std::pair<MonotonicTime, uint32_t>> by_deadline_;  // of all who wait
  uint64_t arrivals_ = 0;
  std::optional<uint32_t> last_class_;  // whose turn it was
};

// E.g. "raw_isl_tokens": the limit_kind of a rejection's body.
std::string_view LimitKindName(RequestQueue::LimitKind kind);

// RESOURCE_EXHAUSTED kQueueLimit with class, kind, current and limit in the message.
absl::Status StatusOf(const RequestQueue::Rejection& rejection);

}  // namespace kvrouter

#endif  // KVROUTER_CORE_SCHEDULE_REQUEST_QUEUE_H_
