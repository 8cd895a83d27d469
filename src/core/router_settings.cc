#include "core/router_settings.h"

#include <chrono>
#include <utility>

#include "base/status_macros.h"
#include "kvrouter/error.h"

namespace kvrouter {
namespace {

// What may differ between two versions.
void TakeChangeable(const RouterConfig& from, RouterConfig* to) {
  to->scheduler.weights = from.scheduler.weights;
  to->scheduler.router_temperature = from.scheduler.router_temperature;
  to->scheduler.track_active_blocks = from.scheduler.track_active_blocks;
  to->scheduler.assume_kv_reuse = from.scheduler.assume_kv_reuse;
  to->scheduler.track_prefill_tokens = from.scheduler.track_prefill_tokens;
  to->scheduler.overload = from.scheduler.overload;
  to->scheduler.queue = from.scheduler.queue;
  to->scheduler.outlier_ejection = from.scheduler.outlier_ejection;
  to->decision_detail = from.decision_detail;
  const bool local_continuations = to->gate.length.local_continuations;  // has a memory
  const std::chrono::seconds window = to->gate.length.continuation_window;
  to->gate = from.gate;
  to->gate.length.local_continuations = local_continuations;
  to->gate.length.continuation_window = window;
  to->migration = from.migration;
  to->strict_disaggregation = from.strict_disaggregation;
  to->kv_source_timeout = from.kv_source_timeout;
  to->max_index_blocks = from.max_index_blocks;
  to->shadow = from.shadow;
}

absl::Status Refused(std::string_view message) {
  return MakeError(absl::StatusCode::kFailedPrecondition, ErrorReason::kInvalidRequest, message);
}

}  // namespace

absl::StatusOr<uint64_t> RouterSettings::Change(const RouterConfig& config,
                                                const std::function<void()>& before_published) {
  KVR_RETURN_IF_ERROR(Validate(config));
  MutexLock lock(change_mu_);
  const auto before = current_.Load();
  if (config == before->config) return before->generation;
  RouterConfig same_elsewhere = before->config;
  TakeChangeable(config, &same_elsewhere);
  if (same_elsewhere != config) {
    return Refused(
        "only weights, temperature, what is tracked besides output, kv reuse, overload thresholds, "
        "queue, ejection, the gate, migration, decision detail, the shadow policy and "
        "max_index_blocks can change while the router runs");
  }
  // Without credit no overlap is looked for: another index.
  const double credit = before->config.scheduler.weights.overlap_score_credit;
  if ((credit == 0) != (config.scheduler.weights.overlap_score_credit == 0)) {
    return Refused("overlap_score_credit cannot become or cease to be 0 while the router runs");
  }
  before_published();
  current_.Publish(std::make_shared<const Version>(Version{config, before->generation + 1}));
  return before->generation + 1;
}

}  // namespace kvrouter
