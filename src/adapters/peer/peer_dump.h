#ifndef KVROUTER_ADAPTERS_PEER_PEER_DUMP_H_
#define KVROUTER_ADAPTERS_PEER_PEER_DUMP_H_

#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "kvrouter/events.h"
#include "kvrouter/worker.h"

namespace kvrouter {

// A rank that somebody wants to know about.
struct PeerWish {
  WorkerSpec spec;
  uint32_t dp_rank = 0;
};

// Reads a router's answer to GET /dump, ours or Dynamo's:
//
//   {"model:group": {"block_size": 16, "events": [RouterEvent, ...]}, ...}
//   {"key": "model:group", "block_size": 16, "event": RouterEvent}          one line each
//
// Returns the stored events of the ranks that are wished for, by the wish's number; a rank that the
// dump says nothing of has none. Trees with another block size or an error in place of events are
// passed over, and so is each event that cannot be placed: of a cache that is not the worker's own,
// of a tier we do not know, at a position without a parent. Error: it is neither.
//
// `json` has its spare bytes behind it: simdjson reads beyond the end.
absl::StatusOr<std::map<size_t, std::vector<KvEvent>>> ReadPeerDump(
    std::string json, std::span<const PeerWish> wishes);

}  // namespace kvrouter

#endif  // KVROUTER_ADAPTERS_PEER_PEER_DUMP_H_
