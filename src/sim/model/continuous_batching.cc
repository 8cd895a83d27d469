// The kContinuousBatching service model: steps of batched work over a pool of pinned blocks.
#include <algorithm>
#include <deque>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_set.h"
#include "base/check.h"
#include "sim/model/block_pool.h"
#include "sim/model/engine_service.h"

namespace kvrouter::sim {
namespace {

// One step: Schedule hands out the token budget and caches the prompt blocks that become full; the
// step then lasts as long as its work; EndStep gives every request that is past its prompt one
// output token.
//
// A request takes the blocks for its prompt and its whole answer when it is admitted (the model
// knows the answer's length), so no running request ever runs out of blocks and nothing is
// preempted. One that needs more than the whole pool takes the whole pool: it runs alone and caches
// what fits.
class ContinuousBatching final : public EngineService {
 public:
  explicit ContinuousBatching(const EngineConfig& config)
      : config_(config), pool_(config.capacity_blocks) {}

  void Submit(EngineRequest request, MonotonicTime now) override;
  void Abort(uint64_t id, MonotonicTime now) override;
  MonotonicTime NextEventTime() const override;
  void AdvanceTo(MonotonicTime now, std::vector<EngineEvent>* out) override;
  bool ResetPrefixCache() override { return pool_.Clear(); }
  const EngineTotals& Totals() const override { return totals_; }
  EngineGauges Gauges() const override;
  uint64_t CachedPrefixBlocks(std::span<const EngineHash> block_hashes) const override {
    return pool_.PrefixBlocks(block_hashes);
  }

 private:
  struct Waiting {
    EngineRequest request;
    MonotonicTime arrival{};
  };
  struct Running {
    EngineRequest request;
    uint64_t prompt_tokens = 0;    // to be computed before the first output token; at least 1
    uint64_t computed_tokens = 0;  // of them, found in the cache or scheduled so far
    uint64_t output_tokens = 0;
    bool in_step = false;  // has tokens in the step that runs now
    std::vector<BlockPool::BlockIndex> blocks;

    bool InPrefill() const { return computed_tokens < prompt_tokens; }
  };
  struct StepWork {
    uint64_t budget_tokens = 0;  // left
    uint64_t prefill_tokens = 0;
    uint64_t decode_tokens = 0;
  };

  void Schedule(MonotonicTime at, std::vector<EngineEvent>* out);
  bool AdmitNext(MonotonicTime at, std::vector<EngineEvent>* out);
  void SchedulePrefill(MonotonicTime at, Running& running, StepWork& work,
                       std::vector<EngineEvent>* out);
  void EndStep(MonotonicTime at, std::vector<EngineEvent>* out);
  uint64_t BlocksNeeded(const EngineRequest& request) const;

  const EngineConfig config_;
  BlockPool pool_;
  absl::flat_hash_set<uint64_t> live_ids_;
  std::deque<Waiting> waiting_;   // in order of arrival
  std::vector<Running> running_;  // in order of admission; at most max_running
  std::optional<MonotonicTime> step_end_;
  MonotonicTime last_step_end_{};
  EngineTotals totals_;
};

void ContinuousBatching::Submit(EngineRequest request, MonotonicTime now) {
  KVR_CHECK(request.block_hashes.size() == request.isl_tokens / config_.block_size_tokens,
            "hashes={} isl_tokens={} block_size_tokens={}", request.block_hashes.size(),
            request.isl_tokens, config_.block_size_tokens);
  KVR_CHECK(live_ids_.insert(request.id).second, "request id {} is live", request.id);
  waiting_.push_back({.request = std::move(request), .arrival = now});
}

void ContinuousBatching::Abort(uint64_t id, MonotonicTime /*now*/) {
  if (live_ids_.erase(id) == 0) return;
  ++totals_.requests_aborted;
  const auto running = std::find_if(running_.begin(), running_.end(),
                                    [id](const Running& r) { return r.request.id == id; });
  if (running != running_.end()) {
    pool_.Release(running->blocks);
    running_.erase(running);  // the step that runs keeps its length: its work was handed out
    return;
  }
  waiting_.erase(std::find_if(waiting_.begin(), waiting_.end(),
                              [id](const Waiting& w) { return w.request.id == id; }));
}

MonotonicTime ContinuousBatching::NextEventTime() const {
  if (step_end_) return *step_end_;
  if (!running_.empty()) return last_step_end_;
  if (!waiting_.empty()) return std::max(last_step_end_, waiting_.front().arrival);
  return MonotonicTime::max();
}

void ContinuousBatching::AdvanceTo(MonotonicTime now, std::vector<EngineEvent>* out) {
  for (MonotonicTime at = NextEventTime(); at <= now; at = NextEventTime()) {
    if (at == MonotonicTime::max()) return;  // idle, and told to run for ever
    if (step_end_) {
      EndStep(at, out);
    } else {
      Schedule(at, out);
    }
  }
}

uint64_t ContinuousBatching::BlocksNeeded(const EngineRequest& request) const {
  // The last output token is never fed back, so it needs no room.
  const uint64_t fed_back_tokens = request.osl_tokens > 0 ? request.osl_tokens - 1 : 0;
  const uint64_t tokens = std::max<uint64_t>(1, request.isl_tokens + fed_back_tokens);
  const uint64_t blocks = (tokens - 1) / config_.block_size_tokens + 1;
  return config_.capacity_blocks == 0 ? blocks : std::min(blocks, config_.capacity_blocks);
}

void ContinuousBatching::Schedule(MonotonicTime at, std::vector<EngineEvent>* out) {
  StepWork work{.budget_tokens = config_.token_budget_per_step};
  for (Running& running : running_) {
    if (running.InPrefill() || work.budget_tokens == 0) continue;
    running.in_step = true;
    --work.budget_tokens;
    ++work.decode_tokens;
  }
  for (Running& running : running_) {
    if (running.InPrefill() && work.budget_tokens > 0) SchedulePrefill(at, running, work, out);
  }
  while (work.budget_tokens > 0 && AdmitNext(at, out)) {
    SchedulePrefill(at, running_.back(), work, out);
  }
  KVR_CHECK(work.prefill_tokens + work.decode_tokens > 0, "an empty step: running={} waiting={}",
            running_.size(), waiting_.size());
  totals_.computed_prefill_tokens += work.prefill_tokens;
  MonotonicTime length = PrefillTime(config_, work.prefill_tokens);
  if (work.decode_tokens > 0) length += config_.inter_token;
  step_end_ = at + length;
}

bool ContinuousBatching::AdmitNext(MonotonicTime at, std::vector<EngineEvent>* out) {
  if (waiting_.empty() || waiting_.front().arrival > at) return false;
  if (running_.size() >= config_.max_running) return false;
  const EngineRequest& request = waiting_.front().request;
  const uint64_t needed_blocks = BlocksNeeded(request);
  const uint64_t hit_blocks =
      std::min({pool_.PrefixBlocks(request.block_hashes), needed_blocks,
                MaxCountedHitBlocks(request.isl_tokens, config_.block_size_tokens)});
  std::vector<EngineHash> evicted;
  auto blocks = pool_.Acquire(std::span(request.block_hashes).first(hit_blocks),
                              needed_blocks - hit_blocks, &evicted);
  if (!blocks) return false;

  const uint64_t hit_tokens = hit_blocks * config_.block_size_tokens;
  totals_.prefix_cache_query_tokens += request.isl_tokens;
  totals_.prefix_cache_hit_tokens += hit_tokens;
  out->push_back({at, PrefillStarted{.id = request.id, .hit_blocks = hit_blocks}});
  if (!evicted.empty()) out->push_back({at, BlocksRemoved{.hashes = std::move(evicted)}});
  const uint64_t prompt_tokens = std::max<uint64_t>(1, request.isl_tokens);
  running_.push_back({.request = std::move(waiting_.front().request),
                      .prompt_tokens = prompt_tokens,
                      .computed_tokens = hit_tokens,
                      .output_tokens = 0,
                      .in_step = false,
                      .blocks = *std::move(blocks)});
  waiting_.pop_front();
  return true;
}

void ContinuousBatching::SchedulePrefill(MonotonicTime at, Running& running, StepWork& work,
                                         std::vector<EngineEvent>* out) {
  const uint64_t chunk_tokens =
      std::min(work.budget_tokens, running.prompt_tokens - running.computed_tokens);
  work.budget_tokens -= chunk_tokens;
  work.prefill_tokens += chunk_tokens;
  running.in_step = true;

  const std::vector<EngineHash>& hashes = running.request.block_hashes;
  const uint64_t cacheable_blocks = std::min<uint64_t>(hashes.size(), running.blocks.size());
  const uint64_t first_block = running.computed_tokens / config_.block_size_tokens;
  running.computed_tokens += chunk_tokens;
  const uint64_t end_block =
      std::min(running.computed_tokens / config_.block_size_tokens, cacheable_blocks);
  if (end_block <= first_block) return;
  for (uint64_t i = first_block; i < end_block; ++i) pool_.Cache(running.blocks[i], hashes[i]);
  out->push_back({at, BlocksStored{.id = running.request.id,
                                   .first_block = first_block,
                                   .count = end_block - first_block}});
}

void ContinuousBatching::EndStep(MonotonicTime at, std::vector<EngineEvent>* out) {
  step_end_.reset();
  last_step_end_ = at;
  for (Running& running : running_) {
    if (!std::exchange(running.in_step, false) || running.InPrefill()) continue;
    const uint64_t id = running.request.id;
    if (running.output_tokens == 0) out->push_back({at, FirstToken{.id = id}});
    if (running.request.osl_tokens > 0) {
      ++running.output_tokens;
      out->push_back({at, TokensGenerated{.id = id, .output_tokens = running.output_tokens}});
    }
    if (running.output_tokens < running.request.osl_tokens) continue;
    out->push_back({at, RequestFinished{.id = id}});
    pool_.Release(running.blocks);
    live_ids_.erase(id);
    ++totals_.requests_finished;
  }
  // Finished exactly now, or never: a request with output left stays.
  std::erase_if(running_, [](const Running& r) {
    return !r.InPrefill() && r.output_tokens >= r.request.osl_tokens;
  });
}

EngineGauges ContinuousBatching::Gauges() const {
  return {.running = running_.size(),
          .waiting = waiting_.size(),
          .cached_blocks = pool_.cached_blocks(),
          .active_blocks = pool_.pinned_blocks()};
}

}  // namespace

std::unique_ptr<EngineService> MakeContinuousBatching(const EngineConfig& config) {
  return std::make_unique<ContinuousBatching>(config);
}

}  // namespace kvrouter::sim
