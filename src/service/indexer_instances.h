#ifndef KVROUTER_SERVICE_INDEXER_INSTANCES_H_
#define KVROUTER_SERVICE_INDEXER_INSTANCES_H_

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "kvrouter/types.h"
#include "kvrouter/worker.h"
#include "service/feed_monitor.h"
#include "service/worker_registry.h"

namespace kvrouter {

// Workers as Dynamo's standalone indexer knows them: instances, registered rank by rank, each rank
// being the event socket of one engine. They are workers of the registry like all others. An
// instance that nobody registered as a worker besides has no address to dispatch to: it drains from
// the start, so it answers overlap queries and is never picked. Once a worker door gives it an
// address, it serves.
//
// Pure functions over the registry; each change is one step of it.

struct InstanceRank {
  WorkerId instance{};
  uint32_t dp_rank = 0;
  std::string model_name;
  std::string routing_group = "default";
  uint32_t block_size_tokens = 0;
  EventEndpoints endpoints;
};

// Gives the rank its event socket. The rank joins the instance's ranks if it is one without an
// address; the ranks of a worker that was declared with one are its declarer's affair. Errors:
// INVALID_ARGUMENT for bad values; FAILED_PRECONDITION if the rank has a socket already, the
// instance is of another partition or block size, or has not this rank; those of the registry.
absl::Status RegisterInstanceRank(WorkerRegistry* registry, const InstanceRank& rank);

struct InstanceSelector {
  WorkerId instance{};
  std::string model_name;
  std::optional<std::string> routing_group = {};  // absent: any
  std::optional<uint32_t> dp_rank = {};           // absent: all
};

// Takes the event sockets away: their blocks go. An instance without an address and without sockets
// is gone. kUnknownWorker (NOT_FOUND) if there is nothing to take away.
absl::Status UnregisterInstance(WorkerRegistry* registry, const InstanceSelector& which);

// Upstream's words for the state of a rank's event socket.
enum class ListenerStatus : uint8_t { kPending, kActive, kPaused, kFailed };
std::string_view ListenerStatusName(ListenerStatus status);

struct InstanceListener {
  uint32_t dp_rank = 0;
  std::string endpoint;  // empty: the rank's events come on a stream of a door
  ListenerStatus status = ListenerStatus::kPending;
  std::string last_error;  // empty: none
};

struct Instance {
  WorkerSpec spec;
  ListenerStatus status = ListenerStatus::kPaused;  // failed before pending before active
  std::vector<InstanceListener> listeners;          // ascending rank
};

// The workers that have event feeds, in their order.
std::vector<Instance> ListInstances(std::span<const WorkerSpec> workers,
                                    std::span<const FeedReport> feeds);

}  // namespace kvrouter

#endif  // KVROUTER_SERVICE_INDEXER_INSTANCES_H_
