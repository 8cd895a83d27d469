#include "core/affinity/pin_choice.h"

#include <fmt/format.h>

#include <cmath>
#include <string_view>

#include "base/status_macros.h"
#include "kvrouter/error.h"

namespace kvrouter {
namespace {

absl::Status CheckAtLeast(std::string_view field, double value, double min) {
  if (std::isfinite(value) && value >= min) return absl::OkStatus();
  return MakeError(absl::StatusCode::kInvalidArgument, ErrorReason::kInvalidRequest,
                   fmt::format("{} must be finite and >= {}, got {}", field, min, value));
}

}  // namespace

uint64_t RendezvousHash(SessionKey session, const Target& target) {
  const uint64_t worker_hash =
      MixBits(static_cast<uint64_t>(session) ^ MixBits(static_cast<uint64_t>(target.worker) + 1));
  return MixBits(worker_hash + target.dp_rank);
}

std::optional<Target> RendezvousTarget(SessionKey session, std::span<const Target> targets) {
  std::optional<Target> best;
  uint64_t best_hash = 0;
  for (const Target& target : targets) {
    const uint64_t hash = RendezvousHash(session, target);
    if (!best || hash >= best_hash) {
      best = target;
      best_hash = hash;
    }
  }
  return best;
}

absl::Status Validate(const SoftPin& pin) {
  KVR_RETURN_IF_ERROR(CheckAtLeast("soft_pin.max_cost_factor", pin.max_cost_factor, 1));
  return CheckAtLeast("soft_pin.max_extra_cost_blocks", pin.max_extra_cost_blocks, 0);
}

bool KeepsPin(double pinned_cost_blocks, double lowest_cost_blocks, const SoftPin& pin) {
  return pinned_cost_blocks <= lowest_cost_blocks * pin.max_cost_factor + pin.max_extra_cost_blocks;
}

}  // namespace kvrouter
