#ifndef KVROUTER_DAEMON_OPTION_CHECKS_H_
#define KVROUTER_DAEMON_OPTION_CHECKS_H_

#include <map>
#include <string>

#include "absl/status/status.h"
#include "daemon/daemon_config.h"
#include "daemon/options.h"

namespace kvrouter {

// What follows from several settings together, once each has its value.

// What Kubernetes tells every pod: where its API server is, and, by the convention that Dynamo
// follows, its namespace.
absl::Status FindCluster(const std::map<std::string, std::string>& environment, DaemonAction action,
                         KubernetesConfig* config);

// The shadow policy is what is in force with its changes.
absl::Status ResolveShadow(DaemonConfig* config);

// What concerns more than one setting, and whether the workers of the files can live together.
absl::Status CheckTogether(const DaemonConfig& config);

}  // namespace kvrouter

#endif  // KVROUTER_DAEMON_OPTION_CHECKS_H_
