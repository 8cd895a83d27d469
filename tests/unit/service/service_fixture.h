#ifndef KVROUTER_TESTS_UNIT_SERVICE_SERVICE_FIXTURE_H_
#define KVROUTER_TESTS_UNIT_SERVICE_SERVICE_FIXTURE_H_

#include <gtest/gtest.h>

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "kvrouter/error.h"
#include "kvrouter/router.h"
#include "service/routing_service.h"
#include "service/worker_registry.h"

namespace kvrouter {

inline constexpr uint32_t kBlockTokens = 16;

inline WorkerSpec AWorker(uint64_t id) {
  WorkerSpec spec;
  spec.id = WorkerId{id};
  spec.address = "http://10.0.0." + std::to_string(id) + ":8000";
  spec.block_size_tokens = kBlockTokens;
  return spec;
}

// A real Router with the service around it, in time that stands still until told.
struct Fleet {
  explicit Fleet(int workers = 2, RouterConfig config = {}, ServiceConfig service_config = {})
      : router(config, nullptr), registry(&router), service(service_config, &router, &clock) {
    clock.Set(std::chrono::hours(1));
    for (int id = 1; id <= workers; ++id) {
      EXPECT_TRUE(registry.Register(AWorker(static_cast<uint64_t>(id))).ok());
    }
    for (uint32_t i = 0; i < 160; ++i) tokens.push_back(i);
  }

  RouteRequest ARequest(std::string id) const {
    RouteRequest request;
    request.request_id = std::move(id);
    request.prompt = TokenPrompt{tokens};
    return request;
  }
  RouteRequest AnAdvice() const {
    RouteRequest request = ARequest("");
    request.book = false;
    return request;
  }

  std::vector<TargetLoad> Loads() const {
    std::vector<TargetLoad> loads;
    for (const PartitionSnapshot& partition : router.Snapshot()) {
      loads.insert(loads.end(), partition.loads.begin(), partition.loads.end());
    }
    return loads;
  }
  uint64_t ActiveRequests() const {
    uint64_t sum = 0;
    for (const TargetLoad& load : Loads()) sum += load.active_requests;
    return sum;
  }
  uint64_t ActivePrefillTokens() const {
    uint64_t sum = 0;
    for (const TargetLoad& load : Loads()) sum += load.active_prefill_tokens;
    return sum;
  }
  void ExpectNoLoad() const {
    for (const TargetLoad& load : Loads()) {
      EXPECT_EQ(load.active_requests, 0u);
      EXPECT_EQ(load.active_prefill_tokens, 0u);
      EXPECT_EQ(load.active_decode_blocks, 0.0);
    }
    for (const PartitionSnapshot& partition : router.Snapshot()) EXPECT_EQ(partition.bookings, 0u);
  }

  ManualClock clock;
  Router router;
  WorkerRegistry registry;
  RoutingService service;
  std::vector<TokenId> tokens;
};

}  // namespace kvrouter

#endif  // KVROUTER_TESTS_UNIT_SERVICE_SERVICE_FIXTURE_H_
