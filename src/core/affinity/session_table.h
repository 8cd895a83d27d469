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
#include "kvrouter/types.h"

namespace kvrouter {

// A request's lease on the binding of its session. Whoever took it gives it back once. It is void
// when the binding it was taken on is gone; kNoHold names none.
enum class SessionHold : uint64_t {};
inline constexpr SessionHold kNoHold{0};

// Which target each session is bound to. One table per pool of a partition: prefill and decode
// workers are bound apart.
//
//             Bind(target)                    Bind(same target): +1 lease
//   absent ─────────────────> bound, 1 lease ────────────────────────────┐
//      ^                        │   ^   └── Release: -1, deadline = now + TTL
//      │                        │   └── Bind(other target): moved, older leases are void
//      └── Invalidate; Forget; idle for the TTL; room needed for another
//
// A binding with leases never expires. A request whose target has failed it invalidates: the
// session starts anew and other leases on the old binding are void. One that was cancelled just
// releases.
//
// Nobody waits for another request to bind a session: whoever picks holds the scheduler's mutex
// from Find to Bind, so of two first turns the second one finds what the first one bound.
//
// The table judges no targets: whoever finds one that is gone, draining or of another incarnation
// forgets it and picks anew. So a worker that comes back does not get sessions back that have moved
// on, and a removal costs nothing here.
//
// Bounded: when full, the longest idle binding makes room, counted; if none is idle the request
// goes unbound, counted.
//
// Thread safety: thread-compatible; guarded by the scheduler's mutex. Parity: Dynamo v1.4.1
// session_affinity, where picking and binding are apart, so that other first turns wait; there a
// full table fails the request.
class SessionTable {
 public:
  struct Options {
    std::chrono::seconds idle_ttl{300};  // 1 s..365 d
    uint32_t max_sessions = 65'536;      // > 0
  };

  struct Binding {
    Target target;
    Incarnation incarnation{};

    friend bool operator==(const Binding&, const Binding&) = default;
  };

  struct Stats {
    uint64_t sessions = 0;
    uint64_t leases = 0;
    uint64_t expired_total = 0;
    uint64_t evicted_total = 0;  // idle bindings that made room
    uint64_t invalidated_total = 0;
    uint64_t refused_total = 0;  // Bind without room
  };

  explicit SessionTable(const Options& options) : options_(options) {}

  // The session's binding; takes and refreshes nothing.
  std::optional<Binding> Find(SessionKey key, MonotonicTime now) const;

  // Binds the session to the target, or takes another lease on that very binding. kNoHold: there is
  // no room. REQUIRES: key is not kNoSession.
  SessionHold Bind(SessionKey key, const Binding& binding, MonotonicTime now);

  // The lease ends, and the TTL starts anew. False: the hold was void.
  bool Release(SessionHold hold, MonotonicTime now);

  // The binding did not work out: it is removed and every hold on it is void, this one too. False:
  // the hold was void already, the session may be bound elsewhere by now.
  bool Invalidate(SessionHold hold);

  // The same, for who has no hold yet. False: the session has no binding.
  bool Forget(SessionKey key);

  // Removes bindings that have been idle for the TTL. One step per removal; call it every
  // min(TTL, 30 s).
  void Sweep(MonotonicTime now);

  Stats GetStats() const;

 private:
  struct Entry {
    SessionKey key = kNoSession;
    uint32_t generation = 0;  // rises with each binding's end, so that holds on it are void
    uint32_t leases = 0;
    Binding binding;
    MonotonicTime deadline{};  // while idle
    IndexLinks idle;           // in idle_ iff bound without leases
  };

  bool IsExpired(const Entry& entry, MonotonicTime now) const {
    return entry.leases == 0 && entry.deadline <= now;
  }
  bool MakeRoom(MonotonicTime now);
  SessionHold Lease(uint32_t slot);
  SessionHold HoldOf(uint32_t slot) const;
  std::optional<uint32_t> Find(SessionHold hold) const;
  void Remove(uint32_t slot);

  const Options options_;
  absl::flat_hash_map<SessionKey, uint32_t> slots_;
  std::deque<Entry> entries_;
  std::vector<uint32_t> free_;
  IndexList<&Entry::idle> idle_;  // ascending deadline
  MonotonicTime latest_deadline_{MonotonicTime::min()};
  uint64_t leases_ = 0;
  uint64_t expired_total_ = 0;
  uint64_t evicted_total_ = 0;
  uint64_t invalidated_total_ = 0;
  uint64_t refused_total_ = 0;
};

}  // namespace kvrouter

#endif  // KVROUTER_CORE_AFFINITY_SESSION_TABLE_H_
