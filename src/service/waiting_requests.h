#ifndef KVROUTER_SERVICE_WAITING_REQUESTS_H_
#define KVROUTER_SERVICE_WAITING_REQUESTS_H_

#include <cstddef>
#include <functional>
#include <optional>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/statusor.h"
#include "base/mutex.h"
#include "kvrouter/decision.h"

namespace kvrouter {

// Requests that hold a ticket of the core, with what to do when it is resolved. Another thread's
// Pump may resolve a ticket before the thread that submitted gets here: such a result waits for its
// request, so neither is lost.
//
// Thread safety: thread-safe. A continuation runs on the calling thread, outside the lock, exactly
// once. Bound: one entry per request the core lets wait.
class WaitingRequests {
 public:
  using Continuation = std::function<void(absl::StatusOr<RouteDecision>)>;

  void Park(TicketId ticket, Continuation continuation);
  void Resolve(TicketId ticket, absl::StatusOr<RouteDecision> decision);
  std::vector<TicketId> Tickets() const;
  std::vector<Continuation> TakeAll();
  size_t Size() const;

 private:
  mutable Mutex mu_;
  absl::flat_hash_map<TicketId, Continuation> parked_ ABSL_GUARDED_BY(mu_);
  absl::flat_hash_map<TicketId, absl::StatusOr<RouteDecision>> early_ ABSL_GUARDED_BY(mu_);
};

}  // namespace kvrouter

#endif  // KVROUTER_SERVICE_WAITING_REQUESTS_H_
