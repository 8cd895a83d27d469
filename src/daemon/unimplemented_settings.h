#ifndef KVROUTER_DAEMON_UNIMPLEMENTED_SETTINGS_H_
#define KVROUTER_DAEMON_UNIMPLEMENTED_SETTINGS_H_

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"

namespace kvrouter {

// A router setting of Dynamo or of its fork for a part that this router does not have: not yet, or
// on purpose (docs/parity.md). Whoever sets it counts on that part, so it must not be ignored like
// the variables of other processes; a row goes when its part comes.
struct UnimplementedSetting {
  std::string_view variable;
  std::vector<std::string_view> neutral;  // values that ask for nothing, beside the empty one
  std::string_view why = {};              // it will not come; empty: not yet

  bool IsNeutral(std::string_view value) const;
  bool IsSwitch() const;  // its flag takes no value, and has a --no- form
  // "not supported: ..." or "not implemented yet".
  std::string Reason() const;
};

const std::vector<UnimplementedSetting>& UnimplementedSettings();

// By the name of a flag or key, with dashes or underscores: "router-queue-threshold" is
// DYN_ROUTER_QUEUE_THRESHOLD.
// Null if there is none.
const UnimplementedSetting* FindUnimplementedSetting(std::string_view name);

// By the name of a flag: one that Dynamo itself still reads and does nothing about.
bool IsDeadSwitch(std::string_view flag);

// OK, or one line naming the first variable that asks for something we cannot do.
absl::Status CheckUnimplemented(const std::map<std::string, std::string>& environment);

}  // namespace kvrouter

#endif  // KVROUTER_DAEMON_UNIMPLEMENTED_SETTINGS_H_
