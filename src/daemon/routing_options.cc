#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/ascii.h"
#include "daemon/option_areas.h"
#include "daemon/option_builders.h"
#include "daemon/option_ranges.h"
#include "kvrouter/limits.h"

namespace kvrouter {
namespace {

Option SharedCacheTypeOption() {
  return {
      "shared-cache-type",
      "DYN_SHARED_CACHE_TYPE",
      "Cached blocks that every worker can fetch, credited by shared-cache-multiplier: none, or "
      "external (what any worker announced on its external tier is in one store that all "
      "read).",
      "none or external",
      false,
      [](std::string_view text, DaemonConfig* config) -> absl::Status {
        if (AsciiLower(text) == "hicache") {
          return absl::InvalidArgumentError(
              "not supported: hicache asks SGLang's storage backend on every decision; want "
              "none or external");
        }
        if (text != "none" && text != "external") return Want("none or external");
        config->router.overlap_source.shared_cache_type =
            text == "none" ? SharedCacheType::kNone : SharedCacheType::kExternalTier;
        return absl::OkStatus();
      },
      [](const DaemonConfig& config) {
        return std::string(config.router.overlap_source.shared_cache_type == SharedCacheType::kNone
                               ? "none"
                               : "external");
      }};
}

Option KvEventsOption() {
  Option option = Switch(
      "router-kv-events", "DYN_ROUTER_USE_KV_EVENTS",
      KVR_SETTING(router.overlap_source.use_kv_events),
      "Know from the engines' KV events which blocks they hold; false: from the router's own "
      "decisions, for router-ttl-secs each (also DYN_USE_KV_EVENTS, --kv-events).");
  option.other_environments = {"DYN_USE_KV_EVENTS"};
  option.other_flags = {"kv-events"};
  return option;
}

}  // namespace

void AddRoutingOptions(std::vector<Option>* table) {
  auto& t = *table;
  t.push_back(Real("router-kv-overlap-score-credit", "DYN_ROUTER_KV_OVERLAP_SCORE_CREDIT",
                   KVR_SETTING(router.scheduler.weights.overlap_score_credit), kUnbounded,
                   "Credit per prompt block already on the worker's device, in blocks."));
  t.push_back(
      Real("router-kv-overlap-score-credit-decay", "DYN_ROUTER_KV_OVERLAP_SCORE_CREDIT_DECAY",
           KVR_SETTING(router.scheduler.weights.overlap_score_credit_decay), kUnbounded,
           "How fast the credit fades on workers with much prefill pending; 0: not at all."));
  t.push_back(Real("router-prefill-load-scale", "DYN_ROUTER_PREFILL_LOAD_SCALE",
                   KVR_SETTING(router.scheduler.weights.prefill_load_scale), kUnbounded,
                   "Weight of the prefill term of the cost."));
  t.push_back(Real("router-decode-active-request-weight", "DYN_ROUTER_DECODE_ACTIVE_REQUEST_WEIGHT",
                   KVR_SETTING(router.scheduler.weights.decode_active_request_weight), kUnbounded,
                   "Cost of each active request of a worker, in blocks."));
  t.push_back(Real("router-host-cache-hit-weight", "DYN_ROUTER_HOST_CACHE_HIT_WEIGHT",
                   KVR_SETTING(router.scheduler.weights.host_cache_hit_weight), 1,
                   "Credit per block in host memory."));
  t.push_back(Real("router-disk-cache-hit-weight", "DYN_ROUTER_DISK_CACHE_HIT_WEIGHT",
                   KVR_SETTING(router.scheduler.weights.disk_cache_hit_weight), 1,
                   "Credit per block on disk or external."));
  t.push_back(Real("shared-cache-multiplier", "DYN_SHARED_CACHE_MULTIPLIER",
                   KVR_SETTING(router.scheduler.weights.shared_cache_multiplier), 1,
                   "Credit per block in a shared cache."));
  t.push_back(Real("router-temperature", "DYN_ROUTER_TEMPERATURE",
                   KVR_SETTING(router.scheduler.router_temperature), kUnbounded,
                   "0: lowest cost, ties at random; above: drawn from the softmax over costs."));
  t.push_back(Switch("router-track-active-blocks", "DYN_ROUTER_TRACK_ACTIVE_BLOCKS",
                     KVR_SETTING(router.scheduler.track_active_blocks),
                     "Count prompt blocks of live requests as decode load."));
  t.push_back(
      Switch("router-track-output-blocks", "DYN_ROUTER_TRACK_OUTPUT_BLOCKS",
             KVR_SETTING(router.scheduler.track_output_blocks),
             "Count generated blocks as they are reported; needs router-track-active-blocks."));
  t.push_back(Switch(
      "router-assume-kv-reuse", "DYN_ROUTER_ASSUME_KV_REUSE",
      KVR_SETTING(router.scheduler.assume_kv_reuse),
      "Blocks shared by live requests count once; false: each request counts all its blocks."));
  t.push_back(Switch("router-track-prefill-tokens", "DYN_ROUTER_TRACK_PREFILL_TOKENS",
                     KVR_SETTING(router.scheduler.track_prefill_tokens),
                     "Count uncached prompt tokens as load until prefill completes."));
  t.push_back(Whole("router-active-request-expiry-secs", "DYN_ROUTER_ACTIVE_REQUEST_EXPIRY_SECS",
                    KVR_SETTING(router.scheduler.active_request_expiry), 1, kYearSeconds,
                    "Bookings without a sign of life for this long are released, in s."));
  t.push_back(Whole("expiry-check-period-ms", "KVROUTER_EXPIRY_CHECK_PERIOD_MS",
                    KVR_SETTING(router.scheduler.expiry_check_period), 10, 3600 * 1000,
                    "How often expired bookings are looked for, in ms."));
  t.push_back(OneOf<DecisionDetail>(
      "decision-detail", "KVROUTER_DECISION_DETAIL", KVR_SETTING(router.decision_detail),
      {{"full", DecisionDetail::kFull}, {"winner", DecisionDetail::kWinner}}, {},
      "How much of each decision is kept for explanation: full (cost terms of all candidates, at "
      "most 64) or winner."));
  t.push_back(Whole("random-seed", "KVROUTER_RANDOM_SEED", KVR_SETTING(router.random_seed), 0,
                    kMaxU64, "Seed of tie-breaks and sampling."));
}

void AddOverlapSourceOptions(std::vector<Option>* table) {
  auto& t = *table;
  t.push_back(KvEventsOption());
  t.push_back(Seconds("router-ttl-secs", "DYN_ROUTER_TTL_SECS",
                      KVR_SETTING(router.overlap_source.router_ttl), kYearSeconds,
                      "Without KV events: how long a prompt counts as held where it was sent, in "
                      "s."));
  t.push_back(Seconds("router-predicted-ttl-secs", "DYN_ROUTER_PREDICTED_TTL_SECS",
                      KVR_SETTING(router.overlap_source.predicted_ttl), kYearSeconds,
                      "With KV events: how long a prompt counts as held where it was sent, besides "
                      "what events say, in s; none: not at all."));
  t.push_back(Whole("max-routed-blocks", "KVROUTER_MAX_ROUTED_BLOCKS",
                    KVR_SETTING(router.overlap_source.max_routed_blocks), 1, kMaxRoutedBlocksLimit,
                    "Blocks remembered of such prompts per partition, over all ranks; beyond, "
                    "those that would expire first leave."));
  t.push_back(SharedCacheTypeOption());
  t.push_back(Switch(
      "load-aware", "DYN_ROUTER_LOAD_AWARE", KVR_SETTING(load_aware),
      "Route by load alone: sets router-kv-overlap-score-credit 0, router-kv-events false, "
      "router-track-active-blocks true, router-assume-kv-reuse false, router-track-prefill-tokens "
      "true, shared-cache-multiplier 0, shared-cache-type none and router-predicted-ttl-secs none, "
      "whatever else they are set to."));
  t.push_back(Whole("router-min-initial-workers", "DYN_ROUTER_MIN_INITIAL_WORKERS",
                    KVR_SETTING(min_initial_workers), 0, kMaxU32,
                    "/ready waits until this many schedulable workers have been there at once, "
                    "and for at least one."));
}

void AddLimitOptions(std::vector<Option>* table) {
  auto& t = *table;
  t.push_back(Whole("max-bookings", "KVROUTER_MAX_BOOKINGS",
                    KVR_SETTING(router.scheduler.max_bookings), 1, kMaxBookingsLimit,
                    "Live bookings per partition."));
  t.push_back(Whole("max-partitions", "KVROUTER_MAX_PARTITIONS", KVR_SETTING(router.max_partitions),
                    1, kMaxPartitionsLimit, "Pairs of model and routing group."));
  t.push_back(Whole("max-workers", "KVROUTER_MAX_WORKERS", KVR_SETTING(router.max_workers), 1,
                    kMaxU32, "Registered workers."));
  t.push_back(Whole("max-device-blocks", "KVROUTER_MAX_DEVICE_BLOCKS",
                    KVR_SETTING(router.max_device_blocks), 1, kMaxU32,
                    "Blocks of a rank on its device; beyond it the rank is forgotten and fills "
                    "again."));
  t.push_back(
      Whole("max-lower-tier-blocks", "KVROUTER_MAX_LOWER_TIER_BLOCKS",
            KVR_SETTING(router.max_lower_tier_blocks), 1, kMaxU32,
            "Blocks of a rank on one tier below its device; beyond it the tier is forgotten "
            "and fills again."));
  t.push_back(Whole("max-index-blocks", "KVROUTER_MAX_INDEX_BLOCKS",
                    KVR_SETTING(router.max_index_blocks), 1, uint64_t{1} << 40,
                    "Blocks of all ranks together, on all tiers; beyond it the largest ranks are "
                    "forgotten and fill again."));
  t.push_back(Whole("max-prompt-tokens", "KVROUTER_MAX_PROMPT_TOKENS",
                    KVR_SETTING(service.max_prompt_tokens), 1, kMaxU32,
                    "Longest prompt, in tokens."));
  t.push_back(Whole("max-request-id-bytes", "KVROUTER_MAX_REQUEST_ID_BYTES",
                    KVR_SETTING(service.max_request_id_bytes), 1, 1024,
                    "Longest request id, in bytes."));
  t.push_back(Whole("decision-ring-entries", "KVROUTER_DECISION_RING_ENTRIES",
                    KVR_SETTING(service.decision_ring_entries), 0, 1'000'000,
                    "Recent decisions kept for Explain and kvrouterctl explain; 0: none."));
  t.push_back(Whole("decision-ring-bytes", "KVROUTER_DECISION_RING_BYTES",
                    KVR_SETTING(service.decision_ring_bytes), 0, uint64_t{1} << 40,
                    "Memory of those decisions together, estimated, in bytes."));
}

}  // namespace kvrouter
