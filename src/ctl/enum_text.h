#ifndef KVROUTER_CTL_ENUM_TEXT_H_
#define KVROUTER_CTL_ENUM_TEXT_H_

#include <string>
#include <string_view>

#include "base/ascii.h"

namespace kvrouter::ctl {

// A value of the gRPC contract as a word: "DECISION_REASON_TIE_BREAK" -> "tie_break".
inline std::string EnumText(std::string_view name, std::string_view prefix) {
  if (name.starts_with(prefix)) name.remove_prefix(prefix.size());
  return AsciiLower(name);
}

}  // namespace kvrouter::ctl

#endif  // KVROUTER_CTL_ENUM_TEXT_H_
