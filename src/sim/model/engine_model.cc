#include "sim/model/engine_model.h"

#include <utility>

#include "base/check.h"
#include "sim/model/engine_service.h"

namespace kvrouter::sim {
namespace {

std::unique_ptr<EngineService> MakeService(const EngineConfig& config) {
  KVR_CHECK(config.block_size_tokens > 0, "block_size_tokens=0");
  KVR_CHECK(config.prefill_tokens_per_s > 0, "prefill_tokens_per_s={}",
            config.prefill_tokens_per_s);
  KVR_CHECK(config.inter_token.count() >= 0, "inter_token={}us", config.inter_token.count());
  KVR_CHECK(config.transfer_per_block.count() >= 0, "transfer_per_block={}us",
            config.transfer_per_block.count());
  switch (config.service) {
    case EngineConfig::Service::kFifoPrefill:
      return MakeFifoPrefill(config);
    case EngineConfig::Service::kContinuousBatching:
      KVR_CHECK(config.token_budget_per_step > 0 && config.max_running > 0,
                "token_budget_per_step={} max_running={}", config.token_budget_per_step,
                config.max_running);
      return MakeContinuousBatching(config);
  }
  KVR_CHECK(false, "service={}", static_cast<int>(config.service));
}

}  // namespace

EngineModel::EngineModel(EngineConfig config) : service_(MakeService(config)) {}
EngineModel::~EngineModel() = default;
EngineModel::EngineModel(EngineModel&&) noexcept = default;
EngineModel& EngineModel::operator=(EngineModel&&) noexcept = default;

void EngineModel::Submit(EngineRequest request, MonotonicTime now) {
  service_->Submit(std::move(request), now);
}

void EngineModel::Abort(uint64_t id, MonotonicTime now) { service_->Abort(id, now); }

std::span<const uint32_t> EngineModel::HeldBlocks(uint64_t id) const {
  return service_->HeldBlocks(id);
}

void EngineModel::ReleaseHeld(uint64_t id, MonotonicTime now) { service_->ReleaseHeld(id, now); }

MonotonicTime EngineModel::NextEventTime() const { return service_->NextEventTime(); }

void EngineModel::AdvanceTo(MonotonicTime now, std::vector<EngineEvent>* out) {
  service_->AdvanceTo(now, out);
}

bool EngineModel::ResetPrefixCache() { return service_->ResetPrefixCache(); }

const EngineTotals& EngineModel::Totals() const { return service_->Totals(); }

EngineGauges EngineModel::Gauges() const { return service_->Gauges(); }

uint64_t EngineModel::CachedPrefixBlocks(std::span<const EngineHash> block_hashes) const {
  return service_->CachedPrefixBlocks(block_hashes);
}

}  // namespace kvrouter::sim
