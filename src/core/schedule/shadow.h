#ifndef KVROUTER_CORE_SCHEDULE_SHADOW_H_
#define KVROUTER_CORE_SCHEDULE_SHADOW_H_

#include <cstdint>
#include <vector>

#include "core/schedule/effective_weights.h"
#include "core/schedule/scheduler.h"
#include "kvrouter/config.h"
#include "kvrouter/decision.h"

namespace kvrouter {

// A second policy's choice from the candidates of a decision that was made: same loads, same
// overlaps, other weights and temperature. Nothing is booked by it, so the next request sees the
// loads that the policy in force has made: the shadow says what it would do now, not where the
// fleet would be by now. Pure functions.

// What the shadow scores a request with. REQUIRES: config.shadow.
EffectiveWeights ShadowWeights(const RouterConfig& config, const ConfigOverride& overrides);

// At temperature 0 the choice that was made counts as the shadow's, too, if nothing costs less;
// else the shadow takes its lowest cost. Numbers to draw with are those of the decision, if it
// drew, else made from `seed`. REQUIRES: a scored table.
ShadowChoice ChooseInShadow(const CandidateTable& table, const Placement& placement,
                            const EffectiveWeights& weights, uint64_t seed,
                            std::vector<double>* costs);

}  // namespace kvrouter

#endif  // KVROUTER_CORE_SCHEDULE_SHADOW_H_
