#ifndef KVROUTER_CORE_DECISION_DESCRIPTION_H_
#define KVROUTER_CORE_DECISION_DESCRIPTION_H_

#include "core/prompt.h"
#include "core/router_settings.h"
#include "core/schedule/candidate_detail.h"
#include "core/schedule/scheduler.h"
#include "kvrouter/decision.h"

namespace kvrouter {

// A placement in the words of its caller: where, what is there of the prompt, what the choice gave
// up, and by which settings. Session, gate, migration and legs are RequestCourse's to add.
// `candidates` is the table the placement was made from; it stays readable. Written in place: a
// decision is large enough for its moves to show.
void DescribeDecision(const IdentifiedPrompt& prompt, CandidateTable* candidates,
                      const Placement& placement, const RouterSettings::Version& settings,
                      DetailBuffers* buffers, RouteDecision* out);

}  // namespace kvrouter

#endif  // KVROUTER_CORE_DECISION_DESCRIPTION_H_
