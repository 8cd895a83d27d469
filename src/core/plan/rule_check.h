#ifndef KVROUTER_CORE_PLAN_RULE_CHECK_H_
#define KVROUTER_CORE_PLAN_RULE_CHECK_H_

#include <string>

#include "kvrouter/plan.h"

namespace kvrouter {

// E.g. "prompt_tokens 16383 < 16384: yes".
std::string DescribeCheck(const RuleCheck& check);

}  // namespace kvrouter

#endif  // KVROUTER_CORE_PLAN_RULE_CHECK_H_
