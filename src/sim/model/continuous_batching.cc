#include "sim/model/continuous_batching.h"

#include <algorithm>
#include <memory>
#include <utility>

#include "base/check.h"

namespace kvrouter::sim {

void ContinuousBatching::Submit(EngineRequest request, MonotonicTime now) {
  KVR_CHECK(request.block_hashes.size() == request.isl_tokens / config_.block_size_tokens,
            "hashes={} isl_tokens={} block_size_tokens={}", request.block_hashes.size(),
            request.isl_tokens, config_.block_size_tokens);
  KVR_CHECK(live_ids_.insert(request.id).second, "request id {} is live", request.id);
  waiting_.push_back({.request = std::move(request), .arrival = now});
}

void ContinuousBatching::Abort(uint64_t id, MonotonicTime now) {
  if (live_ids_.erase(id) == 0) return;
  ++totals_.requests_aborted;
  const auto running = std::find_if(running_.begin(), running_.end(),
                                    [id](const Running& r) { return r.request.id == id; });
  if (running != running_.end()) {
    pool_.Release(running->blocks);
    running_.erase(running);  // the step that runs keeps its length: its work was handed out
    return Unblock(now);
  }
  const auto loading = std::find_if(loading_.begin(), loading_.end(),
                                    [id](const Loading& l) { return l.running.request.id == id; });
  if (loading != loading_.end()) {
    pool_.Release(loading->running.blocks);
    loading_.erase(loading);
    return Unblock(now);
  }
  waiting_.erase(std::find_if(waiting_.begin(), waiting_.end(),
                              [id](const Waiting& w) { return w.request.id == id; }));
  Unblock(now);
}

MonotonicTime ContinuousBatching::NextEventTime() const {
  MonotonicTime next = NextLoadEnd();
  if (step_end_) return std::min(next, *step_end_);
  if (!running_.empty()) return std::min(next, last_step_end_);
  if (!waiting_.empty() && !waiting_blocked_) {
    next = std::min(next, std::max(last_step_end_, waiting_.front().arrival));
  }
  return next;
}

void ContinuousBatching::AdvanceTo(MonotonicTime now, std::vector<EngineEvent>* out) {
  for (MonotonicTime at = NextEventTime(); at <= now; at = NextEventTime()) {
    if (at == MonotonicTime::max()) return;  // idle, and told to run for ever
    if (NextLoadEnd() == at) {
      EndLoad(at, out);
    } else if (step_end_) {
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
  while (work.budget_tokens > 0) {
    const Admitted admitted = AdmitNext(at, out);
    if (admitted == Admitted::kNone) break;
    if (admitted == Admitted::kRunning) SchedulePrefill(at, running_.back(), work, out);
  }
  if (work.prefill_tokens + work.decode_tokens == 0) {
    KVR_CHECK(running_.empty() && (!loading_.empty() || !held_.empty()),
              "an empty step: running={} waiting={}", running_.size(), waiting_.size());
    waiting_blocked_ = !waiting_.empty() && waiting_.front().arrival <= at;
    return;
  }
  totals_.computed_prefill_tokens += work.prefill_tokens;
  MonotonicTime length = PrefillTime(config_, work.prefill_tokens);
  if (work.decode_tokens > 0) length += config_.inter_token;
  step_end_ = at + length;
}

ContinuousBatching::Admitted ContinuousBatching::AdmitNext(MonotonicTime at,
                                                           std::vector<EngineEvent>* out) {
  if (waiting_.empty() || waiting_.front().arrival > at) return Admitted::kNone;
  if (running_.size() >= config_.max_running) return Admitted::kNone;
  const EngineRequest& request = waiting_.front().request;
  const uint64_t needed_blocks = BlocksNeeded(request);
  const uint64_t hit_blocks =
      std::min({pool_.PrefixBlocks(request.block_hashes), needed_blocks,
                MaxCountedHitBlocks(request.isl_tokens, config_.block_size_tokens)});
  std::vector<EngineHash> evicted;
  auto blocks = pool_.Acquire(std::span(request.block_hashes).first(hit_blocks),
                              needed_blocks - hit_blocks, &evicted);
  if (!blocks) return Admitted::kNone;

  const uint64_t hit_tokens = hit_blocks * config_.block_size_tokens;
  totals_.prefix_cache_query_tokens += request.isl_tokens;
  totals_.prefix_cache_hit_tokens += hit_tokens;
  const uint64_t wanted_tokens = std::min(request.external_tokens, request.isl_tokens);
  const uint64_t load_tokens = wanted_tokens > hit_tokens ? wanted_tokens - hit_tokens : 0;
  out->push_back(
      {at,
       PrefillStarted{.id = request.id, .hit_blocks = hit_blocks, .external_tokens = load_tokens}});
  if (!evicted.empty()) out->push_back({at, BlocksRemoved{.hashes = std::move(evicted)}});
  const bool asks_elsewhere = request.external_tokens > 0;
  Running admitted{.request = std::move(waiting_.front().request),
                   .prompt_tokens = std::max<uint64_t>(1, request.isl_tokens),
                   .computed_tokens = hit_tokens,
                   .cached_blocks = hit_blocks,
                   .output_tokens = 0,
                   .in_step = false,
                   .blocks = *std::move(blocks)};
  waiting_.pop_front();
  if (!asks_elsewhere) {
    running_.push_back(std::move(admitted));
    return Admitted::kRunning;
  }
  const uint64_t load_blocks = std::min<uint64_t>(
      (wanted_tokens + config_.block_size_tokens - 1) / config_.block_size_tokens,
      admitted.blocks.size());
  Loading loading{.running = std::move(admitted),
                  .load_blocks = load_blocks > hit_blocks ? load_blocks - hit_blocks : 0,
                  .end = at};
  loading.end += config_.transfer_per_block * static_cast<int64_t>(loading.load_blocks);
  totals_.external_query_tokens += load_tokens;
  loading_.push_back(std::move(loading));
  return Admitted::kLoading;
}

void ContinuousBatching::SchedulePrefill(MonotonicTime at, Running& running, StepWork& work,
                                         std::vector<EngineEvent>* out) {
  const uint64_t chunk_tokens =
      std::min(work.budget_tokens, running.prompt_tokens - running.computed_tokens);
  work.budget_tokens -= chunk_tokens;
  work.prefill_tokens += chunk_tokens;
  running.in_step = true;

  running.computed_tokens += chunk_tokens;
  CacheUpTo(at, running.computed_tokens / config_.block_size_tokens, running, out);
}

void ContinuousBatching::CacheUpTo(MonotonicTime at, uint64_t computed_blocks, Running& running,
                                   std::vector<EngineEvent>* out) {
  const std::vector<EngineHash>& hashes = running.request.block_hashes;
  const uint64_t end_block =
      std::min<uint64_t>({computed_blocks, hashes.size(), running.blocks.size()});
  const uint64_t first_block = running.cached_blocks;
  if (end_block <= first_block) return;
  for (uint64_t i = first_block; i < end_block; ++i) pool_.Cache(running.blocks[i], hashes[i]);
  running.cached_blocks = end_block;
  out->push_back({at, BlocksStored{.id = running.request.id,
                                   .first_block = first_block,
                                   .count = end_block - first_block}});
}

void ContinuousBatching::EndStep(MonotonicTime at, std::vector<EngineEvent>* out) {
  step_end_.reset();
  waiting_blocked_ = false;
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
    if (running.request.hold_blocks) {
      held_[id] = std::move(running.blocks);
    } else {
      pool_.Release(running.blocks);
    }
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
          .waiting = waiting_.size() + loading_.size(),
          .cached_blocks = pool_.cached_blocks(),
          .active_blocks = pool_.pinned_blocks(),
          .held_requests = held_.size()};
}

std::unique_ptr<EngineService> MakeContinuousBatching(const EngineConfig& config) {
  return std::make_unique<ContinuousBatching>(config);
}

}  // namespace kvrouter::sim
