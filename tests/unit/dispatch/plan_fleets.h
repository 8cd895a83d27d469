#ifndef KVROUTER_TESTS_UNIT_DISPATCH_PLAN_FLEETS_H_
#define KVROUTER_TESTS_UNIT_DISPATCH_PLAN_FLEETS_H_

#include <memory>
#include <string>
#include <vector>

#include "dispatch_fleet.h"

namespace kvrouter {

// Fleets in which a prompt of 160 tokens gets a plan of the wanted kind.

inline constexpr size_t kPromptTokens = 160;

inline FleetOptions QuickOptions() {
  FleetOptions options;
  options.dispatch.total_timeout = std::chrono::seconds(60);
  options.dispatch.head_timeout = std::chrono::seconds(5);
  options.dispatch.idle_timeout = std::chrono::seconds(9);
  options.dispatch.prefill_timeout = std::chrono::seconds(12);
  options.dispatch.handshake_lease = std::chrono::seconds(5);
  options.router.kv_source_timeout = std::chrono::seconds(10);
  return options;
}

// Three workers that do all by themselves.
inline std::unique_ptr<DispatchFleet> LocalFleet(const FleetOptions& options = QuickOptions()) {
  auto fleet = std::make_unique<DispatchFleet>(options);
  for (const uint64_t id : {1, 2, 3}) fleet->AddEngine(id);
  return fleet;
}

// Prefill workers 1 and 2, decode workers 11 to 13; every prompt is computed remotely.
inline std::unique_ptr<DispatchFleet> PrefillFleet(const FleetOptions& options = QuickOptions()) {
  auto fleet = std::make_unique<DispatchFleet>(options);
  for (const uint64_t id : {1, 2}) fleet->AddEngine(id, WorkerRole::kPrefill);
  for (const uint64_t id : {11, 12, 13}) fleet->AddEngine(id, WorkerRole::kDecode);
  return fleet;
}

// Worker 1 holds the prompt and is busy, so that another one pulls its blocks.
inline std::unique_ptr<DispatchFleet> MigrationFleet(FleetOptions options = QuickOptions()) {
  options.router.migration.mode = MigrationMode::kMigrate;
  options.router.migration.min_tokens = 64;
  options.router.scheduler.weights.overlap_score_credit = 0.01;
  auto fleet = std::make_unique<DispatchFleet>(options);
  for (const uint64_t id : {1, 2, 3}) fleet->AddEngine(id);
  fleet->Cache(1, Ids(kPromptTokens));
  const auto other = Ids(4000, 100'000);
  RouteRequest load;
  load.model_name = "m";
  load.request_id = "load";
  load.prompt = TokenPrompt{other};
  load.pinned = TargetSelector{.worker = WorkerId{1}};
  EXPECT_TRUE(fleet->service.Route(load).ok());
  return fleet;
}
inline void EndLoad(DispatchFleet* fleet) { (void)fleet->service.Free("load"); }

}  // namespace kvrouter

#endif  // KVROUTER_TESTS_UNIT_DISPATCH_PLAN_FLEETS_H_
