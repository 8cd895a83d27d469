#ifndef KVROUTER_TESTS_INTEGRATION_DOORS_DOOR_LEGS_H_
#define KVROUTER_TESTS_INTEGRATION_DOORS_DOOR_LEGS_H_

#include <algorithm>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "adapters/metrics/router_metrics.h"
#include "kvrouter/router.h"

namespace kvrouter {

// One history, driven through the library itself, through gRPC and through HTTP. Each leg is a
// whole router of the same configuration and seed; a leg says what happened in the same words as
// the others.

struct LegRequest {
  std::string id;
  std::vector<TokenId> tokens;
  std::string lora_name;
  std::string cache_salt;
  bool book = true;
  std::optional<TargetSelector> pinned;
  std::optional<std::vector<WorkerId>> allowed;
  std::optional<double> temperature;
  std::optional<double> credit;
  std::optional<bool> track_prefill;
  std::optional<uint64_t> expected_output_tokens;
};

class FleetLeg {
 public:
  FleetLeg();
  virtual ~FleetLeg() = default;

  virtual const char* Name() const = 0;
  virtual void AddWorker(const WorkerSpec& spec) = 0;
  virtual void Drain(WorkerId id) = 0;
  virtual void Remove(WorkerId id) = 0;
  // The decision in words: place, reason, figures, every candidate's cost; or "error: …".
  virtual std::string Route(const LegRequest& request) = 0;
  virtual bool PrefillComplete(const std::string& id) = 0;
  virtual bool OutputBlock(const std::string& id, std::optional<double> decay_fraction) = 0;
  virtual void Free(const std::string& id) = 0;

  // Events come from engines, below all doors.
  void Apply(const KvEvent& event) { router_.Apply(event); }
  std::vector<PartitionSnapshot> Loads() const { return router_.Snapshot(); }
  std::string MetricsText() const { return metrics_.Text(); }

 protected:
  RouterMetrics metrics_;
  Router router_;
};

std::unique_ptr<FleetLeg> LibraryLeg();
std::unique_ptr<FleetLeg> GrpcLeg();
std::unique_ptr<FleetLeg> HttpLeg();

}  // namespace kvrouter

#endif  // KVROUTER_TESTS_INTEGRATION_DOORS_DOOR_LEGS_H_
