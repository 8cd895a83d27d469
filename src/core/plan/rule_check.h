#ifndef KVROUTER_CORE_PLAN_RULE_CHECK_H_
#define KVROUTER_CORE_PLAN_RULE_CHECK_H_

#include <string>
#include <string_view>

namespace kvrouter {

// One comparison that a rule made, as an explanation shows it: what, against what, with which
// result. Tokens and blocks are far below 2^53, so a double holds them exactly.
struct RuleCheck {
  enum class Comparison : unsigned char { kLess, kAtLeast, kGreater };

  std::string_view quantity;  // a name with its unit, e.g. "prompt_tokens"; static
  Comparison comparison = Comparison::kLess;
  double value = 0;
  double threshold = 0;
  bool known = true;  // false: no value was at hand, and the rule took the safe way
  bool holds = false;
};

// E.g. "prompt_tokens 16383 < 16384: yes".
std::string DescribeCheck(const RuleCheck& check);

}  // namespace kvrouter

#endif  // KVROUTER_CORE_PLAN_RULE_CHECK_H_
