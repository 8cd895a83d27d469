#ifndef KVROUTER_CTL_DOCTOR_GATHER_H_
#define KVROUTER_CTL_DOCTOR_GATHER_H_

#include <chrono>
#include <optional>
#include <string>
#include <vector>

#include "client/exposition.h"
#include "ctl/commands.h"
#include "ctl/doctor/observations.h"

namespace kvrouter::ctl {

struct DoctorOptions {
  // What the daemon counts in this time is judged; 0: all that it counted since its start.
  std::chrono::milliseconds window{0};
  bool skip_workers = false;  // do not ask the workers themselves
};

// Looks at the daemon through both doors, and at its workers' own pages where their address is
// http://HOST:PORT: /health and /metrics, kWorkersAtOnce of them at a time, each with a time-out of
// its own. Blocks. Never fails: what does not answer is an observation.
inline constexpr size_t kWorkersAtOnce = 16;
Observations Gather(const Connection& connection, const DoctorOptions& options);

// HOST:PORT of an address that callers dispatch to; nothing if it is no plain HTTP address.
std::optional<std::string> HostPortOf(const std::string& address);

// `later` with what `earlier` had already counted taken off: only of series that count (their names
// end in _total, or are counters of Dynamo's without it). A series that went back is a new life's.
std::vector<client::Sample> CountedSince(const std::vector<client::Sample>& earlier,
                                         std::vector<client::Sample> later);

}  // namespace kvrouter::ctl

#endif  // KVROUTER_CTL_DOCTOR_GATHER_H_
