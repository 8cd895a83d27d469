#ifndef KVROUTER_CONFIG_H_
#define KVROUTER_CONFIG_H_

#include <chrono>
#include <cstdint>
#include <optional>
#include <string_view>

#include "absl/status/status.h"
#include "kvrouter/admission.h"
#include "kvrouter/plan.h"
#include "kvrouter/session.h"

namespace kvrouter {

// Weights of the cost formula (docs/routing.md#cost). Names, defaults and ranges are Dynamo
// v1.4.1's KvRouterConfig.
struct CostWeights {
  double overlap_score_credit = 1.0;  // >= 0, finite. Credit per overlapping device block
  double overlap_score_credit_decay =
      0.0;                          // >= 0, finite. How fast credit fades on busy prefill workers
  double prefill_load_scale = 1.0;  // >= 0, finite. Weight of the prefill term
  double decode_active_request_weight = 0.0;  // >= 0, finite. Cost in blocks per active request
  double host_cache_hit_weight = 0.75;        // 0..1. Credit per block on host memory
  double disk_cache_hit_weight = 0.25;        // 0..1. Credit per block on disk or external
  double shared_cache_multiplier = 0.0;       // 0..1. Credit per block in a shared cache

  friend bool operator==(const CostWeights&, const CostWeights&) = default;
};

// A second policy, tried on the same inputs and never acted on. What a request overrides is
// overridden for both.
struct ShadowPolicy {
  CostWeights weights;
  double router_temperature = 0.0;  // >= 0, finite

  friend bool operator==(const ShadowPolicy&, const ShadowPolicy&) = default;
};

struct SchedulerConfig {
  CostWeights weights;
  double router_temperature =
      0.0;  // >= 0, finite. 0 = lowest cost, ties at random; else softmax over costs
  bool track_active_blocks =
      true;  // count the distinct prompt blocks of live requests as decode load
  bool track_output_blocks =
      false;  // count generated blocks as they are reported; needs track_active_blocks
  bool assume_kv_reuse = true;       // false: live requests never share blocks in the ledger
  bool track_prefill_tokens = true;  // count uncached prompt tokens until prefill completes
  // Bookings without any sign of life (prefill done, output block, keep-alive) for this long are
  // released and counted. Checked by Router::Expire, which the daemon calls every
  // `expiry_check_period`.
  std::chrono::seconds active_request_expiry{300};      // > 0
  std::chrono::milliseconds expiry_check_period{5000};  // > 0
  // Live bookings per partition; the next one fails with kLimitReached. Bounds memory against
  // callers that never free.
  uint64_t max_bookings = 1'000'000;  // 1..4,194,304
  OverloadThresholds overload;
  QueueConfig queue;
  OutlierEjectionConfig outlier_ejection;

  friend bool operator==(const SchedulerConfig&, const SchedulerConfig&) = default;
};

// Where the router knows from which blocks its workers hold (docs/routing.md#overlap-sources).
enum class OverlapSource : uint8_t {
  kNone,     // nobody asks: every overlap is 0, and there is no index
  kEvents,   // the engines' KV events
  kRouting,  // its own decisions: a prompt sent somewhere is held there for a while
};

// As metrics and logs name it: "none", "events", "routing".
std::string_view OverlapSourceName(OverlapSource source);

// Blocks that are of use to every worker, besides its own.
enum class SharedCacheType : uint8_t {
  kNone,
  kExternalTier,  // what any worker announced on its external tier: one store that all read
};

struct OverlapSourceConfig {
  bool use_kv_events = true;
  // Without events: how long a prompt counts as held by the target it was booked on.
  std::chrono::nanoseconds router_ttl = std::chrono::seconds(120);  // >= 0
  // With events: how long it counts as held besides what events say. Absent: not at all.
  std::optional<std::chrono::nanoseconds> predicted_ttl = {};  // >= 0
  // Blocks remembered for either per partition; beyond it those that would expire first leave.
  uint64_t max_routed_blocks = 16'777'216;  // 1..kMaxRoutedBlocksLimit
  SharedCacheType shared_cache_type = SharedCacheType::kNone;

  friend bool operator==(const OverlapSourceConfig&, const OverlapSourceConfig&) = default;
};

// How much of each decision is kept for explanation, metrics and logs.
enum class DecisionDetail : uint8_t {
  // All candidates up to kMaxDetailedCandidates, else the best kBestCandidates and a summary.
  kFull,
  kWinner,  // the chosen candidate only
};

struct RouterConfig {
  SchedulerConfig scheduler;
  OverlapSourceConfig overlap_source;
  DecisionDetail decision_detail = DecisionDetail::kFull;
  SessionConfig sessions = {};
  GateConfig gate = {};  // for partitions with prefill workers
  MigrationConfig migration = {};
  // A prefill leg that cannot be had fails the request, in place of serving it locally.
  bool strict_disaggregation = false;
  // What callers are told to grant the worker that blocks are pulled from.
  std::chrono::milliseconds kv_source_timeout{10'000};  // > 0
  // Seed of the random generator for ties and sampling; each partition derives its own from it. 0
  // is as good as any.
  uint64_t random_seed = 0;
  uint32_t max_partitions = 1024;  // 1..4096. (model, routing group) pairs
  uint32_t max_workers = 4096;     // > 0. Registered workers over all partitions
  // Blocks of one rank on its device, and on one tier below it, of those that engines announce. Who
  // announces more is taken not to announce removals: what was known of the tier is forgotten (with
  // the device, of all tiers), and it fills again. Names of a block beyond its first count as
  // blocks.
  uint32_t max_device_blocks = 16'777'216;      // > 0
  uint32_t max_lower_tier_blocks = 16'777'216;  // > 0
  // The same of all ranks, tiers and partitions together, counted by rank: what the memory of the
  // index follows. Router::BoundIndex keeps it.
  uint64_t max_index_blocks = 1'073'741'824;  // 1..2^40
  std::optional<ShadowPolicy> shadow = std::nullopt;

  friend bool operator==(const RouterConfig&, const RouterConfig&) = default;
};

// A credit of 0 asks for no index, whatever the source would be.
inline OverlapSource OverlapSourceOf(const RouterConfig& config) {
  if (config.scheduler.weights.overlap_score_credit == 0) return OverlapSource::kNone;
  return config.overlap_source.use_kv_events ? OverlapSource::kEvents : OverlapSource::kRouting;
}

// OK, or INVALID_ARGUMENT naming the field, the value and the allowed range.
absl::Status Validate(const RouterConfig& config);

}  // namespace kvrouter

#endif  // KVROUTER_CONFIG_H_
