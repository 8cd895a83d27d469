#include "ctl/doctor/diagnose.h"

#include <algorithm>

namespace kvrouter::ctl {

std::string_view SeverityName(Severity severity) {
  switch (severity) {
    case Severity::kNote:
      break;
    case Severity::kWarning:
      return "warning";
    case Severity::kCritical:
      return "critical";
  }
  return "note";
}

std::vector<Finding> Diagnose(const Observations& seen) {
  std::vector<Finding> findings;
  CheckDaemon(seen, &findings);
  if (seen.grpc_error.empty()) {
    CheckFleet(seen, &findings);
    CheckFeeds(seen, &findings);
    CheckEngines(seen, &findings);
  }
  if (seen.http_error.empty()) {
    CheckDiscovery(seen, &findings);
    CheckEvents(seen, &findings);
    CheckTraffic(seen, &findings);
  }
  std::stable_sort(findings.begin(), findings.end(),
                   [](const Finding& a, const Finding& b) { return a.severity > b.severity; });
  return findings;
}

int ExitCode(const std::vector<Finding>& findings) {
  int code = 0;
  for (const Finding& finding : findings) {
    code = std::max(code, finding.severity == Severity::kCritical  ? 2
                          : finding.severity == Severity::kWarning ? 1
                                                                   : 0);
  }
  return code;
}

}  // namespace kvrouter::ctl
