#ifndef KVROUTER_WORKER_H_
#define KVROUTER_WORKER_H_

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "kvrouter/types.h"

namespace kvrouter {

enum class WorkerRole : uint8_t { kAggregated, kPrefill, kDecode };

// As APIs, files, annotations and pages name it.
std::string_view WorkerRoleName(WorkerRole role);
// Of such a name; nothing for any other text.
std::optional<WorkerRole> WorkerRoleOf(std::string_view name);
// For whoever refuses another text.
inline constexpr std::string_view kWorkerRolesWanted = "aggregated, prefill or decode";

// `worker_type` label of Dynamo's metrics: "prefill" or "decode"; an aggregated worker counts as
// "decode".
inline std::string_view WorkerTypeLabel(WorkerRole role) {
  return role == WorkerRole::kPrefill ? "prefill" : "decode";
}

// What a worker's KV connector can do for workers that would rather pull blocks than compute them.
enum class KvRole : uint8_t { kNone, kProducer, kConsumer, kBoth };

// E.g. "producer"; as WorkerRoleName and WorkerRoleOf.
std::string_view KvRoleName(KvRole role);
std::optional<KvRole> KvRoleOf(std::string_view name);
inline constexpr std::string_view kKvRolesWanted = "none, producer, consumer or both";

inline bool CanProduce(KvRole role) { return role == KvRole::kProducer || role == KvRole::kBoth; }
inline bool CanConsume(KvRole role) { return role == KvRole::kConsumer || role == KvRole::kBoth; }

// Where a worker is, in domains such as a rack or a switch, and what it asks of the worker that
// pulls its blocks. Parity: Dynamo v1.4.1's registration metadata.
struct WorkerTopology {
  std::map<std::string, std::string> topology_domains;  // domain -> its label there
  std::string kv_transfer_domain;                       // empty: no constraint
  std::string kv_transfer_enforcement;                  // "required" or "preferred"
  std::optional<double> kv_transfer_preferred_weight;   // for "preferred"; finite

  friend bool operator==(const WorkerTopology&, const WorkerTopology&) = default;
};

// Where one rank's engine publishes. Addresses are ZMQ endpoints such as tcp://10.0.0.1:5557.
struct EventEndpoints {
  std::string live;    // PUB socket; empty = this rank has no event feed
  std::string replay;  // ROUTER socket; empty = no replay, gaps drop the rank's blocks

  friend bool operator==(const EventEndpoints&, const EventEndpoints&) = default;
};

// Everything the router is told about a worker. Ranks are [dp_start_rank, dp_start_rank + dp_size).
struct WorkerSpec {
  WorkerId id{};
  Incarnation incarnation{};  // > 0 once registered
  std::string model_name = "default";
  std::string routing_group = "default";
  // Where callers dispatch, e.g. http://10.0.0.1:8000; opaque to us. Empty: there is no such place,
  // the worker is only known for its blocks; it must be draining then.
  std::string address;
  uint32_t block_size_tokens = 0;  // > 0; equal for all workers of a partition
  uint32_t dp_start_rank = 0;
  uint32_t dp_size = 1;  // 1..kMaxDpSize
  WorkerRole role = WorkerRole::kAggregated;
  bool draining = false;                // no new picks; bookings stay
  uint64_t total_kv_blocks = 0;         // per rank; 0 = unknown
  uint64_t max_num_batched_tokens = 0;  // 0 = unknown
  // How the engine names its blocks besides their size (BlockNaming); equal for all workers of a
  // partition, too.
  bool is_eagle = false;
  std::optional<TokenId> image_token_id = std::nullopt;
  std::map<uint32_t, EventEndpoints> events;  // by dp_rank
  // Whom it can exchange blocks with: its connector's role, and the version of engine and layout.
  KvRole kv_role = KvRole::kNone;
  std::string engine_version = {};  // empty: not declared
  // Labels that requests may require or prefer (RoutingConstraints), besides those of its topology.
  std::vector<std::string> taints = {};
  WorkerTopology topology = {};
  // The adapters it serves. Absent: not declared, then LoRA does not narrow; empty: none.
  std::optional<std::vector<std::string>> lora_adapters = std::nullopt;

  friend bool operator==(const WorkerSpec&, const WorkerSpec&) = default;
};

// Whether what one record's engine says of its blocks holds for the other's: same life, same
// partition, same names.
inline bool SameBlocks(const WorkerSpec& a, const WorkerSpec& b) {
  return a.incarnation == b.incarnation && a.model_name == b.model_name &&
         a.routing_group == b.routing_group && a.block_size_tokens == b.block_size_tokens &&
         a.is_eagle == b.is_eagle && a.image_token_id == b.image_token_id;
}

inline constexpr uint32_t kMaxDpSize = 1024;

}  // namespace kvrouter

#endif  // KVROUTER_WORKER_H_
