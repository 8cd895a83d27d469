#ifndef KVROUTER_CTL_DUMP_TEXT_H_
#define KVROUTER_CTL_DUMP_TEXT_H_

#include <string>

#include "kvrouter/v1/router.pb.h"

namespace kvrouter::ctl {

// A dump as text. Pure.

// One line of JSON per event: {"key": "MODEL:GROUP", "block_size": …, "event": {…}}, the record
// that Dynamo's indexer writes, and the worker's incarnation.
std::string DumpLine(const std::string& model_name, const std::string& routing_group,
                     const v1::DumpedEvent& event);
std::string DumpSummary(const v1::DumpCounts& counts);

}  // namespace kvrouter::ctl

#endif  // KVROUTER_CTL_DUMP_TEXT_H_
