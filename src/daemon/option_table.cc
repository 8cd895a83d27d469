#include "daemon/option_table.h"

#include <algorithm>
#include <array>

#include "daemon/option_areas.h"

namespace kvrouter {
namespace {

// What a request reads anew each time, queue and ejection (core/router_settings.h and
// dispatch/dispatch_settings.h take over the same), and the log's level. Everything else is in
// parts that were built from it.
bool IsReloadable(std::string_view name) {
  static constexpr std::array<std::string_view, 62> kNames = {
      "log-level",
      "router-kv-overlap-score-credit",
      "router-kv-overlap-score-credit-decay",
      "router-prefill-load-scale",
      "router-decode-active-request-weight",
      "router-host-cache-hit-weight",
      "router-disk-cache-hit-weight",
      "shared-cache-multiplier",
      "router-temperature",
      "router-track-active-blocks",
      "router-assume-kv-reuse",
      "router-track-prefill-tokens",
      "active-decode-blocks-threshold",
      "active-prefill-tokens-threshold",
      "active-prefill-tokens-threshold-frac",
      "router-queue-threshold",
      "router-queue-policy",
      "router-policy-config",
      "router-overlap-refresh-after-secs",
      "max-waiting-requests",
      "outlier-consecutive-failures",
      "outlier-fast-failure-ms",
      "outlier-base-secs",
      "outlier-max-secs",
      "outlier-max-ejected-share",
      "decision-detail",
      "shadow-policy",
      "min-remote-prefill-tokens",
      "min-remote-prefill-measure",
      "router-conditional-disagg",
      "router-conditional-disagg-config",
      "router-conditional-disagg-policy",
      "router-conditional-disagg-eff-isl-threshold",
      "router-conditional-disagg-eff-isl-ratio-threshold",
      "router-conditional-disagg-prefill-busy-threshold",
      "router-conditional-disagg-decode-busy-threshold",
      "strict-disaggregation",
      "kv-migration",
      "kv-migration-min-tokens",
      "kv-migration-min-gain-tokens",
      "kv-migration-prefill-tokens-per-s",
      "kv-migration-transfer-us-per-block",
      "kv-source-timeout-ms",
      "max-index-blocks",
      "dispatch-routing-group",
      "dispatch-total-timeout-secs",
      "dispatch-head-timeout-secs",
      "dispatch-silence-timeout-secs",
      "dispatch-prefill-timeout-secs",
      "dispatch-max-retries",
      "dispatch-handshake-lease-secs",
      "dispatch-keep-alive-secs",
      "dispatch-max-held-reply-bytes",
      "dispatch-two-leg-chat",
      "dispatch-explain-headers",
      "dispatch-ask-usage",
      "tokenize",
      "tokenize-timeout-secs",
      "tokenize-max-cached-text-bytes",
      "tokenize-max-in-flight",
      "tokenize-breaker-failures",
      "tokenize-breaker-open-secs"};
  return std::find(kNames.begin(), kNames.end(), name) != kNames.end();
}

}  // namespace

std::string Option::Key() const {
  std::string key = name;
  std::replace(key.begin(), key.end(), '-', '_');
  return key;
}

const std::vector<Option>& OptionTable() {
  static const std::vector<Option>* const table = [] {
    auto* rows = new std::vector<Option>;
    AddDoorOptions(rows);
    AddRoutingOptions(rows);
    AddAdmissionOptions(rows);
    AddRecordOptions(rows);
    AddOverlapSourceOptions(rows);
    AddSessionOptions(rows);
    AddGateOptions(rows);
    AddMigrationOptions(rows);
    AddDispatchOptions(rows);
    AddDiscoveryOptions(rows);
    AddIntrospectionOptions(rows);
    AddKubernetesOptions(rows);
    AddFeedOptions(rows);
    AddEventPlaneOptions(rows);
    AddWarmRestartOptions(rows);
    AddLimitOptions(rows);
    AddGrpcOptions(rows);
    AddHttpOptions(rows);
    AddLabelOptions(rows);
    for (Option& option : *rows) option.reloadable = IsReloadable(option.name);
    return rows;
  }();
  return *table;
}

const Option* FindOption(std::string_view name) {
  for (const Option& option : OptionTable()) {
    const auto& others = option.other_flags;
    if (option.name == name || std::find(others.begin(), others.end(), name) != others.end())
      return &option;
  }
  return nullptr;
}

const Option* FindOptionByKey(std::string_view key) {
  for (const Option& option : OptionTable()) {
    if (option.Key() == key) return &option;
  }
  return nullptr;
}

const AliasOption& OverlapScoreWeightAlias() {
  static const auto* const alias =
      new AliasOption{{"kv-overlap-score-weight", "router-kv-overlap-score-weight"},
                      {"DYN_OVERLAP_SCORE_WEIGHT", "DYN_ROUTER_KV_OVERLAP_SCORE_WEIGHT"},
                      "router_kv_overlap_score_weight"};
  return *alias;
}

}  // namespace kvrouter
