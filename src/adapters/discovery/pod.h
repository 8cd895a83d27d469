#ifndef KVROUTER_ADAPTERS_DISCOVERY_POD_H_
#define KVROUTER_ADAPTERS_DISCOVERY_POD_H_

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "kvrouter/worker.h"

namespace kvrouter {

// What of a Kubernetes pod matters here.
struct Pod {
  std::string name;
  std::string uid;
  std::string life;          // uid and restarts of the engine's container: one process
  bool has_address = false;  // a finished or unscheduled pod has none: the address may be another's
  bool ready = false;        // condition Ready
  bool terminating = false;
  // As labels and annotations say it; the address is the pod's own. An error names the annotation.
  // Only with an address.
  absl::StatusOr<WorkerSpec> spec = WorkerSpec{};
  std::string outdated;  // why `spec` is of an earlier version of the pod; empty: it is not
};

// What annotations leave open.
struct PodDefaults {
  uint32_t block_size_tokens = 0;  // 0: each pod must say
  bool may_be_learned = false;     // or its engine, likewise for an empty model name
};

// Reads a core/v1 Pod. Annotations begin with kvrouter.io/, a label of the same name does as well
// (the annotation is stronger); docs/kubernetes.md lists them.
// Error: no object with a name and a uid.
absl::StatusOr<Pod> ReadPod(const nlohmann::json& object, const PodDefaults& defaults);

// What of a discovery.k8s.io/v1 EndpointSlice matters here.
struct EndpointSlice {
  struct Endpoint {
    std::string pod_name;
    std::string pod_uid;  // empty: not said
    bool ready = true;
    bool terminating = false;
  };
  std::string name;
  std::vector<Endpoint> endpoints;  // those that are pods
};

absl::StatusOr<EndpointSlice> ReadEndpointSlice(const nlohmann::json& object);

}  // namespace kvrouter

#endif  // KVROUTER_ADAPTERS_DISCOVERY_POD_H_
