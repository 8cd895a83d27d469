#ifndef KVROUTER_DAEMON_POLICY_CHANGES_H_
#define KVROUTER_DAEMON_POLICY_CHANGES_H_

#include <string>
#include <vector>

#include "kvrouter/admission.h"

namespace kvrouter {

// One difference between two policy files: a class, or the rest of a profile, of all models ("*")
// or of one.
struct ClassChange {
  std::string key;   // e.g. "router_policy_config:*/interactive"
  std::string from;  // "absent", or what it says
  std::string to;
};

// Every difference in what policy files say, for the log; the settings of one class alone are rows
// of the option table and not among them. Pure.
std::vector<ClassChange> ClassChanges(const QueueConfig& before, const QueueConfig& after);

}  // namespace kvrouter

#endif  // KVROUTER_DAEMON_POLICY_CHANGES_H_
