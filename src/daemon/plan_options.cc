#include <vector>

#include "daemon/option_areas.h"
#include "daemon/option_builders.h"
#include "daemon/option_ranges.h"

namespace kvrouter {

void AddSessionOptions(std::vector<Option>* table) {
  auto& t = *table;
  t.push_back(OptionalWhole("router-session-affinity-ttl-secs",
                            "DYN_ROUTER_SESSION_AFFINITY_TTL_SECS",
                            KVR_SETTING(router.sessions.affinity_ttl), 1, kYearSeconds,
                            "A session stays on its target until it has been idle for this long, "
                            "in s; none: sessions are not bound."));
  t.push_back(Whole("session-from-prefix-tokens", "DYN_SESSION_FROM_PREFIX_TOKENS",
                    KVR_SETTING(router.sessions.prefix_tokens), 0, kMaxU32,
                    "Requests whose caller names no session are told apart by their first so many "
                    "tokens; 0: not at all."));
  t.push_back(Switch("session-rendezvous", "DYN_SESSION_RENDEZVOUS",
                     KVR_SETTING(router.sessions.rendezvous),
                     "A session without a target goes to the one that every router would choose "
                     "for it, not to the one with the lowest cost."));
  t.push_back(Switch("session-soft", "KVROUTER_SESSION_SOFT", KVR_SETTING(router.sessions.soft),
                     "A session's target is preferred, not fixed: it moves when staying costs too "
                     "much."));
  t.push_back(Real("session-soft-max-cost-factor", "KVROUTER_SESSION_SOFT_MAX_COST_FACTOR",
                   KVR_SETTING(router.sessions.soft_pin.max_cost_factor), kUnbounded,
                   "With session-soft: it stays while its cost is at most this times the lowest, "
                   "and session-soft-max-extra-cost-blocks more; at least 1."));
  t.push_back(Real("session-soft-max-extra-cost-blocks",
                   "KVROUTER_SESSION_SOFT_MAX_EXTRA_COST_BLOCKS",
                   KVR_SETTING(router.sessions.soft_pin.max_extra_cost_blocks), kUnbounded,
                   "With session-soft: see there, in blocks."));
  t.push_back(Whole("max-sessions", "KVROUTER_MAX_SESSIONS",
                    KVR_SETTING(router.sessions.max_sessions), 1, kMaxU32,
                    "Bound sessions of a partition's prefill workers, and as many of its others; "
                    "the longest idle one makes room."));
  t.push_back(Real("session-hot-share-of-mean", "KVROUTER_SESSION_HOT_SHARE_OF_MEAN",
                   KVR_SETTING(router.sessions.hot_share_of_mean), kUnbounded,
                   "A derived session with more than this many times a target's share of the load "
                   "is what many have in common, and is not bound; above 0."));
  t.push_back(Whole("session-hot-min-requests", "KVROUTER_SESSION_HOT_MIN_REQUESTS",
                    KVR_SETTING(router.sessions.hot_min_requests), 1, kMaxU32,
                    "Fewer requests, faded, are never that."));
  t.push_back(Whole("session-hot-half-life-secs", "KVROUTER_SESSION_HOT_HALF_LIFE_SECS",
                    KVR_SETTING(router.sessions.hot_half_life), 1, kYearSeconds,
                    "Time in which that load fades by half, in s."));
}

void AddGateOptions(std::vector<Option>* table) {
  auto& t = *table;
  t.push_back(Whole("min-remote-prefill-tokens", "DYN_MIN_REMOTE_PREFILL_TOKENS",
                    KVR_SETTING(router.gate.length.min_remote_prefill_tokens), 0, kMaxU64,
                    "Shorter prompts are computed by the worker that decodes, not by a prefill "
                    "worker; 0: length does not matter."));
  t.push_back(OneOf<LengthGate::Measure>(
      "min-remote-prefill-measure", "KVROUTER_MIN_REMOTE_PREFILL_MEASURE",
      KVR_SETTING(router.gate.length.measure),
      {{"prompt", LengthGate::Measure::kPrompt}, {"uncached", LengthGate::Measure::kUncached}}, {},
      "What is compared with it: the prompt, or what the decode worker does not hold of it."));
  t.push_back(Switch("local-continuations", "DYN_LOCAL_CONTINUATIONS",
                     KVR_SETTING(router.gate.length.local_continuations),
                     "With min-remote-prefill-tokens: sessions seen within the hour are served by "
                     "the worker that decodes, whatever the length."));
  t.push_back(Switch("router-conditional-disagg", "DYN_ROUTER_CONDITIONAL_DISAGG",
                     KVR_SETTING(router.gate.conditional.enabled),
                     "Dynamo's conditional disaggregation: prefill on the decode worker where that "
                     "is cheap, or prefill workers are busy."));
  t.push_back(Words("router-conditional-disagg-config", "DYN_ROUTER_CONDITIONAL_DISAGG_CONFIG",
                    KVR_SETTING(conditional_disagg_json), "a JSON object, or empty", Anything,
                    "The next five by the names policy, eff_isl_threshold, eff_isl_ratio_threshold,"
                    " prefill_busy_threshold and decode_busy_threshold; stronger than them."));
  t.push_back(OneOf<ConditionalDisagg::Policy>(
      "router-conditional-disagg-policy", "DYN_ROUTER_CONDITIONAL_DISAGG_POLICY",
      KVR_SETTING(router.gate.conditional.policy),
      {{"isl_bounding", ConditionalDisagg::Policy::kIslBounding},
       {"prefill_load", ConditionalDisagg::Policy::kPrefillLoad},
       {"isl_or_load", ConditionalDisagg::Policy::kIslOrLoad}},
      {}, "Few new tokens, busy prefill workers, or either."));
  t.push_back(Whole("router-conditional-disagg-eff-isl-threshold",
                    "DYN_ROUTER_CONDITIONAL_DISAGG_EFF_ISL_THRESHOLD",
                    KVR_SETTING(router.gate.conditional.eff_isl_threshold_tokens), 0, kMaxU64,
                    "Few: fewer new tokens than this, and"));
  t.push_back(Real("router-conditional-disagg-eff-isl-ratio-threshold",
                   "DYN_ROUTER_CONDITIONAL_DISAGG_EFF_ISL_RATIO_THRESHOLD",
                   KVR_SETTING(router.gate.conditional.eff_isl_ratio_threshold), 1,
                   "a smaller share of the prompt than this."));
  t.push_back(OptionalReal("router-conditional-disagg-prefill-busy-threshold",
                           "DYN_ROUTER_CONDITIONAL_DISAGG_PREFILL_BUSY_THRESHOLD",
                           KVR_SETTING(router.gate.conditional.prefill_busy_threshold), kUnbounded,
                           "Busy: more pending prefill tokens than this share of "
                           "max_num_batched_tokens; the load policies need it."));
  t.push_back(OptionalReal("router-conditional-disagg-decode-busy-threshold",
                           "DYN_ROUTER_CONDITIONAL_DISAGG_DECODE_BUSY_THRESHOLD",
                           KVR_SETTING(router.gate.conditional.decode_busy_threshold), kUnbounded,
                           "Not there if the decode worker would have more than this share of its "
                           "blocks in use."));
  t.push_back(Switch("strict-disaggregation", "KVROUTER_STRICT_DISAGGREGATION",
                     KVR_SETTING(router.strict_disaggregation),
                     "A prefill leg that cannot be had, or fails, fails the request; otherwise it "
                     "is served by the worker that decodes."));
}

void AddMigrationOptions(std::vector<Option>* table) {
  auto& t = *table;
  t.push_back(OneOf<MigrationMode>(
      "kv-migration", "DYN_KV_MIGRATION", KVR_SETTING(router.migration.mode),
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
                    KVR_SETTING(router.migration.min_tokens), 0, kMaxU64,
                    "From this many tokens on."));
  t.push_back(OptionalWhole("kv-migration-min-gain-tokens", "KVROUTER_KV_MIGRATION_MIN_GAIN_TOKENS",
                            KVR_SETTING(router.migration.min_gain_tokens), 0, kMaxU64,
                            "And if the source holds this many more than the target; none: "
                            "kv-migration-min-tokens."));
  t.push_back(Whole("kv-migration-prefill-tokens-per-s",
                    "KVROUTER_KV_MIGRATION_PREFILL_TOKENS_PER_S",
                    KVR_SETTING(router.migration.prefill_tokens_per_s), 0, 1'000'000'000,
                    "Prompt tokens a second of a worker that has nothing else to do: a pull that "
                    "would not be faster than computing is refused. 0: only the floors count."));
  t.push_back(Whole("kv-migration-transfer-us-per-block",
                    "KVROUTER_KV_MIGRATION_TRANSFER_US_PER_BLOCK",
                    KVR_SETTING(router.migration.transfer_us_per_block), 0, 3'600'000'000,
                    "For how many microseconds a block is under way between workers; of use with "
                    "kv-migration-prefill-tokens-per-s only."));
  t.push_back(Whole("kv-source-timeout-ms", "KVROUTER_KV_SOURCE_TIMEOUT_MS",
                    KVR_SETTING(router.kv_source_timeout), 1, kDayMs,
                    "What callers are told to grant the worker that hands its blocks over, in "
                    "ms."));
}

}  // namespace kvrouter
