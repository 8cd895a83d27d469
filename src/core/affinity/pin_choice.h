#ifndef KVROUTER_CORE_AFFINITY_PIN_CHOICE_H_
#define KVROUTER_CORE_AFFINITY_PIN_CHOICE_H_

#include <cstddef>
#include <optional>
#include <span>

#include "absl/status/status.h"
#include "core/affinity/session_key.h"
#include "kvrouter/types.h"

namespace kvrouter {

// Where a session goes when its binding does not settle it alone. Pure functions.

// The target that every router would choose for the session, without having spoken to the others:
// the highest hash of (session, target) among the live ones ("rendezvous"). When a target leaves,
// only its own sessions move; when one comes, it gets its share. Nothing if there are no targets;
// equal hashes go to the last in the list.
//
// For sessions that are unbound, in place of a first pick by cost. Parity: the fork takes rank 0 of
// a worker; here ranks are targets like any other, or one rank would carry all.
std::optional<Target> RendezvousTarget(SessionKey session, std::span<const Target> targets);
// What is compared.
uint64_t RendezvousHash(SessionKey session, const Target& target);

// Names the field, the value and the range.
absl::Status Validate(const SoftPin& pin);

// Whether the preferred target stays: its cost is at most
//
//   lowest cost * max_cost_factor + max_extra_cost_blocks.
//
// Beyond that the difference in load is worth losing what the session left there.
bool KeepsPin(double pinned_cost_blocks, double lowest_cost_blocks, const SoftPin& pin);

}  // namespace kvrouter

#endif  // KVROUTER_CORE_AFFINITY_PIN_CHOICE_H_
