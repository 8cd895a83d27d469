#ifndef KVROUTER_ADAPTERS_DISCOVERY_POD_FLEET_H_
#define KVROUTER_ADAPTERS_DISCOVERY_POD_FLEET_H_

#include <cstddef>
#include <map>
#include <string>
#include <vector>

#include "adapters/discovery/pod.h"
#include "adapters/discovery/watched_resource.h"
#include "adapters/discovery/worker_sources.h"

namespace kvrouter {

// Pods and EndpointSlices as the API server last told them, and the workers that follow. A worker
// is a pod that has an address and that some slice names (by name and uid: a slice may still speak
// of a pod that had the name before). It takes new requests while the pod is ready, a slice calls
// it ready, and nobody is ending it; else it drains: its cache and its bookings stay known.
//
// A list that is read again replaces the old one when it is whole, so in between nothing is
// missing. A pod whose annotations become wrong while it runs keeps its last good record.
//
// Pure; thread-compatible. Bound: kMaxObjects pods and slices each; more is an error of the list.
class PodFleet {
 public:
  static constexpr size_t kMaxObjects = 65536;

  // Without slices the pods' own readiness decides.
  PodFleet(PodDefaults defaults, bool with_slices);

  WatchedResource* pods() { return &pods_; }
  WatchedResource* slices() { return &slices_; }

  // Both lists have been read at least once. Before that there is nothing to say.
  bool IsComplete() const { return pods_.listed && (!with_slices_ || slices_.listed); }

  struct Problem {
    std::string pod;
    std::string what;
    friend bool operator==(const Problem&, const Problem&) = default;
  };
  struct View {
    std::vector<DeclaredWorker> workers;  // ascending worker id, each id once
    std::vector<Problem> problems;  // pods that are no workers, or no longer as they say, and why
  };
  View Workers() const;

 private:
  struct Pods : WatchedResource {
    void BeginList() override { incoming.clear(); }
    absl::Status AddListed(const nlohmann::json& object) override;
    void CommitList() override;
    absl::Status Upsert(const nlohmann::json& object) override;
    void Remove(const std::string& name) override { by_name.erase(name); }
    Pod KeepLastGood(Pod pod) const;

    PodDefaults defaults;
    bool listed = false;
    std::map<std::string, Pod> by_name;
    std::map<std::string, Pod> incoming;
  };
  struct Slices : WatchedResource {
    void BeginList() override { incoming.clear(); }
    absl::Status AddListed(const nlohmann::json& object) override;
    void CommitList() override;
    absl::Status Upsert(const nlohmann::json& object) override;
    void Remove(const std::string& name) override { by_name.erase(name); }

    bool listed = false;
    std::map<std::string, EndpointSlice> by_name;
    std::map<std::string, EndpointSlice> incoming;
  };

  const bool with_slices_;
  Pods pods_;
  Slices slices_;
};

}  // namespace kvrouter

#endif  // KVROUTER_ADAPTERS_DISCOVERY_POD_FLEET_H_
