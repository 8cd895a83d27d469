#ifndef KVROUTER_CTL_DOCTOR_DIAGNOSE_H_
#define KVROUTER_CTL_DOCTOR_DIAGNOSE_H_

#include <vector>

#include "ctl/doctor/finding.h"
#include "ctl/doctor/observations.h"

namespace kvrouter::ctl {

// What is wrong, worst first. Pure: the same observations give the same findings. What was not
// seen gives none: absence of a figure is no sign of anything.
std::vector<Finding> Diagnose(const Observations& seen);

// 0: nothing wrong; 1: warnings; 2: something critical.
int ExitCode(const std::vector<Finding>& findings);

// The parts, each of which appends what it finds.
void CheckDaemon(const Observations& seen, std::vector<Finding>* out);     // check_daemon.cc
void CheckFleet(const Observations& seen, std::vector<Finding>* out);      // check_fleet.cc
void CheckDiscovery(const Observations& seen, std::vector<Finding>* out);  // check_fleet.cc
void CheckFeeds(const Observations& seen, std::vector<Finding>* out);      // check_feeds.cc
void CheckEvents(const Observations& seen, std::vector<Finding>* out);     // check_events.cc
void CheckEngines(const Observations& seen, std::vector<Finding>* out);    // check_engines.cc
void CheckTraffic(const Observations& seen, std::vector<Finding>* out);    // check_traffic.cc

}  // namespace kvrouter::ctl

#endif  // KVROUTER_CTL_DOCTOR_DIAGNOSE_H_
