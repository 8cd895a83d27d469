#ifndef KVROUTER_SIM_MODEL_ENGINE_SERVICE_H_
#define KVROUTER_SIM_MODEL_ENGINE_SERVICE_H_

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "sim/model/engine_model.h"

namespace kvrouter::sim {

// One service model behind EngineModel, with the meaning of its methods. Thread-compatible.
class EngineService {
 public:
  virtual ~EngineService() = default;
  virtual void Submit(EngineRequest request, MonotonicTime now) = 0;
  virtual void Abort(uint64_t id, MonotonicTime now) = 0;
  virtual std::span<const uint32_t> HeldBlocks(uint64_t id) const = 0;
  virtual void ReleaseHeld(uint64_t id, MonotonicTime now) = 0;
  virtual MonotonicTime NextEventTime() const = 0;
  virtual void AdvanceTo(MonotonicTime now, std::vector<EngineEvent>* out) = 0;
  virtual bool ResetPrefixCache() = 0;
  virtual const EngineTotals& Totals() const = 0;
  virtual EngineGauges Gauges() const = 0;
  virtual uint64_t CachedPrefixBlocks(std::span<const EngineHash> block_hashes) const = 0;
};

std::unique_ptr<EngineService> MakeFifoPrefill(const EngineConfig& config);
std::unique_ptr<EngineService> MakeContinuousBatching(const EngineConfig& config);

// How long the prefill server needs for `tokens`.
inline MonotonicTime PrefillTime(const EngineConfig& config, uint64_t tokens) {
  return MonotonicTime(
      static_cast<int64_t>(static_cast<double>(tokens) * 1e9 / config.prefill_tokens_per_s + 0.5));
}

// Leading blocks that the engine's own counters may call a hit: vLLM always computes the last
// prompt token.
inline uint64_t MaxCountedHitBlocks(uint64_t isl_tokens, uint32_t block_size_tokens) {
  return isl_tokens == 0 ? 0 : (isl_tokens - 1) / block_size_tokens;
}

}  // namespace kvrouter::sim

#endif  // KVROUTER_SIM_MODEL_ENGINE_SERVICE_H_
