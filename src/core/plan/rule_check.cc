#include "core/plan/rule_check.h"

#include <fmt/format.h>

namespace kvrouter {
namespace {

std::string_view Symbol(RuleCheck::Comparison comparison) {
  switch (comparison) {
    case RuleCheck::Comparison::kLess:
      return "<";
    case RuleCheck::Comparison::kAtLeast:
      return ">=";
    case RuleCheck::Comparison::kGreater:
      return ">";
  }
  return "?";
}

}  // namespace

std::string DescribeCheck(const RuleCheck& check) {
  if (!check.known) {
    return fmt::format("{} {} {}: unknown", check.quantity, Symbol(check.comparison),
                       check.threshold);
  }
  return fmt::format("{} {} {} {}: {}", check.quantity, check.value, Symbol(check.comparison),
                     check.threshold, check.holds ? "yes" : "no");
}

}  // namespace kvrouter
