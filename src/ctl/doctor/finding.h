#ifndef KVROUTER_CTL_DOCTOR_FINDING_H_
#define KVROUTER_CTL_DOCTOR_FINDING_H_

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace kvrouter::ctl {

enum class Severity : uint8_t {
  kNote,      // worth knowing; nothing is wrong yet
  kWarning,   // routing is worse than it could be, or soon will be
  kCritical,  // requests fail, or go where their blocks are not
};
std::string_view SeverityName(Severity severity);

// A figure that speaks for the finding, and what it should have been.
struct Evidence {
  std::string figure;
  std::string value;
  std::string limit;
};

struct Finding {
  Severity severity = Severity::kWarning;
  std::string id;    // stable, for scripts: "block_size_mismatch"
  std::string what;  // one sentence
  std::vector<Evidence> evidence;
  std::string help;  // the command or setting that helps
};

}  // namespace kvrouter::ctl

#endif  // KVROUTER_CTL_DOCTOR_FINDING_H_
