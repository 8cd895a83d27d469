// What a request has to do with other engines: KV that comes from them, blocks held for them.
#include <algorithm>
#include <utility>

#include "sim/model/continuous_batching.h"

namespace kvrouter::sim {

std::span<const uint32_t> ContinuousBatching::HeldBlocks(uint64_t id) const {
  const auto held = held_.find(id);
  if (held == held_.end()) return {};
  return held->second;
}

void ContinuousBatching::ReleaseHeld(uint64_t id, MonotonicTime now) {
  const auto held = held_.find(id);
  if (held == held_.end()) return;
  pool_.Release(held->second);
  held_.erase(held);
  Unblock(now);
}

void ContinuousBatching::Unblock(MonotonicTime now) {
  if (!std::exchange(waiting_blocked_, false)) return;
  last_step_end_ = std::max(last_step_end_, now);
}

std::vector<ContinuousBatching::Loading>::iterator ContinuousBatching::FirstLoadEnd() {
  return std::min_element(loading_.begin(), loading_.end(),
                          [](const Loading& a, const Loading& b) { return a.end < b.end; });
}

MonotonicTime ContinuousBatching::NextLoadEnd() const {
  MonotonicTime next = MonotonicTime::max();
  for (const Loading& loading : loading_) next = std::min(next, loading.end);
  return next;
}

void ContinuousBatching::EndLoad(MonotonicTime at, std::vector<EngineEvent>* out) {
  const auto first = FirstLoadEnd();
  Loading loaded = std::move(*first);
  loading_.erase(first);
  Running& running = loaded.running;
  const uint64_t tokens = std::min(running.request.external_tokens, running.request.isl_tokens);
  if (tokens > running.computed_tokens) {
    totals_.external_tokens += tokens - running.computed_tokens;
    // The last prompt token is computed here: its logits are wanted.
    running.computed_tokens =
        std::max(running.computed_tokens, std::min(tokens, running.prompt_tokens - 1));
    CacheUpTo(at, tokens / config_.block_size_tokens, running, out);
  }
  out->push_back({at, ExternalLoaded{.id = running.request.id, .blocks = loaded.load_blocks}});
  running_.push_back(std::move(running));
  if (!step_end_) last_step_end_ = std::max(last_step_end_, at);
}

}  // namespace kvrouter::sim
