#ifndef KVROUTER_TESTS_BENCH_GRPC_BENCH_FLEET_H_
#define KVROUTER_TESTS_BENCH_GRPC_BENCH_FLEET_H_

#include <fmt/format.h>

#include <vector>

#include "adapters/metrics/router_metrics.h"
#include "base/check.h"
#include "base/clock.h"
#include "bench_prompts.h"
#include "kvrouter/router.h"
#include "service/routing_service.h"
#include "service/worker_registry.h"

namespace kvrouter::bench {

// Workers that hold different lengths of both prompts. With DecisionDetail::kWinner nothing is kept
// that could explain a decision later.
struct Fleet {
  RouterMetrics metrics{MetricsConfig()};
  Router router;
  WorkerRegistry registry{&router};
  RoutingService service;

  explicit Fleet(int workers, DecisionDetail detail = DecisionDetail::kFull)
      : router(RouterOf(detail), &metrics), service(ServiceOf(detail), &router, &SteadyClock()) {
    const auto count = static_cast<size_t>(workers);
    for (size_t id = 1; id <= count; ++id) AddWorker(id, count);
  }

  static RouterConfig RouterOf(DecisionDetail detail) {
    RouterConfig config;
    config.decision_detail = detail;
    return config;
  }
  static ServiceConfig ServiceOf(DecisionDetail detail) {
    ServiceConfig config;
    if (detail == DecisionDetail::kWinner) config.decision_ring_entries = 0;
    return config;
  }

  void AddWorker(size_t id, size_t count) {
    WorkerSpec spec;
    spec.id = WorkerId{id};
    spec.address = fmt::format("http://10.0.0.{}:8000", id);
    spec.block_size_tokens = kBlockTokens;
    const auto registered = registry.Register(spec);
    KVR_CHECK(registered.ok(), "worker refused");
    for (const Form form : kForms) {
      const std::vector<LocalBlockHash> local = LocalHashesOf(form);
      const uint64_t first_name = form == Form::kHashes2Kb ? 1 : 1'000'000;
      Stored stored;
      for (size_t i = 0; i < local.size() * id / (2 * count); ++i) {
        stored.blocks.push_back(
            {.engine_hash = EngineHash{first_name + i}, .local_hash = local[i]});
      }
      KvEvent event;
      event.target.worker = spec.id;
      event.incarnation = registered->incarnation;
      event.data = std::move(stored);
      KVR_CHECK(router.Apply(event).status == ApplyStatus::kOk, "blocks refused");
    }
  }
};

}  // namespace kvrouter::bench

#endif  // KVROUTER_TESTS_BENCH_GRPC_BENCH_FLEET_H_
