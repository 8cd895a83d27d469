#include "sim/virtual/simulation.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <memory>
#include <optional>
#include <utility>

#include "base/check.h"
#include "base/status_macros.h"
#include "sim/virtual/fleet.h"
#include "sim/virtual/kv_moves.h"
#include "sim/virtual/trace_blocks.h"

namespace kvrouter::sim {
namespace {

double Ratio(double part, double whole) { return whole > 0 ? part / whole : 0; }

double Seconds(MonotonicTime time) { return std::chrono::duration<double>(time).count(); }

double MaxOverMean(const std::vector<uint64_t>& values) {
  double sum = 0;
  for (const uint64_t value : values) sum += static_cast<double>(value);
  const double mean = sum / static_cast<double>(values.size());
  return Ratio(static_cast<double>(*std::max_element(values.begin(), values.end())), mean);
}

// The smallest value that at least `percent` of all are not above.
double Percentile(std::vector<MonotonicTime>& values, double percent) {
  if (values.empty()) return 0;
  const double rank = std::ceil(percent / 100 * static_cast<double>(values.size()));
  const size_t index = static_cast<size_t>(std::max(1.0, rank)) - 1;
  std::nth_element(values.begin(), values.begin() + static_cast<ptrdiff_t>(index), values.end());
  return Seconds(values[index]);
}

EngineConfig WithBlockSize(EngineConfig engine, uint32_t block_size_tokens) {
  engine.block_size_tokens = block_size_tokens;
  return engine;
}

class Simulation {
 public:
  Simulation(const TraceBlocks& blocks, const SimulationConfig& config)
      : blocks_(blocks),
        trace_(blocks.trace()),
        config_(config),
        fleet_(config.workers, WithBlockSize(config.engine, trace_.block_size_tokens)),
        moves_(trace_, fleet_),
        arrivals_(trace_.rows.size()),
        requests_of_worker_(config.workers) {}

  absl::StatusOr<PolicyFigures> Run();

 private:
  absl::StatusOr<std::unique_ptr<Placement>> MakePlacement() const;
  absl::Status Arrive(size_t row_index, MonotonicTime now);
  // Runs the engines up to and including `until`.
  void RunEnginesUntil(MonotonicTime until);
  void Deliver(uint32_t worker, const std::vector<EngineEvent>& events);
  void See(const EngineEvent& event);
  PolicyFigures Figures(MonotonicTime arrival_span);

  const TraceBlocks& blocks_;
  const Trace& trace_;
  const SimulationConfig& config_;
  Fleet fleet_;
  KvMoves moves_;
  std::unique_ptr<Placement> placement_;
  HitSums sums_;
  std::array<uint64_t, kMigrationOutcomeCount> migration_outcomes_{};
  MonotonicTime now_{0};
  std::vector<MonotonicTime> arrivals_;  // by row
  std::vector<MonotonicTime> ttfts_;
  std::vector<uint64_t> requests_of_worker_;
};

absl::StatusOr<std::unique_ptr<Placement>> Simulation::MakePlacement() const {
  const PlacementInputs inputs{.trace = trace_, .blocks = blocks_, .fleet = fleet_};
  switch (config_.policy) {
    case Policy::kKv: {
      RouterConfig router = config_.router;
      router.random_seed = config_.seed;
      router.decision_detail = DecisionDetail::kWinner;
      return MakeKvPlacement(inputs, router);
    }
    case Policy::kRoundRobin:
      return MakeRoundRobinPlacement(inputs);
    case Policy::kRandom:
      return MakeRandomPlacement(inputs, config_.seed);
    case Policy::kLeastLoaded:
      return MakeLeastLoadedPlacement(inputs, config_.seed);
  }
  KVR_CHECK(false, "policy={}", static_cast<int>(config_.policy));
}

absl::StatusOr<PolicyFigures> Simulation::Run() {
  KVR_ASSIGN_OR_RETURN(placement_, MakePlacement());
  MonotonicTime arrival{0};
  for (size_t row_index = 0; row_index < trace_.rows.size(); ++row_index) {
    const double recorded_ns = static_cast<double>(trace_.rows[row_index].arrival.count());
    arrival = MonotonicTime(std::llround(recorded_ns / config_.speedup));
    RunEnginesUntil(config_.sequential ? MonotonicTime::max() : arrival);
    now_ = std::max(now_, arrival);
    KVR_RETURN_IF_ERROR(Arrive(row_index, now_));
  }
  RunEnginesUntil(MonotonicTime::max());
  return Figures(arrival);
}

void Simulation::RunEnginesUntil(MonotonicTime until) {
  const auto next = [this] { return std::min(fleet_.NextEventTime(), moves_.NextExpiry()); };
  for (MonotonicTime at = next(); at <= until && at != MonotonicTime::max(); at = next()) {
    now_ = at;
    if (fleet_.NextEventTime() <= at) {
      const Fleet::WorkerEvents step = fleet_.Step();
      Deliver(step.worker, step.events);
    } else {
      moves_.Expire(at);
    }
    while (const std::optional<KvMoves::Ending> ending = moves_.TakeEnding()) {
      std::vector<EngineEvent> events;
      fleet_.engine(ending->worker).AdvanceTo(at, &events);
      Deliver(ending->worker, events);
      moves_.End(*ending, at);
    }
  }
}

void Simulation::Deliver(uint32_t worker, const std::vector<EngineEvent>& events) {
  for (const EngineEvent& event : events) {
    moves_.See(event);
    placement_->See(worker, event);
    See(event);
  }
}

absl::Status Simulation::Arrive(size_t row_index, MonotonicTime now) {
  const TraceRow& row = trace_.rows[row_index];
  KVR_ASSIGN_OR_RETURN(const Placed placed, placement_->Place(row_index, now));
  arrivals_[row_index] = now;
  ++requests_of_worker_[placed.worker];
  if (placed.migration) ++migration_outcomes_[static_cast<size_t>(*placed.migration)];
  if (placed.pull) {
    moves_.Begin(row_index, *placed.pull, placed.worker, now);
  } else {
    fleet_.engine(placed.worker)
        .Submit({.id = row_index,
                 .isl_tokens = row.isl_tokens,
                 .osl_tokens = row.osl_tokens,
                 .block_hashes = TraceBlocks::EngineHashes(placed.worker, row)},
                now);
  }

  const uint64_t block_tokens = trace_.block_size_tokens;
  const uint64_t isl_blocks = (row.isl_tokens + block_tokens - 1) / block_tokens;
  ++sums_.requests;
  sums_.isl_tokens += row.isl_tokens;
  sums_.isl_blocks += isl_blocks;
  sums_.full_blocks += row.block_ids.size();
  sums_.overlap_blocks += placed.overlap_blocks;
  if (isl_blocks > 0) {
    ++sums_.observations;
    sums_.overlap_ratio_sum +=
        static_cast<double>(placed.overlap_blocks) / static_cast<double>(isl_blocks);
  }
  return absl::OkStatus();
}

void Simulation::See(const EngineEvent& event) {
  if (const auto* started = std::get_if<PrefillStarted>(&event.what)) {
    if (KvMoves::IsSourceStep(started->id)) return;
    const size_t full_blocks = trace_.rows[started->id].block_ids.size();
    const uint64_t hit_blocks = moves_.SourceHitBlocks(started->id).value_or(started->hit_blocks);
    sums_.hit_blocks += hit_blocks;
    sums_.hit_full_block_ratio_sum +=
        Ratio(static_cast<double>(hit_blocks), static_cast<double>(full_blocks));
  } else if (const auto* first = std::get_if<FirstToken>(&event.what)) {
    if (KvMoves::IsSourceStep(first->id)) return;
    ttfts_.push_back(event.at - arrivals_[first->id]);
  }
}

PolicyFigures Simulation::Figures(MonotonicTime arrival_span) {
  std::vector<uint64_t> prefill_tokens;
  double prefill_tokens_sum = 0;
  for (uint32_t worker = 0; worker < fleet_.size(); ++worker) {
    const EngineTotals& totals = fleet_.engine(worker).Totals();
    sums_.engine_query_tokens += totals.prefix_cache_query_tokens;
    sums_.engine_hit_tokens += totals.prefix_cache_hit_tokens;
    prefill_tokens.push_back(totals.computed_prefill_tokens);
    prefill_tokens_sum += static_cast<double>(totals.computed_prefill_tokens);
  }
  const auto ratio = [](uint64_t part, uint64_t whole) {
    return Ratio(static_cast<double>(part), static_cast<double>(whole));
  };
  MoveSums moves = moves_.sums();
  moves.outcomes = migration_outcomes_;
  const double capacity_tokens =
      config_.engine.prefill_tokens_per_s * config_.workers * Seconds(arrival_span);
  return {
      .policy = config_.policy,
      .sums = sums_,
      .moves = moves,
      .router_token_weighted =
          ratio(sums_.overlap_blocks * trace_.block_size_tokens, sums_.isl_tokens),
      .engine_token_weighted = ratio(sums_.engine_hit_tokens, sums_.engine_query_tokens),
      .router_block_weighted = ratio(sums_.overlap_blocks, sums_.isl_blocks),
      .full_block_hit = ratio(sums_.hit_blocks, sums_.full_blocks),
      .request_weighted = Ratio(sums_.overlap_ratio_sum, static_cast<double>(sums_.observations)),
      .full_block_request_hit =
          Ratio(sums_.hit_full_block_ratio_sum, static_cast<double>(sums_.requests)),
      .max_over_mean_prefill = MaxOverMean(prefill_tokens),
      .max_over_mean_requests = MaxOverMean(requests_of_worker_),
      .ttft_p50_s = Percentile(ttfts_, 50),
      .ttft_p99_s = Percentile(ttfts_, 99),
      .prefill_util = Ratio(prefill_tokens_sum, capacity_tokens),
  };
}

}  // namespace

absl::StatusOr<PolicyFigures> Simulate(const TraceBlocks& blocks, const SimulationConfig& config) {
  if (config.workers == 0) return absl::InvalidArgumentError("workers must be > 0, got 0");
  if (!(config.speedup > 0) || !std::isfinite(config.speedup)) {
    return absl::InvalidArgumentError(fmt::format("speedup must be > 0, got {}", config.speedup));
  }
  if (config.policy == Policy::kKv && config.router.migration.mode == MigrationMode::kMigrate &&
      config.engine.service != EngineConfig::Service::kContinuousBatching) {
    return absl::InvalidArgumentError(
        "kv_migration=migrate needs engines that exchange blocks: service continuous_batching");
  }
  return Simulation(blocks, config).Run();
}

absl::StatusOr<PolicyFigures> SimulateMean(const TraceBlocks& blocks, SimulationConfig config,
                                           uint32_t runs) {
  if (runs == 0) return absl::InvalidArgumentError("runs must be > 0, got 0");
  const bool is_random = config.policy != Policy::kRoundRobin && config.workers > 1;
  std::vector<PolicyFigures> figures;
  for (uint32_t run = 0; run < (is_random ? runs : 1); ++run, ++config.seed) {
    KVR_ASSIGN_OR_RETURN(const PolicyFigures one, Simulate(blocks, config));
    figures.push_back(one);
  }
  return MeanFigures(figures);
}

}  // namespace kvrouter::sim
