#include "sim/virtual/fleet.h"

#include "base/check.h"

namespace kvrouter::sim {

Fleet::Fleet(uint32_t workers, const EngineConfig& engine) : config_(engine) {
  KVR_CHECK(workers > 0, "workers=0");
  engines_.reserve(workers);
  for (uint32_t i = 0; i < workers; ++i) engines_.emplace_back(engine);
}

uint32_t Fleet::Next() const {
  uint32_t next = 0;
  for (uint32_t i = 1; i < size(); ++i) {
    if (engines_[i].NextEventTime() < engines_[next].NextEventTime()) next = i;
  }
  return next;
}

MonotonicTime Fleet::NextEventTime() const { return engines_[Next()].NextEventTime(); }

Fleet::WorkerEvents Fleet::Step() {
  WorkerEvents step{.worker = Next(), .events = {}};
  EngineModel& engine = engines_[step.worker];
  const MonotonicTime at = engine.NextEventTime();
  KVR_CHECK(at != MonotonicTime::max(), "all {} engines are idle", size());
  engine.AdvanceTo(at, &step.events);
  return step;
}

}  // namespace kvrouter::sim
