#ifndef KVROUTER_ADAPTERS_HTTP_DUMP_JSON_H_
#define KVROUTER_ADAPTERS_HTTP_DUMP_JSON_H_

#include <cstddef>
#include <string>

#include "absl/status/statusor.h"
#include "kvrouter/router.h"

namespace kvrouter {

// A dump is built in memory; a larger one is refused (the gRPC door streams).
inline constexpr size_t kMaxDumpBytes = size_t{1} << 30;

// {"model:group":{"block_size":16,"events":[RouterEvent…]}} of all partitions, as Dynamo's peers
// read it; a partition that could not be read to its end has an "error" besides. Error: kTooLarge.
absl::StatusOr<std::string> DumpJson(const Router& router);

}  // namespace kvrouter

#endif  // KVROUTER_ADAPTERS_HTTP_DUMP_JSON_H_
