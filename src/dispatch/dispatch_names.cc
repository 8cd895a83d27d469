#include <array>
#include <cstddef>

#include "dispatch/dispatch_observer.h"

namespace kvrouter {
namespace {

constexpr std::array<std::string_view, kDispatchOutcomeCount> kOutcomes = {
    "success", "rejected", "engine_refused", "failed", "deadline", "client_gone", "shutting_down"};
static_assert(kOutcomes.size() == static_cast<size_t>(DispatchOutcome::kShuttingDown) + 1);

constexpr std::array<std::string_view, kLegResultCount> kResults = {
    "succeeded", "refused",       "server_error", "unreachable", "timed_out",
    "cut",       "bad_handshake", "not_sent",     "cancelled"};
static_assert(kResults.size() == static_cast<size_t>(LegResult::kCancelled) + 1);

constexpr std::array<std::string_view, kDispatchFallbackCount> kFallbacks = {
    "not_tokenized",      "prefill_failed",  "source_failed",   "handshake_missing",
    "handshake_invalid",  "handshake_local", "lease_over",      "producer_replaced",
    "prompts_may_differ", "decode_refused",  "consumer_failed", "retried_elsewhere",
    "usage_refused"};
static_assert(kFallbacks.size() == static_cast<size_t>(DispatchFallback::kUsageRefused) + 1);

constexpr std::array<std::string_view, kOutgrownHoldCount> kHolds = {
    "reply", "stream_head", "first_event", "error", "producer"};
static_assert(kHolds.size() == static_cast<size_t>(OutgrownHold::kProducer) + 1);

constexpr std::array<std::string_view, kTokenizeOutcomeCount> kTokenize = {
    "cached",     "shared",       "engine",     "timed_out", "failed",  "refused",
    "bad_answer", "breaker_open", "over_limit", "no_worker", "disabled"};
static_assert(kTokenize.size() == static_cast<size_t>(TokenizeOutcome::kDisabled) + 1);

}  // namespace

std::string_view DispatchOutcomeName(DispatchOutcome outcome) {
  return kOutcomes[static_cast<size_t>(outcome)];
}
std::string_view LegResultName(LegResult result) { return kResults[static_cast<size_t>(result)]; }
std::string_view DispatchFallbackName(DispatchFallback fallback) {
  return kFallbacks[static_cast<size_t>(fallback)];
}
std::string_view OutgrownHoldName(OutgrownHold hold) { return kHolds[static_cast<size_t>(hold)]; }
std::string_view TokenizeOutcomeName(TokenizeOutcome outcome) {
  return kTokenize[static_cast<size_t>(outcome)];
}

}  // namespace kvrouter
