#ifndef KVROUTER_CTL_DOCTOR_DOCTOR_TEXT_H_
#define KVROUTER_CTL_DOCTOR_DOCTOR_TEXT_H_

#include <string>
#include <vector>

#include "ctl/doctor/finding.h"
#include "ctl/doctor/observations.h"

namespace kvrouter::ctl {

// What `kvrouterctl doctor` prints. Pure.
std::string FindingsText(const Observations& seen, const std::vector<Finding>& findings);
std::string FindingsJson(const Observations& seen, const std::vector<Finding>& findings);

}  // namespace kvrouter::ctl

#endif  // KVROUTER_CTL_DOCTOR_DOCTOR_TEXT_H_
