#ifndef KVROUTER_ADAPTERS_DISCOVERY_KUBERNETES_DISCOVERY_H_
#define KVROUTER_ADAPTERS_DISCOVERY_KUBERNETES_DISCOVERY_H_

#include <array>
#include <chrono>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "adapters/discovery/discovery_journal.h"
#include "adapters/discovery/pod_fleet.h"
#include "adapters/discovery/worker_sources.h"
#include "base/mutex.h"

namespace kvrouter {

struct KubernetesConfig {
  std::string backend = "none";  // "kubernetes" turns it on; "none" and "mem" mean the same
  std::string api_server;        // an Origin; empty: the cluster that the process runs in
  std::string pod_namespace;     // empty: that of the service account, else "default"
  std::string pod_selector = "kvrouter.io/worker=true";
  std::string slice_selector = "kvrouter.io/worker=true";  // empty: slices are not asked for
  std::string token_file = "/var/run/secrets/kubernetes.io/serviceaccount/token";
  std::string ca_file = "/var/run/secrets/kubernetes.io/serviceaccount/ca.crt";
  std::string namespace_file = "/var/run/secrets/kubernetes.io/serviceaccount/namespace";
  uint32_t block_size_tokens = 0;  // of pods that do not say theirs; 0: they must, or their engines
  std::chrono::milliseconds request_timeout{10000};
  std::chrono::seconds watch_timeout{300};
  std::chrono::milliseconds backoff_max{30000};
  bool may_be_learned = false;  // what a pod leaves open (WorkerSources::Learn)

  bool Enabled() const { return backend == "kubernetes"; }
};

// The workers of a Kubernetes namespace, followed through its API: pods and EndpointSlices, each
// listed and watched by a thread of its own, put together by PodFleet and handed to WorkerSources
// after every change. While the API server is away the set it told last stays in force.
//
// Thread safety: Start and Stop from one thread. One mutex around the fleet, held while the sources
// are told, so that they hear of changes in order.
class KubernetesDiscovery {
 public:
  KubernetesDiscovery(KubernetesConfig config, WorkerSources* sources, DiscoveryJournal* journal);
  ~KubernetesDiscovery();

  // An error of the configuration only: an API server that does not answer is waited for.
  absl::Status Start();
  void Stop();

 private:
  class Follower;
  enum Kind : uint8_t { kPods, kSlices };

  void Publish();
  void SetCurrent(Kind kind, bool current);
  void PublishLocked() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  void NoteProblemsLocked(std::vector<PodFleet::Problem> problems)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);

  const KubernetesConfig config_;
  WorkerSources* const sources_;
  DiscoveryJournal* const journal_;
  Mutex mu_;
  PodFleet fleet_ ABSL_GUARDED_BY(mu_);
  std::vector<PodFleet::Problem> problems_ ABSL_GUARDED_BY(mu_);  // already in the journal
  std::array<bool, 2> current_ ABSL_GUARDED_BY(mu_) = {false, false};
  std::vector<std::unique_ptr<Follower>> followers_;
};

}  // namespace kvrouter

#endif  // KVROUTER_ADAPTERS_DISCOVERY_KUBERNETES_DISCOVERY_H_
