#ifndef KVROUTER_SIM_VIRTUAL_FLEET_H_
#define KVROUTER_SIM_VIRTUAL_FLEET_H_

#include <cstdint>
#include <vector>

#include "sim/model/engine_model.h"

namespace kvrouter::sim {

// Equal engines, numbered from 0, that share one virtual time. Thread-compatible.
class Fleet {
 public:
  struct WorkerEvents {
    uint32_t worker = 0;
    std::vector<EngineEvent> events;
  };

  // REQUIRES: workers > 0.
  Fleet(uint32_t workers, const EngineConfig& engine);

  uint32_t size() const { return static_cast<uint32_t>(engines_.size()); }
  const EngineConfig& config() const { return config_; }
  EngineModel& engine(uint32_t worker) { return engines_[worker]; }
  const EngineModel& engine(uint32_t worker) const { return engines_[worker]; }

  // MonotonicTime::max() when all are idle.
  MonotonicTime NextEventTime() const;
  // Runs the first worker that has something to do at NextEventTime(), to that time. REQUIRES: not
  // all are idle.
  WorkerEvents Step();

 private:
  uint32_t Next() const;

  EngineConfig config_;
  std::vector<EngineModel> engines_;
};

}  // namespace kvrouter::sim

#endif  // KVROUTER_SIM_VIRTUAL_FLEET_H_
