#include "service/waiting_requests.h"

#include <utility>

namespace kvrouter {

void WaitingRequests::Park(TicketId ticket, Continuation continuation) {
  std::optional<absl::StatusOr<RouteDecision>> decision;
  {
    MutexLock lock(mu_);
    const auto early = early_.find(ticket);
    if (early == early_.end()) {
      parked_.emplace(ticket, std::move(continuation));
      return;
    }
    decision = std::move(early->second);
    early_.erase(early);
  }
  continuation(*std::move(decision));
}

void WaitingRequests::Resolve(TicketId ticket, absl::StatusOr<RouteDecision> decision) {
  Continuation continuation;
  {
    MutexLock lock(mu_);
    const auto parked = parked_.find(ticket);
    if (parked == parked_.end()) {
      early_.emplace(ticket, std::move(decision));
      return;
    }
    continuation = std::move(parked->second);
    parked_.erase(parked);
  }
  continuation(std::move(decision));
}

std::vector<TicketId> WaitingRequests::Tickets() const {
  MutexLock lock(mu_);
  std::vector<TicketId> tickets;
  tickets.reserve(parked_.size());
  for (const auto& [ticket, continuation] : parked_) tickets.push_back(ticket);
  return tickets;
}

std::vector<WaitingRequests::Continuation> WaitingRequests::TakeAll() {
  MutexLock lock(mu_);
  std::vector<Continuation> all;
  all.reserve(parked_.size());
  for (auto& [ticket, continuation] : parked_) all.push_back(std::move(continuation));
  parked_.clear();
  return all;
}

size_t WaitingRequests::Size() const {
  MutexLock lock(mu_);
  return parked_.size();
}

}  // namespace kvrouter
