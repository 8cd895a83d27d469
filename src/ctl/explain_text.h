#ifndef KVROUTER_CTL_EXPLAIN_TEXT_H_
#define KVROUTER_CTL_EXPLAIN_TEXT_H_

#include <string>

#include "kvrouter/v1/router.pb.h"

namespace kvrouter::ctl {

// An explanation for somebody tired: what was decided in a sentence, what it gave up, the chosen
// target's terms first and its rivals' in ascending cost, who was no candidate and why. Pure.
std::string ExplainText(const v1::ExplainResponse& response);

}  // namespace kvrouter::ctl

#endif  // KVROUTER_CTL_EXPLAIN_TEXT_H_
