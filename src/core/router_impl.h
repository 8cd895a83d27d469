#ifndef KVROUTER_CORE_ROUTER_IMPL_H_
#define KVROUTER_CORE_ROUTER_IMPL_H_

#include <fmt/format.h>

#include <atomic>
#include <cstdint>
#include <memory>
#include <span>
#include <string_view>
#include <variant>
#include <vector>

#include "core/decision_description.h"
#include "core/decision_scratch.h"
#include "core/external_tier_cache.h"
#include "core/parked_request.h"
#include "core/partition_directory.h"
#include "core/phase_timer.h"
#include "core/prompt.h"
#include "core/request_course.h"
#include "core/request_planner.h"
#include "core/router_settings.h"
#include "core/schedule/candidate_detail.h"
#include "core/schedule/candidate_filter.h"
#include "core/schedule/effective_weights.h"
#include "core/schedule/shadow.h"
#include "kvrouter/block_hash.h"
#include "kvrouter/error.h"
#include "kvrouter/router.h"

namespace kvrouter {

// The parts of Router, for its own files: router.cc decides, router_queries.cc only looks.
struct Router::Impl {
  Impl(const RouterConfig& checked_config, DecisionSink* decision_sink,
       PhaseObserver* phase_observer, DecisionRecorder* decision_recorder,
       const SharedCacheView* shared)
      : settings(checked_config),
        sink(decision_sink),
        phases(phase_observer),
        recorder(decision_recorder),
        planner(checked_config),
        directory(checked_config),
        external_tier(&directory),
        shared_cache(SharedCacheOf(checked_config, shared)) {}

  // The one that the embedder brought, else the one of the configuration.
  const SharedCacheView* SharedCacheOf(const RouterConfig& config,
                                       const SharedCacheView* brought) const {
    if (brought != nullptr) return brought;
    const bool is_tier = config.overlap_source.shared_cache_type == SharedCacheType::kExternalTier;
    return is_tier ? &external_tier : nullptr;
  }

  // Which blocks of the prompt any worker could fetch; nobody looks where they are worth nothing.
  std::span<const BlockRange> FindShared(const RouteRequest& request,
                                         const IdentifiedPrompt& prompt,
                                         const EffectiveWeights& weights,
                                         std::vector<BlockRange>* hits) const {
    if (shared_cache == nullptr || weights.cost.shared_cache_multiplier == 0) return {};
    shared_cache->FindHits(request.model_name, request.routing_group, prompt.local_hashes,
                           prompt.sequence_hashes, hits);
    return *hits;
  }

  absl::StatusOr<std::shared_ptr<Partition>> FindPartition(const RouteRequest& request) const {
    return FindPartition(request.model_name, request.routing_group);
  }

  absl::StatusOr<std::shared_ptr<Partition>> FindPartition(std::string_view model_name,
                                                           std::string_view routing_group) const {
    auto partition = directory.Find(model_name, routing_group);
    if (partition) return partition;
    return MakeError(absl::StatusCode::kNotFound, ErrorReason::kUnknownPartition,
                     fmt::format("no worker was registered for model {} in routing group {}",
                                 model_name, routing_group));
  }

  // A prompt that is only looked at: identified, with what targets hold of it in `scratch`.
  struct Looked {
    std::shared_ptr<Partition> partition;
    IdentifiedPrompt prompt;
  };
  absl::StatusOr<Looked> LookUp(const RouteRequest& request, DecisionScratch* scratch) const;

  // Who reads the session of a request: the tables of bindings, the gate, the planner.
  static bool WantsSessions(const RouterConfig& config) {
    return config.sessions.affinity_ttl || config.gate.length.local_continuations ||
           config.migration.mode != MigrationMode::kOff;
  }

  // None if nobody would want to know.
  static SessionIdentifier::Identity IdentifySession(const RouterConfig& config,
                                                     const RouteRequest& request,
                                                     const IdentifiedPrompt& prompt,
                                                     Partition* partition, MonotonicTime now) {
    if (!WantsSessions(config)) return {};
    PartitionSessions::Request named{
        .caller_id = request.session_id,
        .prompt = {.chain = prompt.sequence_hashes,
                   .isl_tokens = prompt.isl_tokens,
                   .naming = {.block_size_tokens = prompt.block_size_tokens,
                              .is_eagle = prompt.is_eagle,
                              .image_token_id = prompt.image_token_id},
                   .block_seed = BlockSeed(
                       {.lora_name = request.lora_name, .cache_salt = request.cache_salt})},
        .targets = partition->scheduler().OpenTargets(TargetPool::kDecode),
        .book = request.book};
    if (const auto* tokens = std::get_if<TokenPrompt>(&request.prompt)) {
      named.prompt.token_ids = tokens->token_ids;
      named.prompt.multimodal = tokens->multimodal;
    }
    return partition->sessions().Identify(named, now);
  }

  // The blocks by which the ledger knows the prompt: none when it does not count blocks.
  static std::span<const SequenceHash> LedgerChain(const RouterConfig& config,
                                                   const IdentifiedPrompt& prompt) {
    return config.scheduler.track_active_blocks ? prompt.sequence_hashes
                                                : std::span<const SequenceHash>();
  }

  static bool ListsFiltered(const RouterConfig& config) {
    return config.decision_detail == DecisionDetail::kFull;
  }

  static void ExpectToKeep(const RouterConfig& config, DecisionScratch* scratch) {
    if (config.decision_detail == DecisionDetail::kFull) scratch->candidates.seen.ExpectToKeep();
  }

  // The target will hold the prompt, for those sources of overlap that go by bookings.
  static void Remember(Partition* partition, const RouteDecision& decision,
                       const IdentifiedPrompt& prompt, MonotonicTime now) {
    partition->Record(decision.target, decision.incarnation, prompt.local_hashes,
                      prompt.sequence_hashes, now);
  }

  // What another policy would have chosen from the same table, where there was something to choose.
  void TryShadow(const RouteRequest& request, const RouterConfig& config,
                 const Placement& placement, DecisionScratch* scratch, RouteDecision* decision) {
    if (!config.shadow || !IsByCost(placement.reason) || scratch->candidates.seen.size() < 2)
      return;
    const uint64_t number = shadow_number.fetch_add(1, std::memory_order_relaxed);
    // What holds for every second leg holds under any policy.
    const ConfigOverride overrides = scratch->candidates.context.decode_pool
                                         ? DecodeLegOverrides(config, request.overrides)
                                         : request.overrides;
    decision->shadow =
        ChooseInShadow(scratch->candidates, placement, ShadowWeights(config, overrides),
                       config.random_seed + number, &scratch->shadow_costs);
  }

  void Report(const RouteRequest& request, const RouteDecision& decision,
              const IdentifiedPrompt& prompt, const CandidateTable& table) const {
    if (sink != nullptr) sink->OnDecision(request, decision);
    if (recorder == nullptr) return;
    const TableCandidates all(table);
    const CandidateList candidates(std::shared_ptr<const CandidateSource>(
        std::shared_ptr<const CandidateSource>(), &all));  // owns nothing
    recorder->Record({.request = request,
                      .decision = decision,
                      .candidates = candidates,
                      .sequence_hashes = prompt.sequence_hashes});
  }

  void Pump(Partition* partition, MonotonicTime now, std::vector<Resolved>* resolved);
  // What became of a released request; `scratch` has its candidates.
  absl::StatusOr<RouteDecision> DecisionOf(const Scheduler::Released& released,
                                           const absl::StatusOr<Placement>& placement,
                                           Partition* partition, MonotonicTime now,
                                           DecisionScratch* scratch);

  RouterSettings settings;
  DecisionSink* const sink;
  PhaseObserver* const phases;
  DecisionRecorder* const recorder;
  std::atomic<uint64_t> shadow_number{0};
  RequestPlanner planner;
  PartitionDirectory directory;
  const ExternalTierCache external_tier;
  const SharedCacheView* const shared_cache;  // null: none
};

}  // namespace kvrouter

#endif  // KVROUTER_CORE_ROUTER_IMPL_H_
