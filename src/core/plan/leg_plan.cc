#include "core/plan/leg_plan.h"

#include <fmt/format.h>

#include <array>
#include <cstddef>
#include <utility>

#include "base/check.h"
#include "kvrouter/error.h"

namespace kvrouter {
namespace {

constexpr std::array<std::string_view, 4> kKindNames = {"serve", "prefill", "kv_source", "decode"};
static_assert(kKindNames.size() == static_cast<size_t>(LegKind::kDecode) + 1);

constexpr std::array<std::string_view, 4> kFallbackNames = {"retry_elsewhere", "serve_locally",
                                                            "recompute", "fail"};
static_assert(kFallbackNames.size() == static_cast<size_t>(LegFallback::kFail) + 1);

Leg LastLeg(LegKind kind, std::string_view request_id, std::optional<LegTarget> where) {
  Leg leg;
  leg.kind = kind;
  leg.where = std::move(where);
  leg.request_id = request_id;
  return leg;
}

Leg PrefillLeg(const LegPlanConfig& config, std::string_view request_id, LegTarget where) {
  Leg leg;
  leg.kind = LegKind::kPrefill;
  leg.where = std::move(where);
  leg.request_id = request_id;
  leg.max_tokens = 1;
  leg.fallback = config.strict_disaggregation ? LegFallback::kFail : LegFallback::kServeLocally;
  return leg;
}

}  // namespace

std::string_view LegKindName(LegKind kind) { return kKindNames[static_cast<size_t>(kind)]; }

std::string_view LegFallbackName(LegFallback fallback) {
  return kFallbackNames[static_cast<size_t>(fallback)];
}

LegPlan LocalPlan(const LegPlanConfig& config, std::string_view request_id, LegTarget target,
                  MonotonicTime now) {
  LegPlan plan;
  plan.legs.push_back(LastLeg(LegKind::kServe, request_id, std::move(target)));
  plan.lease_deadline = now + config.lease;
  plan.lease = config.lease;
  return plan;
}

LegPlan SingleLegPlan(const LegPlanConfig& config, std::string_view request_id, RequestPhase phase,
                      LegTarget target, MonotonicTime now) {
  KVR_CHECK(phase != RequestPhase::kWhole, "a whole request is no leg of another");
  LegPlan plan;
  plan.legs.push_back(phase == RequestPhase::kPrefill
                          ? PrefillLeg(config, request_id, std::move(target))
                          : LastLeg(LegKind::kDecode, request_id, std::move(target)));
  plan.lease_deadline = now + config.lease;
  plan.lease = config.lease;
  return plan;
}

LegPlan RemotePlan(const LegPlanConfig& config, std::string_view request_id, LegTarget prefill,
                   std::optional<LegTarget> decode, MonotonicTime now) {
  LegPlan plan;
  plan.legs.push_back(PrefillLeg(config, request_id, std::move(prefill)));
  plan.legs.push_back(LastLeg(LegKind::kDecode, request_id, std::move(decode)));
  plan.lease_deadline = now + config.lease;
  plan.lease = config.lease;
  return plan;
}

LegPlan MigratePlan(const LegPlanConfig& config, std::string_view request_id, LegTarget source,
                    LegTarget target, MonotonicTime now) {
  Leg first;
  first.kind = LegKind::kKvSource;
  first.where = std::move(source);
  first.request_id = fmt::format("{}-kvmig", request_id);
  first.max_tokens = 1;
  first.kv_migration_source = true;
  first.fallback = LegFallback::kRecompute;
  first.timeout = config.kv_source_timeout;
  LegPlan plan;
  plan.legs.push_back(std::move(first));
  plan.legs.push_back(LastLeg(LegKind::kServe, request_id, std::move(target)));
  plan.lease_deadline = now + config.lease;
  plan.lease = config.lease;
  return plan;
}

LegFallback FallbackOn(const Leg& leg, absl::StatusCode error) {
  KVR_CHECK(error != absl::StatusCode::kOk, "a leg that went well has no fallback");
  const bool passed_on =
      leg.kind == LegKind::kPrefill && error == absl::StatusCode::kResourceExhausted;
  return passed_on ? LegFallback::kFail : leg.fallback;
}

absl::Status ErrorOfFailedLeg(const Leg& leg, const absl::Status& error) {
  if (error.code() == absl::StatusCode::kResourceExhausted) return error;
  const auto message = error.message();
  return MakeError(absl::StatusCode::kUnavailable, ErrorReasonOf(error),
                   fmt::format("{} leg failed: {}", LegKindName(leg.kind),
                               std::string_view(message.data(), message.size())));
}

}  // namespace kvrouter
