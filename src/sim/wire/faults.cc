#include "sim/wire/faults.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "base/status_macros.h"

namespace kvrouter::sim {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::pair<std::string_view, FaultKind> kKinds[] = {
    {"stall_before_head", FaultKind::kStallBeforeHead},
    {"stall_mid_stream", FaultKind::kStallMidStream},
    {"cut_before_head", FaultKind::kCutBeforeHead},
    {"cut_mid_stream", FaultKind::kCutMidStream},
    {"http_500", FaultKind::kHttp500},
    {"http_429", FaultKind::kHttp429},
    {"wrong_handshake", FaultKind::kWrongHandshake},
    {"no_handshake", FaultKind::kNoHandshake},
    {"slow_handshake", FaultKind::kSlowHandshake},
    {"restart", FaultKind::kRestart}};
constexpr std::pair<std::string_view, FaultLeg> kLegs[] = {{"any", FaultLeg::kAny},
                                                           {"producer", FaultLeg::kProducer},
                                                           {"consumer", FaultLeg::kConsumer},
                                                           {"plain", FaultLeg::kPlain}};

absl::Status Bad(std::string message) { return absl::InvalidArgumentError(std::move(message)); }

template <typename Value, size_t kCount>
absl::Status ReadName(const Json& json, const char* member,
                      const std::pair<std::string_view, Value> (&names)[kCount], Value* value) {
  const std::string wanted = json[member].is_string() ? json[member].get<std::string>() : "";
  for (const auto& [name, meaning] : names) {
    if (name != wanted) continue;
    *value = meaning;
    return absl::OkStatus();
  }
  return Bad(fmt::format("{}: '{}' is not known", member, wanted));
}

absl::Status ReadNumber(const Json& json, const char* member, uint64_t least, uint64_t* number) {
  if (!json.contains(member)) return absl::OkStatus();
  if (!json[member].is_number_unsigned() || json[member].get<uint64_t>() < least) {
    return Bad(fmt::format("{}: must be a number from {}", member, least));
  }
  *number = json[member].get<uint64_t>();
  return absl::OkStatus();
}

bool Matches(const FaultRule& rule, std::string_view path, FaultLeg leg) {
  if (rule.leg != FaultLeg::kAny && rule.leg != leg) return false;
  if (!rule.path.empty()) return rule.path == path;
  return path == "/v1/completions" || path == "/v1/chat/completions";
}

}  // namespace

absl::StatusOr<FaultRule> ParseFaultRule(const Json& json) {
  if (!json.is_object()) return Bad("body: not a JSON object");
  if (!json.contains("kind")) return Bad("kind: missing");
  FaultRule rule;
  KVR_RETURN_IF_ERROR(ReadName(json, "kind", kKinds, &rule.kind));
  if (rule.kind == FaultKind::kSlowHandshake) rule.path = "/kv_pull";
  if (rule.kind == FaultKind::kNoHandshake || rule.kind == FaultKind::kWrongHandshake) {
    rule.leg = FaultLeg::kProducer;
  }
  if (json.contains("leg")) KVR_RETURN_IF_ERROR(ReadName(json, "leg", kLegs, &rule.leg));
  if (json.contains("path")) {
    if (!json["path"].is_string()) return Bad("path: must be a text");
    rule.path = json["path"].get<std::string>();
  }
  uint64_t every = 1, delay_ms = 1000;
  KVR_RETURN_IF_ERROR(ReadNumber(json, "next", 1, &rule.left));
  KVR_RETURN_IF_ERROR(ReadNumber(json, "every", 1, &every));
  KVR_RETURN_IF_ERROR(ReadNumber(json, "pieces", 0, &rule.pieces));
  KVR_RETURN_IF_ERROR(ReadNumber(json, "delay_ms", 0, &delay_ms));
  rule.skip = every - 1;
  rule.delay = std::chrono::milliseconds(delay_ms);
  return rule;
}

bool Faults::Add(FaultRule rule) {
  MutexLock lock(mu_);
  if (rules_.size() >= kMaxRules) return false;
  rules_.push_back(std::move(rule));
  return true;
}

void Faults::Clear() {
  MutexLock lock(mu_);
  rules_.clear();
}

std::optional<FaultRule> Faults::Take(std::string_view path, FaultLeg leg) {
  MutexLock lock(mu_);
  for (auto rule = rules_.begin(); rule != rules_.end(); ++rule) {
    if (!Matches(*rule, path, leg)) continue;
    if (++rule->seen <= rule->skip) continue;
    rule->seen = 0;
    ++taken_;
    const FaultRule hit = *rule;
    if (rule->left > 0 && --rule->left == 0) rules_.erase(rule);
    return hit;
  }
  return std::nullopt;
}

uint64_t Faults::taken() const {
  MutexLock lock(mu_);
  return taken_;
}

}  // namespace kvrouter::sim
