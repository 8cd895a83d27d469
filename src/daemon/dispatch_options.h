#ifndef KVROUTER_DAEMON_DISPATCH_OPTIONS_H_
#define KVROUTER_DAEMON_DISPATCH_OPTIONS_H_

#include <vector>

#include "daemon/option_table.h"

namespace kvrouter {

// The rows of the option table that are about dispatch: door, requests, tokenising, engines.
void AddDispatchOptions(std::vector<Option>* table);

}  // namespace kvrouter

#endif  // KVROUTER_DAEMON_DISPATCH_OPTIONS_H_
