#ifndef KVROUTER_SIM_WIRE_ENGINE_METRICS_H_
#define KVROUTER_SIM_WIRE_ENGINE_METRICS_H_

#include <cstdint>
#include <string>

#include "sim/model/engine_model.h"
#include "sim/wire/event_publisher.h"
#include "sim/wire/kv_pins.h"

namespace kvrouter::sim {

// What an engine fetched from others.
struct KvConsumerTotals {
  uint64_t pulls = 0;
  uint64_t blocks = 0;
  uint64_t failures = 0;
  uint64_t handshakes_incomplete = 0;
};

// What an engine tells on /metrics, taken between two steps of its model.
struct EngineSnapshot {
  EngineTotals totals;
  EngineGauges gauges;
  uint64_t capacity_blocks = 0;  // 0 = unlimited: usage is 0
  uint32_t block_size_tokens = 0;
  uint64_t requests_refused = 0;
  uint64_t pinned_requests = 0;
  uint64_t pinned_blocks = 0;
  KvPinTotals pins;
  KvConsumerTotals consumed;
};

// Prometheus text, format 0.0.4: vLLM's names and labels, and those of the simulation with the
// prefix kvrouter_sim_.
std::string EngineMetricsText(const EngineSnapshot& snapshot, const PublisherCounters& events,
                              const std::string& model_name, uint32_t dp_rank);

}  // namespace kvrouter::sim

#endif  // KVROUTER_SIM_WIRE_ENGINE_METRICS_H_
