#ifndef KVROUTER_TESTS_UNIT_DISCOVERY_DISCOVERY_BUILDERS_H_
#define KVROUTER_TESTS_UNIT_DISCOVERY_DISCOVERY_BUILDERS_H_

#include <string>
#include <utility>

#include "adapters/discovery/worker_sources.h"
#include "kvrouter/router.h"
#include "service/worker_registry.h"

namespace kvrouter {

inline DeclaredWorker ADeclared(uint64_t id, std::string life = "") {
  DeclaredWorker worker;
  worker.spec.id = WorkerId{id};
  worker.spec.address = "http://10.0.0." + std::to_string(id) + ":8000";
  worker.spec.block_size_tokens = 16;
  worker.life = std::move(life);
  return worker;
}

// A real registry over a real router, and the sources before it. No thread, no file, no clock.
struct SourcesFixture {
  explicit SourcesFixture(RouterConfig config = {})
      : router(config, nullptr), registry(&router), sources(&registry, &journal) {}

  bool Has(uint64_t id) const { return registry.Find(WorkerId{id}).has_value(); }
  WorkerSpec Get(uint64_t id) const { return registry.Find(WorkerId{id}).value_or(WorkerSpec{}); }

  Router router;
  WorkerRegistry registry;
  DiscoveryJournal journal;
  WorkerSources sources;
};

}  // namespace kvrouter

#endif  // KVROUTER_TESTS_UNIT_DISCOVERY_DISCOVERY_BUILDERS_H_
