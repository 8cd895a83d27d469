#ifndef KVROUTER_CORE_AFFINITY_SESSION_TABLE_H_
#define KVROUTER_CORE_AFFINITY_SESSION_TABLE_H_

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <optional>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "core/affinity/session_key.h"
#include "core/schedule/index_list.h"
#include "kvrouter/decision.h"
#include "kvrouter/types.h"

namespace kvrouter {

// What a request holds of a session: the right to initialise it, or a lease. Whoever took it gives
// it back once. It is void when the binding it was taken on is gone; kNoHold names none.
enum class SessionHold : uint64_t {};
inline constexpr SessionHold kNoHold{0};

// Which target each session is bound to. One table per role of a partition: the prefill and the
// decode pool bind apart.
//
//            Acquire                 Commit(target)
//   absent ──────────> initialising ───────────────> bound ── Acquire ──> +1 lease
//      ^                  │  others: wait             │  ^                  │
//      │  Release         │  (woken by Commit and     │  └── Release ───────┘  deadline = now + TTL
//      ├──────────────────┘   by Release)             │
//      └──────── Invalidate; idle for the TTL; room needed for another
//
// A request that gets kInitialise picks freely and commits what it picked; that hold becomes a
// lease. A dispatch that fails invalidates: the session starts anew and other leases on the old
// binding are void. A cancelled one just releases. A binding with leases never expires. Committing
// a lease with another target moves the binding (the soft mode's override).
//
// The table judges no targets: whoever acquires a lease on one that is gone, draining or of another
// incarnation invalidates it and acquires again. So a worker that comes back does not get sessions
// back that have moved on, and a removal costs nothing here.
//
// Bounded: when full, the longest idle binding makes room, counted; if none is idle the request
// goes unbound, counted. Waiters are bounded per table; one too many goes unbound, too.
//
// Thread safety: thread-compatible; guarded by the scheduler's mutex, so that picking and binding
// are one step. Parity: Dynamo v1.4.1 session_affinity; there a full table fails the request.
class SessionTable {
 public:
  struct Options {
    std::chrono::seconds idle_ttl{300};  // 1 s..365 d
    uint32_t max_sessions = 65'536;      // > 0
    uint32_t max_waiters = 65'536;
  };

  struct Binding {
    Target target;
    Incarnation incarnation{};

    friend bool operator==(const Binding&, const Binding&) = default;
  };

  enum class Outcome : uint8_t {
    kInitialise,  // pick, then Commit or Release `hold`
    kWait,        // another request initialises: the ticket will be woken
    kLease,       // serve on `binding`; Release `hold` at the end
    kConflict,    // the caller pins another target than `binding`: nothing was taken
    kUnbound,     // no room, or it would have to wait and will not: serve it without a binding
  };

  struct Acquired {
    Outcome outcome = Outcome::kUnbound;
    SessionHold hold = kNoHold;
    std::optional<Binding> binding;
  };

  struct Request {
    SessionKey key = kNoSession;
    // What the request names itself. A rank that it leaves open is the binding's.
    std::optional<TargetSelector> pinned = {};
    TicketId ticket = kNoTicket;  // to wait under; kNoTicket: the request will not wait
  };

  struct Stats {
    uint64_t sessions = 0;
    uint64_t initialising = 0;
    uint64_t leases = 0;
    uint64_t waiters = 0;
    uint64_t expired_total = 0;
    uint64_t evicted_total = 0;  // idle bindings that made room
    uint64_t invalidated_total = 0;
    uint64_t refused_total = 0;  // kUnbound
  };

  explicit SessionTable(const Options& options) : options_(options) {}

  // REQUIRES: key is not kNoSession.
  Acquired Acquire(const Request& request, MonotonicTime now);

  // Binds the session of the hold to the target; the hold is, or stays, a lease. Tickets that
  // waited are appended to `woken`; they acquire again. False: the hold is void, nothing changed.
  bool Commit(SessionHold hold, const Binding& binding, std::vector<TicketId>* woken);

  // Gives the hold back: a lease ends, and the TTL starts anew; an initialisation is given up, and
  // who waited is woken. False: the hold was void.
  bool Release(SessionHold hold, MonotonicTime now, std::vector<TicketId>* woken);

  // The binding did not work out: it is removed and every hold on it is void, this one too. False:
  // the hold was void already, the session may be bound elsewhere by now.
  bool Invalidate(SessionHold hold, std::vector<TicketId>* woken);

  // Who waits for `key` leaves. False: it did not wait.
  bool StopWaiting(SessionKey key, TicketId ticket);

  // The binding, for advice; takes and refreshes nothing.
  std::optional<Binding> Peek(SessionKey key, MonotonicTime now) const;

  // Removes bindings that have been idle for the TTL. One step per removal; call it every
  // min(TTL, 30 s).
  void Sweep(MonotonicTime now);

  Stats GetStats() const;

 private:
  struct Entry {
    SessionKey key = kNoSession;
    uint32_t generation = 0;  // rises with each binding's end, so that holds on it are void
    bool initialising = false;
    uint32_t leases = 0;
    Binding binding;
    MonotonicTime deadline{};  // while idle
    std::vector<TicketId> waiters;
    IndexLinks idle;  // in idle_ iff bound without leases
  };

  Acquired Initialise(SessionKey key, MonotonicTime now);
  Acquired Lease(uint32_t slot, const Request& request);
  Acquired Wait(uint32_t slot, const Request& request);
  Acquired Refuse();
  SessionHold HoldOf(uint32_t slot) const;
  std::optional<uint32_t> Find(SessionHold hold) const;
  void Remove(uint32_t slot, std::vector<TicketId>* woken);
  void Wake(Entry* entry, std::vector<TicketId>* woken);

  const Options options_;
  absl::flat_hash_map<SessionKey, uint32_t> slots_;
  std::deque<Entry> entries_;
  std::vector<uint32_t> free_;
  IndexList<&Entry::idle> idle_;  // ascending deadline
  uint64_t leases_ = 0;
  uint64_t initialising_ = 0;
  uint64_t waiters_ = 0;
  uint64_t expired_total_ = 0;
  uint64_t evicted_total_ = 0;
  uint64_t invalidated_total_ = 0;
  uint64_t refused_total_ = 0;
};

}  // namespace kvrouter

#endif  // KVROUTER_CORE_AFFINITY_SESSION_TABLE_H_
