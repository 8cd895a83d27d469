#include "daemon/option_table.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cmath>
#include <cstdint>
#include <limits>
#include <utility>

#include "adapters/discovery/api_client.h"
#include "adapters/http/http_format.h"
#include "daemon/dispatch_options.h"
#include "daemon/option_builders.h"
#include "kvrouter/decision_record.h"
#include "kvrouter/limits.h"
#include "service/worker_registry.h"

namespace kvrouter {
namespace {

bool IsHostPort(std::string_view text) { return ParseHostPort(text).ok(); }
bool IsDiscoveryBackend(std::string_view text) {
  return text == "none" || text == "mem" || text == "kubernetes";
}
bool IsOriginOrEmpty(std::string_view text) { return text.empty() || ParseOrigin(text).ok(); }
// A DNS label, since it becomes part of a path.
bool IsNamespaceOrEmpty(std::string_view text) {
  return text.size() <= 63 && std::all_of(text.begin(), text.end(), [](unsigned char c) {
           return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '-';
         });
}
bool IsLogLevel(std::string_view text) {
  static constexpr std::array<std::string_view, 6> kLevels = {"trace", "debug", "info",
                                                              "warn",  "error", "off"};
  return std::find(kLevels.begin(), kLevels.end(), text) != kLevels.end();
}

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
        if (Lower(text) == "hicache") {
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
      [](DaemonConfig & c) -> auto& { return c.router.overlap_source.use_kv_events; },
      "Know from the engines' KV events which blocks they hold; false: from the router's own "
      "decisions, for router-ttl-secs each (also DYN_USE_KV_EVENTS, --kv-events).");
  option.other_environments = {"DYN_USE_KV_EVENTS"};
  option.other_flags = {"kv-events"};
  return option;
}

#define FIELD(path) \
  [](DaemonConfig & c) -> auto& { return c.path; }

constexpr uint64_t kMaxU64 = std::numeric_limits<uint64_t>::max();
constexpr uint64_t kMaxU32 = std::numeric_limits<uint32_t>::max();
constexpr uint64_t kMaxBytes = uint64_t{1}
                               << 31;  // one message; gRPC's own limit is a signed 32-bit number
constexpr uint64_t kHourMs = 3600ull * 1000;
constexpr uint64_t kDayMs = 24ull * 3600 * 1000;
// With what follows, the end of the daemon stays under 5 s.
constexpr uint64_t kMaxShutdownGraceMs = 3000;
constexpr uint64_t kYearSeconds = 365ull * 24 * 3600;

void AddDoors(std::vector<Option>* table) {
  table->push_back(Words("http-listen", "KVROUTER_HTTP_LISTEN", FIELD(http.listen), "HOST:PORT",
                         IsHostPort,
                         "Address of the selection API, /metrics, /live and /ready; port 0 takes a "
                         "free one."));
  table->push_back(Words("grpc-listen", "KVROUTER_GRPC_LISTEN", FIELD(grpc.listen), "HOST:PORT",
                         IsHostPort, "Address of the gRPC services; port 0 takes a free one."));
  table->push_back(Words(
      "indexer-listen", "KVROUTER_INDEXER_LISTEN", FIELD(indexer_listen), "HOST:PORT, or empty",
      [](std::string_view text) { return text.empty() || IsHostPort(text); },
      "Address of the standalone indexer's API (Dynamo's port: 8090), for Mooncake-style callers "
      "and Dynamo peers; empty: not served."));
  table->push_back(
      Words("addresses-file", "KVROUTER_ADDRESSES_FILE", FIELD(addresses_file), "a path, or empty",
            Anything,
            "File that gets the bound addresses once all doors are open, as lines http=HOST:PORT, "
            "grpc=HOST:PORT and, if served, indexer=HOST:PORT and openai=HOST:PORT; empty: none."));
  table->push_back(Words("log-level", "KVROUTER_LOG_LEVEL", FIELD(log_level),
                         "trace, debug, info, warn, error or off", IsLogLevel,
                         "Least severe log lines that are written (stderr)."));
  table->push_back(Whole("ready-bound-ms", "KVROUTER_READY_BOUND_MS", FIELD(ready_bound), 0, kDayMs,
                         "Longest wait of /ready for the event feeds' first replay, in ms."));
  table->push_back(Whole("shutdown-grace-ms", "KVROUTER_SHUTDOWN_GRACE_MS", FIELD(shutdown_grace),
                         0, kMaxShutdownGraceMs,
                         "How long running calls may take to finish after SIGTERM, in ms."));
}

void AddRouting(std::vector<Option>* table) {
  auto& t = *table;
  t.push_back(Real("router-kv-overlap-score-credit", "DYN_ROUTER_KV_OVERLAP_SCORE_CREDIT",
                   FIELD(router.scheduler.weights.overlap_score_credit), kUnbounded,
                   "Credit per prompt block already on the worker's device, in blocks."));
  t.push_back(
      Real("router-kv-overlap-score-credit-decay", "DYN_ROUTER_KV_OVERLAP_SCORE_CREDIT_DECAY",
           FIELD(router.scheduler.weights.overlap_score_credit_decay), kUnbounded,
           "How fast the credit fades on workers with much prefill pending; 0: not at all."));
  t.push_back(Real("router-prefill-load-scale", "DYN_ROUTER_PREFILL_LOAD_SCALE",
                   FIELD(router.scheduler.weights.prefill_load_scale), kUnbounded,
                   "Weight of the prefill term of the cost."));
  t.push_back(Real("router-decode-active-request-weight", "DYN_ROUTER_DECODE_ACTIVE_REQUEST_WEIGHT",
                   FIELD(router.scheduler.weights.decode_active_request_weight), kUnbounded,
                   "Cost of each active request of a worker, in blocks."));
  t.push_back(Real("router-host-cache-hit-weight", "DYN_ROUTER_HOST_CACHE_HIT_WEIGHT",
                   FIELD(router.scheduler.weights.host_cache_hit_weight), 1,
                   "Credit per block in host memory."));
  t.push_back(Real("router-disk-cache-hit-weight", "DYN_ROUTER_DISK_CACHE_HIT_WEIGHT",
                   FIELD(router.scheduler.weights.disk_cache_hit_weight), 1,
                   "Credit per block on disk or external."));
  t.push_back(Real("shared-cache-multiplier", "DYN_SHARED_CACHE_MULTIPLIER",
                   FIELD(router.scheduler.weights.shared_cache_multiplier), 1,
                   "Credit per block in a shared cache."));
  t.push_back(Real("router-temperature", "DYN_ROUTER_TEMPERATURE",
                   FIELD(router.scheduler.router_temperature), kUnbounded,
                   "0: lowest cost, ties at random; above: drawn from the softmax over costs."));
  t.push_back(Switch("router-track-active-blocks", "DYN_ROUTER_TRACK_ACTIVE_BLOCKS",
                     FIELD(router.scheduler.track_active_blocks),
                     "Count prompt blocks of live requests as decode load."));
  t.push_back(
      Switch("router-track-output-blocks", "DYN_ROUTER_TRACK_OUTPUT_BLOCKS",
             FIELD(router.scheduler.track_output_blocks),
             "Count generated blocks as they are reported; needs router-track-active-blocks."));
  t.push_back(Switch(
      "router-assume-kv-reuse", "DYN_ROUTER_ASSUME_KV_REUSE",
      FIELD(router.scheduler.assume_kv_reuse),
      "Blocks shared by live requests count once; false: each request counts all its blocks."));
  t.push_back(Switch("router-track-prefill-tokens", "DYN_ROUTER_TRACK_PREFILL_TOKENS",
                     FIELD(router.scheduler.track_prefill_tokens),
                     "Count uncached prompt tokens as load until prefill completes."));
  t.push_back(Whole("router-active-request-expiry-secs", "DYN_ROUTER_ACTIVE_REQUEST_EXPIRY_SECS",
                    FIELD(router.scheduler.active_request_expiry), 1, kYearSeconds,
                    "Bookings without a sign of life for this long are released, in s."));
  t.push_back(Whole("expiry-check-period-ms", "KVROUTER_EXPIRY_CHECK_PERIOD_MS",
                    FIELD(router.scheduler.expiry_check_period), 10, 3600 * 1000,
                    "How often expired bookings are looked for, in ms."));
  t.push_back(OneOf<DecisionDetail>(
      "decision-detail", "KVROUTER_DECISION_DETAIL", FIELD(router.decision_detail),
      {{"full", DecisionDetail::kFull}, {"winner", DecisionDetail::kWinner}}, {},
      "How much of each decision is kept for explanation: full (cost terms of all candidates, at "
      "most 64) or winner."));
  t.push_back(Whole("random-seed", "KVROUTER_RANDOM_SEED", FIELD(router.random_seed), 0, kMaxU64,
                    "Seed of tie-breaks and sampling."));
}

Option ShadowPolicyOption() {
  return {"shadow-policy",
          "KVROUTER_SHADOW_POLICY",
          "Settings of the choice, by their YAML keys, that differ in a second policy: it chooses "
          "from the same candidates, is compared and never acted on. Empty: none.",
          "KEY=VALUE[,...], or empty",
          false,
          [](std::string_view text, DaemonConfig* config) -> absl::Status {
            const auto change = ParsePolicyChange(text);
            if (!change.ok())
              return absl::InvalidArgumentError(std::string(change.status().message()));
            config->shadow_policy = std::string(text);
            return absl::OkStatus();
          },
          [](const DaemonConfig& config) { return config.shadow_policy; }};
}

void AddRecord(std::vector<Option>* table) {
  auto& t = *table;
  t.push_back(ShadowPolicyOption());
  t.push_back(Words("decision-log-path", "KVROUTER_DECISION_LOG_PATH", FIELD(decision_log.path),
                    "a path, or empty", Anything,
                    "File that every decision is appended to, with all that it takes to make it "
                    "again (kvrouterctl replay); empty: none."));
  t.push_back(Whole("decision-log-file-bytes", "KVROUTER_DECISION_LOG_FILE_BYTES",
                    FIELD(decision_log.max_file_bytes), 4096, uint64_t{1} << 40,
                    "Size at which that file is put aside (PATH.1, PATH.2, ...), in bytes."));
  t.push_back(Whole("decision-log-files", "KVROUTER_DECISION_LOG_FILES", FIELD(decision_log.files),
                    1, 1000, "Files of the log that are kept, with the one being written."));
  t.push_back(Whole("decision-log-queue-bytes", "KVROUTER_DECISION_LOG_QUEUE_BYTES",
                    FIELD(decision_log.max_queue_bytes), 4096, uint64_t{1} << 40,
                    "Records that wait to be written, in bytes; beyond, new ones are dropped."));
  t.push_back(Whole("decision-log-max-candidates", "KVROUTER_DECISION_LOG_MAX_CANDIDATES",
                    FIELD(decision_log.max_candidates), 1, 1'000'000,
                    "Candidates of a decision that are recorded; a decision with more is recorded "
                    "without them and cannot be replayed."));
  t.push_back(Switch("decision-log-hashes", "KVROUTER_DECISION_LOG_HASHES",
                     FIELD(decision_log.with_hashes),
                     "Record the sequence hashes of the prompts' full blocks, too, 8 bytes each. "
                     "Tokens are never recorded."));
  t.push_back(Whole("config-poll-ms", "KVROUTER_CONFIG_POLL_MS", FIELD(config_poll), 0, kDayMs,
                    "How often the config file is looked at for changes, in ms; a change counts "
                    "once two looks agree. 0: it is read again at SIGHUP only."));
}

// Parity: 0 and less switch it off.
Option OverlapRefreshOption() {
  using Seconds = std::chrono::duration<double>;
  constexpr double kMost = 31'536'000;
  return {
      "router-overlap-refresh-after-secs",
      "DYN_ROUTER_OVERLAP_REFRESH_AFTER_SECS",
      "A request that waited this long has its overlap looked up again when it goes, in s; 0 or "
      "less: never.",
      "seconds, at most 31536000",
      false,
      [](std::string_view text, DaemonConfig* config) -> absl::Status {
        double value = 0;
        if (!ParseNumber(text, &value) || !std::isfinite(value) || value > kMost)
          return Want("seconds, at most 31536000");
        config->router.scheduler.queue.overlap_refresh_after =
            std::chrono::duration_cast<std::chrono::nanoseconds>(Seconds(std::max(0.0, value)));
        return absl::OkStatus();
      },
      [](const DaemonConfig& config) {
        return fmt::format("{}",
                           Seconds(config.router.scheduler.queue.overlap_refresh_after).count());
      }};
}

void AddAdmission(std::vector<Option>* table) {
  auto& t = *table;
  t.push_back(OptionalReal(
      "active-decode-blocks-threshold", "DYN_ACTIVE_DECODE_BLOCKS_THRESHOLD",
      FIELD(router.scheduler.overload.active_decode_blocks), 1,
      "A worker is overloaded while all its ranks use more than this share of their KV blocks; "
      "needs total_kv_blocks."));
  t.push_back(OptionalWhole(
      "active-prefill-tokens-threshold", "DYN_ACTIVE_PREFILL_TOKENS_THRESHOLD",
      FIELD(router.scheduler.overload.active_prefill_tokens), 0, kMaxU64,
      "A worker is overloaded while all its ranks have more prompt tokens than this to compute."));
  t.push_back(OptionalReal(
      "active-prefill-tokens-threshold-frac", "DYN_ACTIVE_PREFILL_TOKENS_THRESHOLD_FRAC",
      FIELD(router.scheduler.overload.active_prefill_tokens_frac), kUnbounded,
      "The same as a multiple of max_num_batched_tokens (unknown: 10000000)."));
  t.push_back(OptionalReal(
      "router-queue-threshold", "DYN_ROUTER_QUEUE_THRESHOLD",
      FIELD(router.scheduler.queue.busy.batch_share), kUnbounded,
      "Requests wait while all ranks that could serve them have more prompt tokens to compute than "
      "this multiple of max_num_batched_tokens; none: nobody ever waits."));
  t.push_back(OneOf<QueueOrder>(
      "router-queue-policy", "DYN_ROUTER_QUEUE_POLICY", FIELD(router.scheduler.queue.order),
      {{"fcfs", QueueOrder::kFcfs}, {"wspt", QueueOrder::kWspt}}, {},
      "Order of waiting requests: fcfs (first come) or wspt (fewest uncached tokens first)."));
  t.push_back(Words("router-policy-config", "DYN_ROUTER_POLICY_CONFIG", FIELD(policy_file),
                    "a path, or empty", Anything,
                    "YAML file of policy classes (docs/routing.md#queue); replaces "
                    "router-queue-threshold and router-queue-policy; empty: one class."));
  t.push_back(OverlapRefreshOption());
  t.push_back(Whole("max-waiting-requests", "KVROUTER_MAX_WAITING_REQUESTS",
                    FIELD(router.scheduler.queue.max_waiting), 1, kMaxBookingsLimit,
                    "Requests that may wait per partition."));
  t.push_back(Whole("outlier-consecutive-failures", "KVROUTER_OUTLIER_CONSECUTIVE_FAILURES",
                    FIELD(router.scheduler.outlier_ejection.consecutive_failures), 0, 1'000'000,
                    "A rank is taken out after this many fast failures in a row, as callers report "
                    "them; 0: never."));
  t.push_back(Whole("outlier-fast-failure-ms", "KVROUTER_OUTLIER_FAST_FAILURE_MS",
                    FIELD(router.scheduler.outlier_ejection.fast_failure), 1, kHourMs,
                    "A failure within this time of the dispatch is a fast one, in ms."));
  t.push_back(Whole("outlier-base-secs", "KVROUTER_OUTLIER_BASE_SECS",
                    FIELD(router.scheduler.outlier_ejection.base_time), 1, kDayMs / 1000,
                    "How long a rank is out the first time; doubles with every relapse, in s."));
  t.push_back(Whole("outlier-max-secs", "KVROUTER_OUTLIER_MAX_SECS",
                    FIELD(router.scheduler.outlier_ejection.max_time), 1, kDayMs / 1000,
                    "The longest it is out, in s."));
  t.push_back(Real("outlier-max-ejected-share", "KVROUTER_OUTLIER_MAX_EJECTED_SHARE",
                   FIELD(router.scheduler.outlier_ejection.max_ejected_share), 1,
                   "Most ranks of a partition that are out at once, as a share; never all."));
}

void AddOverlapSources(std::vector<Option>* table) {
  auto& t = *table;
  t.push_back(KvEventsOption());
  t.push_back(Seconds("router-ttl-secs", "DYN_ROUTER_TTL_SECS",
                      FIELD(router.overlap_source.router_ttl), kYearSeconds,
                      "Without KV events: how long a prompt counts as held where it was sent, in "
                      "s."));
  t.push_back(Seconds("router-predicted-ttl-secs", "DYN_ROUTER_PREDICTED_TTL_SECS",
                      FIELD(router.overlap_source.predicted_ttl), kYearSeconds,
                      "With KV events: how long a prompt counts as held where it was sent, besides "
                      "what events say, in s; none: not at all."));
  t.push_back(Whole("max-routed-blocks", "KVROUTER_MAX_ROUTED_BLOCKS",
                    FIELD(router.overlap_source.max_routed_blocks), 1, kMaxRoutedBlocksLimit,
                    "Blocks remembered of such prompts per partition, over all ranks; beyond, "
                    "those that would expire first leave."));
  t.push_back(SharedCacheTypeOption());
  t.push_back(Switch(
      "load-aware", "DYN_ROUTER_LOAD_AWARE", FIELD(load_aware),
      "Route by load alone: sets router-kv-overlap-score-credit 0, router-kv-events false, "
      "router-track-active-blocks true, router-assume-kv-reuse false, router-track-prefill-tokens "
      "true, shared-cache-multiplier 0, shared-cache-type none and router-predicted-ttl-secs none, "
      "whatever else they are set to."));
  t.push_back(Whole("router-min-initial-workers", "DYN_ROUTER_MIN_INITIAL_WORKERS",
                    FIELD(min_initial_workers), 0, kMaxU32,
                    "/ready waits until this many schedulable workers have been there at once, "
                    "and for at least one."));
}

void AddSessions(std::vector<Option>* table) {
  auto& t = *table;
  t.push_back(OptionalWhole("router-session-affinity-ttl-secs",
                            "DYN_ROUTER_SESSION_AFFINITY_TTL_SECS",
                            FIELD(router.sessions.affinity_ttl), 1, kYearSeconds,
                            "A session stays on its target until it has been idle for this long, "
                            "in s; none: sessions are not bound."));
  t.push_back(Whole("session-from-prefix-tokens", "DYN_SESSION_FROM_PREFIX_TOKENS",
                    FIELD(router.sessions.prefix_tokens), 0, kMaxU32,
                    "Requests whose caller names no session are told apart by their first so many "
                    "tokens; 0: not at all."));
  t.push_back(Switch("session-rendezvous", "DYN_SESSION_RENDEZVOUS",
                     FIELD(router.sessions.rendezvous),
                     "A session without a target goes to the one that every router would choose "
                     "for it, not to the one with the lowest cost."));
  t.push_back(Switch("session-soft", "KVROUTER_SESSION_SOFT", FIELD(router.sessions.soft),
                     "A session's target is preferred, not fixed: it moves when staying costs too "
                     "much."));
  t.push_back(Real("session-soft-max-cost-factor", "KVROUTER_SESSION_SOFT_MAX_COST_FACTOR",
                   FIELD(router.sessions.soft_pin.max_cost_factor), kUnbounded,
                   "With session-soft: it stays while its cost is at most this times the lowest, "
                   "and session-soft-max-extra-cost-blocks more; at least 1."));
  t.push_back(Real("session-soft-max-extra-cost-blocks",
                   "KVROUTER_SESSION_SOFT_MAX_EXTRA_COST_BLOCKS",
                   FIELD(router.sessions.soft_pin.max_extra_cost_blocks), kUnbounded,
                   "With session-soft: see there, in blocks."));
  t.push_back(Whole("max-sessions", "KVROUTER_MAX_SESSIONS", FIELD(router.sessions.max_sessions), 1,
                    kMaxU32,
                    "Bound sessions of a partition's prefill workers, and as many of its others; "
                    "the longest idle one makes room."));
  t.push_back(Real("session-hot-share-of-mean", "KVROUTER_SESSION_HOT_SHARE_OF_MEAN",
                   FIELD(router.sessions.hot_share_of_mean), kUnbounded,
                   "A derived session with more than this many times a target's share of the load "
                   "is what many have in common, and is not bound; above 0."));
  t.push_back(Whole("session-hot-min-requests", "KVROUTER_SESSION_HOT_MIN_REQUESTS",
                    FIELD(router.sessions.hot_min_requests), 1, kMaxU32,
                    "Fewer requests, faded, are never that."));
  t.push_back(Whole("session-hot-half-life-secs", "KVROUTER_SESSION_HOT_HALF_LIFE_SECS",
                    FIELD(router.sessions.hot_half_life), 1, kYearSeconds,
                    "Time in which that load fades by half, in s."));
}

void AddGate(std::vector<Option>* table) {
  auto& t = *table;
  t.push_back(Whole("min-remote-prefill-tokens", "DYN_MIN_REMOTE_PREFILL_TOKENS",
                    FIELD(router.gate.length.min_remote_prefill_tokens), 0, kMaxU64,
                    "Shorter prompts are computed by the worker that decodes, not by a prefill "
                    "worker; 0: length does not matter."));
  t.push_back(OneOf<LengthGate::Measure>(
      "min-remote-prefill-measure", "KVROUTER_MIN_REMOTE_PREFILL_MEASURE",
      FIELD(router.gate.length.measure),
      {{"prompt", LengthGate::Measure::kPrompt}, {"uncached", LengthGate::Measure::kUncached}}, {},
      "What is compared with it: the prompt, or what the decode worker does not hold of it."));
  t.push_back(Switch("local-continuations", "DYN_LOCAL_CONTINUATIONS",
                     FIELD(router.gate.length.local_continuations),
                     "With min-remote-prefill-tokens: sessions seen within the hour are served by "
                     "the worker that decodes, whatever the length."));
  t.push_back(Switch("router-conditional-disagg", "DYN_ROUTER_CONDITIONAL_DISAGG",
                     FIELD(router.gate.conditional.enabled),
                     "Dynamo's conditional disaggregation: prefill on the decode worker where that "
                     "is cheap, or prefill workers are busy."));
  t.push_back(Words("router-conditional-disagg-config", "DYN_ROUTER_CONDITIONAL_DISAGG_CONFIG",
                    FIELD(conditional_disagg_json), "a JSON object, or empty", Anything,
                    "The next five by the names policy, eff_isl_threshold, eff_isl_ratio_threshold,"
                    " prefill_busy_threshold and decode_busy_threshold; stronger than them."));
  t.push_back(OneOf<ConditionalDisagg::Policy>(
      "router-conditional-disagg-policy", "DYN_ROUTER_CONDITIONAL_DISAGG_POLICY",
      FIELD(router.gate.conditional.policy),
      {{"isl_bounding", ConditionalDisagg::Policy::kIslBounding},
       {"prefill_load", ConditionalDisagg::Policy::kPrefillLoad},
       {"isl_or_load", ConditionalDisagg::Policy::kIslOrLoad}},
      {}, "Few new tokens, busy prefill workers, or either."));
  t.push_back(Whole("router-conditional-disagg-eff-isl-threshold",
                    "DYN_ROUTER_CONDITIONAL_DISAGG_EFF_ISL_THRESHOLD",
                    FIELD(router.gate.conditional.eff_isl_threshold_tokens), 0, kMaxU64,
                    "Few: fewer new tokens than this, and"));
  t.push_back(Real("router-conditional-disagg-eff-isl-ratio-threshold",
                   "DYN_ROUTER_CONDITIONAL_DISAGG_EFF_ISL_RATIO_THRESHOLD",
                   FIELD(router.gate.conditional.eff_isl_ratio_threshold), 1,
                   "a smaller share of the prompt than this."));
  t.push_back(OptionalReal("router-conditional-disagg-prefill-busy-threshold",
                           "DYN_ROUTER_CONDITIONAL_DISAGG_PREFILL_BUSY_THRESHOLD",
                           FIELD(router.gate.conditional.prefill_busy_threshold), kUnbounded,
                           "Busy: more pending prefill tokens than this share of "
                           "max_num_batched_tokens; the load policies need it."));
  t.push_back(OptionalReal("router-conditional-disagg-decode-busy-threshold",
                           "DYN_ROUTER_CONDITIONAL_DISAGG_DECODE_BUSY_THRESHOLD",
                           FIELD(router.gate.conditional.decode_busy_threshold), kUnbounded,
                           "Not there if the decode worker would have more than this share of its "
                           "blocks in use."));
  t.push_back(Switch("strict-disaggregation", "KVROUTER_STRICT_DISAGGREGATION",
                     FIELD(router.strict_disaggregation),
                     "A prefill leg that cannot be had, or fails, fails the request; otherwise it "
                     "is served by the worker that decodes."));
}

void AddMigration(std::vector<Option>* table) {
  auto& t = *table;
  t.push_back(OneOf<MigrationMode>(
      "kv-migration", "DYN_KV_MIGRATION", FIELD(router.migration.mode),
      {{"off", MigrationMode::kOff},
       {"dry", MigrationMode::kDry},
       {"migrate", MigrationMode::kMigrate}},
      {{"0", MigrationMode::kOff},
       {"false", MigrationMode::kOff},
       {"no", MigrationMode::kOff},
       {"1", MigrationMode::kMigrate},
       {"true", MigrationMode::kMigrate}},
      "Whether a target pulls a prompt's blocks from another worker that holds them; dry: says so "
      "and does not."));
  t.push_back(Whole("kv-migration-min-tokens", "DYN_KV_MIGRATION_MIN_TOKENS",
                    FIELD(router.migration.min_tokens), 0, kMaxU64, "From this many tokens on."));
  t.push_back(OptionalWhole("kv-migration-min-gain-tokens", "KVROUTER_KV_MIGRATION_MIN_GAIN_TOKENS",
                            FIELD(router.migration.min_gain_tokens), 0, kMaxU64,
                            "And if the source holds this many more than the target; none: "
                            "kv-migration-min-tokens."));
  t.push_back(Whole("kv-migration-prefill-tokens-per-s",
                    "KVROUTER_KV_MIGRATION_PREFILL_TOKENS_PER_S",
                    FIELD(router.migration.prefill_tokens_per_s), 0, 1'000'000'000,
                    "What a worker computes that has nothing else to do: a pull that would take "
                    "longer than computing is refused. 0: only the floors count."));
  t.push_back(Whole("kv-migration-transfer-us-per-block",
                    "KVROUTER_KV_MIGRATION_TRANSFER_US_PER_BLOCK",
                    FIELD(router.migration.transfer_us_per_block), 0, 3'600'000'000,
                    "For how many microseconds a block is under way between workers; of use with "
                    "kv-migration-prefill-tokens-per-s only."));
  t.push_back(Whole("kv-source-timeout-ms", "KVROUTER_KV_SOURCE_TIMEOUT_MS",
                    FIELD(router.kv_source_timeout), 1, kDayMs,
                    "What callers are told to grant the worker that hands its blocks over, in "
                    "ms."));
}

void AddLimits(std::vector<Option>* table) {
  auto& t = *table;
  t.push_back(Whole("max-bookings", "KVROUTER_MAX_BOOKINGS", FIELD(router.scheduler.max_bookings),
                    1, kMaxBookingsLimit, "Live bookings per partition."));
  t.push_back(Whole("max-partitions", "KVROUTER_MAX_PARTITIONS", FIELD(router.max_partitions), 1,
                    kMaxPartitionsLimit, "Pairs of model and routing group."));
  t.push_back(Whole("max-workers", "KVROUTER_MAX_WORKERS", FIELD(router.max_workers), 1, kMaxU32,
                    "Registered workers."));
  t.push_back(
      Whole("max-lower-tier-blocks", "KVROUTER_MAX_LOWER_TIER_BLOCKS",
            FIELD(router.max_lower_tier_blocks), 1, kMaxU32,
            "Blocks of a rank on one tier below its device; beyond it the tier is forgotten "
            "and fills again."));
  t.push_back(Whole("max-prompt-tokens", "KVROUTER_MAX_PROMPT_TOKENS",
                    FIELD(service.max_prompt_tokens), 1, kMaxU32, "Longest prompt, in tokens."));
  t.push_back(Whole("max-request-id-bytes", "KVROUTER_MAX_REQUEST_ID_BYTES",
                    FIELD(service.max_request_id_bytes), 1, 1024, "Longest request id, in bytes."));
  t.push_back(Whole("decision-ring-entries", "KVROUTER_DECISION_RING_ENTRIES",
                    FIELD(service.decision_ring_entries), 0, 1'000'000,
                    "Recent decisions kept for Explain and kvrouterctl explain; 0: none."));
  t.push_back(Whole("decision-ring-bytes", "KVROUTER_DECISION_RING_BYTES",
                    FIELD(service.decision_ring_bytes), 0, uint64_t{1} << 40,
                    "Memory of those decisions together, estimated, in bytes."));
}

void AddDiscovery(std::vector<Option>* table) {
  auto& t = *table;
  t.push_back(Words("workers-file", "KVROUTER_WORKERS_FILE", FIELD(workers_file.path),
                    "a path, or empty", Anything,
                    "File that lists workers (as the key workers of this one; YAML or JSON) and is "
                    "followed while the daemon runs; empty: none."));
  t.push_back(Whole(
      "workers-file-poll-ms", "KVROUTER_WORKERS_FILE_POLL_MS", FIELD(workers_file.poll_period), 10,
      kDayMs, "How often that file is looked at, in ms; a change counts once two looks agree."));
  t.push_back(
      Words("discovery-backend", "DYN_DISCOVERY_BACKEND", FIELD(kubernetes.backend),
            "none, mem or kubernetes", IsDiscoveryBackend,
            "kubernetes: workers are pods, followed through the API server; mem: as none."));
  t.push_back(
      Whole("kv-cache-block-size", "DYN_KV_CACHE_BLOCK_SIZE", FIELD(kubernetes.block_size_tokens),
            0, kMaxBlockSizeTokens,
            "Block size of discovered pods that do not say theirs, in tokens; 0: they must, or "
            "their engines with introspect-workers."));
}

void AddIntrospection(std::vector<Option>* table) {
  auto& t = *table;
  t.push_back(
      Switch("introspect-workers", "KVROUTER_INTROSPECT_WORKERS", FIELD(introspection.enabled),
             "Ask the engines at the workers' addresses (GET /health, /v1/models, /metrics) for "
             "what is not declared, and show where they differ from what is."));
  t.push_back(Whole("introspect-period-ms", "KVROUTER_INTROSPECT_PERIOD_MS",
                    FIELD(introspection.period), 10, kDayMs,
                    "How often each engine is asked, in ms; slow ones up to 8 times less often."));
  t.push_back(Whole("introspect-timeout-ms", "KVROUTER_INTROSPECT_TIMEOUT_MS",
                    FIELD(introspection.timeout), 1, kDayMs,
                    "Time for each of an engine's answers, in ms."));
  t.push_back(Whole("engine-poll-ms", "KVROUTER_ENGINE_POLL_MS", FIELD(introspection.load_period),
                    0, kDayMs,
                    "How often each engine is asked for its load (GET /metrics at the workers' "
                    "addresses; vLLM's and SGLang's names), in ms, slow ones up to 8 times less "
                    "often; an answer counts for four such periods. 0: not."));
}

void AddKubernetes(std::vector<Option>* table) {
  auto& t = *table;
  t.push_back(Words(
      "kubernetes-namespace", "KVROUTER_KUBERNETES_NAMESPACE", FIELD(kubernetes.pod_namespace),
      "a namespace, or empty", IsNamespaceOrEmpty,
      "Namespace of the pods; empty: POD_NAMESPACE, else the service account's, else default."));
  t.push_back(Words("kubernetes-pod-selector", "KVROUTER_KUBERNETES_POD_SELECTOR",
                    FIELD(kubernetes.pod_selector), "a label selector", Anything,
                    "Pods that may be workers."));
  t.push_back(Words("kubernetes-slice-selector", "KVROUTER_KUBERNETES_SLICE_SELECTOR",
                    FIELD(kubernetes.slice_selector), "a label selector, or empty", Anything,
                    "EndpointSlices that must name a pod; empty: none are asked for, pods alone "
                    "decide."));
  t.push_back(Words("kubernetes-api-server", "KVROUTER_KUBERNETES_API_SERVER",
                    FIELD(kubernetes.api_server),
                    "http://HOST[:PORT] or https://HOST[:PORT], or empty", IsOriginOrEmpty,
                    "API server; empty: that of the cluster the process runs in."));
  t.push_back(Words("kubernetes-token-file", "KVROUTER_KUBERNETES_TOKEN_FILE",
                    FIELD(kubernetes.token_file), "a path, or empty", Anything,
                    "Bearer token, read again for each request, sent over TLS only; empty: none."));
  t.push_back(Words("kubernetes-ca-file", "KVROUTER_KUBERNETES_CA_FILE", FIELD(kubernetes.ca_file),
                    "a path", Anything, "Certificates that the API server's must be signed by."));
  t.push_back(Whole("kubernetes-request-timeout-ms", "KVROUTER_KUBERNETES_REQUEST_TIMEOUT_MS",
                    FIELD(kubernetes.request_timeout), 1, kDayMs,
                    "Time for a page of a list, and for a watch to begin, in ms."));
  t.push_back(Whole("kubernetes-watch-timeout-secs", "KVROUTER_KUBERNETES_WATCH_TIMEOUT_SECS",
                    FIELD(kubernetes.watch_timeout), 1, 86'400,
                    "The API server is asked to end a watch after this long, in s; it is then "
                    "resumed."));
  t.push_back(Whole("kubernetes-backoff-max-ms", "KVROUTER_KUBERNETES_BACKOFF_MAX_MS",
                    FIELD(kubernetes.backoff_max), 1, kDayMs,
                    "Longest wait before a failed request is repeated, in ms."));
}

void AddFeeds(std::vector<Option>* table) {
  auto& t = *table;
  t.push_back(Whole("router-event-threads", "DYN_ROUTER_EVENT_THREADS", FIELD(zmq.threads), 1, 64,
                    "Threads that apply KV events; a worker stays on one."));
  t.push_back(Whole("replay-timeout-ms", "KVROUTER_REPLAY_TIMEOUT_MS", FIELD(zmq.replay_timeout), 1,
                    kDayMs, "A replay without progress for this long has failed, in ms."));
  t.push_back(Whole("recovery-limit-ms", "KVROUTER_RECOVERY_LIMIT_MS", FIELD(zmq.recovery_limit), 1,
                    kDayMs,
                    "A rank's whole recovery, with all its replays and whatever their progress, in "
                    "ms; then what is not proved is dropped."));
  t.push_back(Whole("replay-jitter-ms", "KVROUTER_REPLAY_JITTER_MS", FIELD(replay_turns.jitter), 0,
                    60'000,
                    "A replay begins up to this much later than it is wanted, at random, so that "
                    "routers do not ask an engine at the same moment, in ms."));
  t.push_back(Whole("max-replays-at-once", "KVROUTER_MAX_REPLAYS_AT_ONCE",
                    FIELD(replay_turns.max_at_once), 1, 4096,
                    "Replays under way together; one that brings nothing for a second does not "
                    "count."));
  t.push_back(Whole(
      "zmq-reconnect-min-ms", "KVROUTER_ZMQ_RECONNECT_MIN_MS", FIELD(zmq.reconnect_min), 1, kDayMs,
      "First wait before an event socket reconnects, in ms; it doubles up to the maximum."));
  t.push_back(Whole("zmq-reconnect-max-ms", "KVROUTER_ZMQ_RECONNECT_MAX_MS",
                    FIELD(zmq.reconnect_max), 1, kDayMs,
                    "Longest wait before an event socket reconnects, in ms."));
  t.push_back(Whole("zmq-heartbeat-interval-ms", "KVROUTER_ZMQ_HEARTBEAT_INTERVAL_MS",
                    FIELD(zmq.heartbeat_interval), 0, kDayMs,
                    "Period of pings on event sockets, in ms; 0: none."));
  t.push_back(Whole("zmq-heartbeat-timeout-ms", "KVROUTER_ZMQ_HEARTBEAT_TIMEOUT_MS",
                    FIELD(zmq.heartbeat_timeout), 0, kDayMs,
                    "An event socket whose pings stay unanswered for this long is closed, in ms."));
  t.push_back(Whole("max-live-batches-during-replay", "KVROUTER_MAX_LIVE_BATCHES_DURING_REPLAY",
                    FIELD(zmq.max_live_batches_during_replay), 1, 1'000'000,
                    "Live event batches kept per rank while its replay runs."));
  t.push_back(OneOf<StoreCounting>(
      "feed-store-counting", "KVROUTER_FEED_STORE_COUNTING", FIELD(zmq.store_counting),
      {{"counted", StoreCounting::kCounted}, {"set", StoreCounting::kSet}}, {},
      "What a block stored again by a rank means: counted (another copy, which needs a removal of "
      "its own) or set (nothing new, for engines that announce prefixes they already hold)."));
}

void AddWarmRestart(std::vector<Option>* table) {
  auto& t = *table;
  t.push_back(Words("snapshot-path", "KVROUTER_SNAPSHOT_PATH", FIELD(snapshot.path),
                    "a path, or empty", Anything,
                    "File that keeps the index and the feeds' cursors for the next process; read "
                    "at the start. Empty: none."));
  t.push_back(Whole("snapshot-interval-secs", "KVROUTER_SNAPSHOT_INTERVAL_SECS",
                    FIELD(snapshot.interval), 0, 24 * 3600,
                    "Time between two snapshots, in s; 0: only when the process ends."));
  t.push_back(Whole("snapshot-worker-wait-secs", "KVROUTER_SNAPSHOT_WORKER_WAIT_SECS",
                    FIELD(snapshot.worker_wait), 0, 24 * 3600,
                    "How long what the snapshot says of a worker waits for the worker to be "
                    "registered, in s."));
  t.push_back(Whole("snapshot-final-bound-ms", "KVROUTER_SNAPSHOT_FINAL_BOUND_MS",
                    FIELD(snapshot.final_bound), 0, kMaxShutdownGraceMs,
                    "Longest time for the last snapshot, while running calls finish, in ms; 0: "
                    "none is written at the end."));
  t.push_back(Whole("snapshot-max-bytes", "KVROUTER_SNAPSHOT_MAX_BYTES", FIELD(snapshot.max_bytes),
                    1 << 20, uint64_t{1} << 40,
                    "Largest snapshot that is written or read, in bytes."));
  t.push_back(WordList("indexer-peers", "KVROUTER_INDEXER_PEERS", FIELD(peers.peers),
                       "[http://]HOST:PORT[,...], or empty",
                       "Other routers, ours or Dynamo's, whose /dump tells of ranks whose engines "
                       "cannot tell what they held before."));
  t.push_back(Whole("peer-timeout-ms", "KVROUTER_PEER_TIMEOUT_MS", FIELD(peers.timeout), 1, kHourMs,
                    "For one round through these peers together, in ms."));
  t.push_back(Whole("peer-max-dump-bytes", "KVROUTER_PEER_MAX_DUMP_BYTES",
                    FIELD(peers.max_dump_bytes), 1 << 20, uint64_t{1} << 32,
                    "Largest dump of a peer that is read, in bytes."));
}

bool IsEventPlane(std::string_view text) {
  return text == "none" || text == "nats" || text == "zmq";
}

void AddEventPlane(std::vector<Option>* table) {
  auto& t = *table;
  t.push_back(Words("event-plane", "DYN_EVENT_PLANE", FIELD(event_plane.transport),
                    "none, nats or zmq", IsEventPlane,
                    "Dynamo's event plane to listen to, for ranks without an event endpoint of "
                    "their own."));
  t.push_back(Words("event-plane-component", "KVROUTER_EVENT_PLANE_COMPONENT",
                    FIELD(event_plane.component), "text, or empty", Anything,
                    "Dynamo component whose workers are heard; empty: all of the namespace."));
  t.push_back(Words("event-plane-endpoint", "KVROUTER_EVENT_PLANE_ENDPOINT",
                    FIELD(event_plane.endpoint), "text, or empty", Anything,
                    "Dynamo endpoint, of that component, whose workers are heard; empty: all."));
  t.push_back(WordList("event-plane-publishers", "KVROUTER_EVENT_PLANE_PUBLISHERS",
                       FIELD(event_plane.zmq.publishers), "ENDPOINT[,...], or empty",
                       "With event-plane zmq: the sockets that workers publish on, when there is "
                       "no broker."));
  t.push_back(Words("zmq-broker-url", "DYN_ZMQ_BROKER_URL", FIELD(event_plane.zmq_broker_url),
                    "xsub=ENDPOINT[;...],xpub=ENDPOINT[;...], or empty", Anything,
                    "With event-plane zmq: the brokers; their xpub endpoints are connected to."));
  t.push_back(Whole("event-plane-gap-wait-ms", "KVROUTER_EVENT_PLANE_GAP_WAIT_MS",
                    FIELD(event_plane.gap_wait), 0, kDayMs,
                    "With several brokers: how long an event that came early waits for those "
                    "before it, in ms."));
  t.push_back(Whole("event-plane-doubt-ms", "KVROUTER_EVENT_PLANE_DOUBT_MS",
                    FIELD(event_plane.doubt_grace), 0, kDayMs,
                    "A rank that may have lost events, and can be repaired, is repaired unless its "
                    "next event settles the doubt before, in ms."));
  t.push_back(Whole("event-plane-repair-patience-ms", "KVROUTER_EVENT_PLANE_REPAIR_PATIENCE_MS",
                    FIELD(event_plane.repair_patience), 0, kDayMs,
                    "How long the blocks known before a loss are believed while it is being "
                    "repaired, in ms."));
  t.push_back(Whole("event-plane-queue-messages", "DYN_ZMQ_EVENT_SUBSCRIBER_CHANNEL_CAPACITY",
                    FIELD(event_plane.intake.max_queued_messages), 1, 10'000'000,
                    "Messages of the event plane received and not yet applied; beyond, new ones "
                    "are dropped."));
  t.push_back(Whole("event-plane-queue-bytes", "KVROUTER_EVENT_PLANE_QUEUE_BYTES",
                    FIELD(event_plane.intake.max_queued_bytes), 1 << 20, uint64_t{1} << 40,
                    "Memory of those messages together, in bytes."));
  t.push_back(WordList("nats-server", "NATS_SERVER", FIELD(event_plane.nats.servers),
                       "nats://HOST:PORT or tls://HOST:PORT [,...]",
                       "With event-plane nats: the servers, tried in turn."));
  t.push_back(Words("nats-auth-username", "NATS_AUTH_USERNAME", FIELD(event_plane.nats.username),
                    "text, or empty", Anything, "User at the NATS server."));
  t.push_back(Secret("nats-auth-password", "NATS_AUTH_PASSWORD", FIELD(event_plane.nats.password),
                     "Password of that user."));
  t.push_back(Secret("nats-auth-token", "NATS_AUTH_TOKEN", FIELD(event_plane.nats.token),
                     "Token instead of a user."));
  t.push_back(Secret("nats-auth-nkey", "NATS_AUTH_NKEY", FIELD(event_plane.nats.nkey_seed),
                     "Seed of an nkey (SU...) instead of a user."));
  t.push_back(Words("nats-auth-credentials-file", "NATS_AUTH_CREDENTIALS_FILE",
                    FIELD(event_plane.nats.credentials_file), "a path, or empty", Anything,
                    "File with JWT and seed instead of a user."));
  t.push_back(Words("nats-tls-ca-cert-path", "NATS_TLS_CA_CERT_PATH",
                    FIELD(event_plane.nats.tls_ca_cert_path), "a path, or empty", Anything,
                    "Certificates that the NATS server's is checked against; asks for TLS."));
  t.push_back(Switch("nats-tls-insecure", "NATS_TLS_INSECURE", FIELD(event_plane.nats.tls_insecure),
                     "TLS without checking the NATS server's certificate."));
  t.push_back(Whole("nats-reconnect-min-ms", "KVROUTER_NATS_RECONNECT_MIN_MS",
                    FIELD(event_plane.nats.reconnect_min), 1, kHourMs,
                    "First wait before another try to reach NATS, in ms; it doubles up to the "
                    "maximum, each time a random part of up to a half less."));
  t.push_back(Whole("nats-reconnect-max-ms", "KVROUTER_NATS_RECONNECT_MAX_MS",
                    FIELD(event_plane.nats.reconnect_max), 1, kHourMs,
                    "Longest such wait, in ms."));
}

void AddGrpc(std::vector<Option>* table) {
  auto& t = *table;
  t.push_back(Whole("grpc-max-message-bytes", "KVROUTER_GRPC_MAX_MESSAGE_BYTES",
                    FIELD(grpc.max_message_bytes), 1024, kMaxBytes - 1,
                    "Largest gRPC message, in bytes."));
  t.push_back(Whole("grpc-max-buffered-bytes", "KVROUTER_GRPC_MAX_BUFFERED_BYTES",
                    FIELD(grpc.max_buffered_bytes), 1 << 20, uint64_t{1} << 40,
                    "Of all gRPC messages under way together, in bytes; beyond it calls are ended. "
                    "Two messages of the largest size always fit."));
  t.push_back(Whole("grpc-max-connection-age-ms", "KVROUTER_GRPC_MAX_CONNECTION_AGE_MS",
                    FIELD(grpc.max_connection_age), 0, kDayMs,
                    "Connections are closed gracefully at this age so that an L4 balancer "
                    "rebalances, in ms; 0: never."));
  t.push_back(Whole("grpc-max-connection-age-grace-ms", "KVROUTER_GRPC_MAX_CONNECTION_AGE_GRACE_MS",
                    FIELD(grpc.max_connection_age_grace), 0, kDayMs,
                    "Time for running calls after that age, in ms."));
  t.push_back(Whole("grpc-keepalive-time-ms", "KVROUTER_GRPC_KEEPALIVE_TIME_MS",
                    FIELD(grpc.keepalive_time), 0, kDayMs,
                    "An idle client is pinged after this long, in ms; 0: never."));
  t.push_back(Whole("grpc-keepalive-timeout-ms", "KVROUTER_GRPC_KEEPALIVE_TIMEOUT_MS",
                    FIELD(grpc.keepalive_timeout), 1, kDayMs,
                    "A client that does not answer the ping for this long is gone, in ms."));
  t.push_back(Whole("grpc-min-client-ping-interval-ms", "KVROUTER_GRPC_MIN_CLIENT_PING_INTERVAL_MS",
                    FIELD(grpc.min_client_ping_interval), 0, kDayMs,
                    "Clients that ping more often are told to calm down, in ms."));
}

void AddHttp(std::vector<Option>* table) {
  auto& t = *table;
  t.push_back(Whole("http-threads", "KVROUTER_HTTP_THREADS", FIELD(http.threads), 1, 64,
                    "Threads of the HTTP server."));
  t.push_back(Whole("http-max-body-bytes", "KVROUTER_HTTP_MAX_BODY_BYTES",
                    FIELD(http.max_body_bytes), 0, kMaxBytes,
                    "Largest HTTP body, in bytes; beyond: 413."));
  t.push_back(Whole("http-max-header-bytes", "KVROUTER_HTTP_MAX_HEADER_BYTES",
                    FIELD(http.max_header_bytes), 256, 1 << 20,
                    "All headers of a request together, in bytes; beyond: 431."));
  t.push_back(Whole("http-max-connections", "KVROUTER_HTTP_MAX_CONNECTIONS",
                    FIELD(http.max_connections), 1, 1'000'000,
                    "Open HTTP connections; beyond, the one that waits longest for a request makes "
                    "room."));
  t.push_back(Whole("http-max-header-fields", "KVROUTER_HTTP_MAX_HEADER_FIELDS",
                    FIELD(http.max_header_fields), 16, 100'000,
                    "Header fields of a request; beyond: 431."));
  t.push_back(Whole("http-max-buffered-bytes", "KVROUTER_HTTP_MAX_BUFFERED_BYTES",
                    FIELD(http.max_buffered_bytes), 1 << 20, uint64_t{1} << 40,
                    "Request bodies and large answers that all HTTP connections hold together, in "
                    "bytes; beyond: 503."));
  t.push_back(Whole("http-read-timeout-ms", "KVROUTER_HTTP_READ_TIMEOUT_MS",
                    FIELD(http.read_timeout), 1, kDayMs,
                    "Time for a whole request once its first byte came, in ms."));
  t.push_back(Whole("http-idle-timeout-ms", "KVROUTER_HTTP_IDLE_TIMEOUT_MS",
                    FIELD(http.idle_timeout), 1, kDayMs,
                    "A kept connection without a request for this long is closed, in ms."));
  t.push_back(
      Whole("http-write-timeout-ms", "KVROUTER_HTTP_WRITE_TIMEOUT_MS", FIELD(http.write_timeout), 1,
            kDayMs,
            "A client that takes less than 64 KiB of its answer, or less than the rest, in this "
            "time is closed, in ms."));
  t.push_back(Whole("selection-cache-ttl-secs", "KVROUTER_SELECTION_CACHE_TTL_SECS",
                    FIELD(select_cache.ttl), 1, 86'400,
                    "How long the inputs of a /select with an id wait for their booking, in s."));
  t.push_back(Whole("selection-cache-max-entries", "KVROUTER_SELECTION_CACHE_MAX_ENTRIES",
                    FIELD(select_cache.max_entries), 0, 1'000'000,
                    "Inputs of /select calls kept at once; the oldest leave first."));
  t.push_back(Whole("selection-cache-max-bytes", "KVROUTER_SELECTION_CACHE_MAX_BYTES",
                    FIELD(select_cache.max_bytes), 0, kMaxBytes,
                    "Memory of the kept inputs of /select calls, in bytes."));
}

// What a request reads anew each time, queue and ejection (core/router_settings.h takes over the
// same), and the log's level. Everything else is in parts that were built from it.
bool IsReloadable(std::string_view name) {
  static constexpr std::array<std::string_view, 43> kNames = {
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
      "kv-source-timeout-ms"};
  return std::find(kNames.begin(), kNames.end(), name) != kNames.end();
}

void AddLabels(std::vector<Option>* table) {
  table->push_back(Words("namespace", "DYN_NAMESPACE", FIELD(metrics.dynamo_namespace), "text",
                         Anything, "Label dynamo_namespace of Dynamo's metrics."));
  table->push_back(
      Words("router-id", "KVROUTER_ROUTER_ID", FIELD(metrics.router_id), "text, or empty", Anything,
            "Label router_id of Dynamo's metrics; empty: a stable hash of the host name."));
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
    AddDoors(rows);
    AddRouting(rows);
    AddAdmission(rows);
    AddRecord(rows);
    AddOverlapSources(rows);
    AddSessions(rows);
    AddGate(rows);
    AddMigration(rows);
    AddDispatchOptions(rows);
    AddDiscovery(rows);
    AddIntrospection(rows);
    AddKubernetes(rows);
    AddFeeds(rows);
    AddEventPlane(rows);
    AddWarmRestart(rows);
    AddLimits(rows);
    AddGrpc(rows);
    AddHttp(rows);
    AddLabels(rows);
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
