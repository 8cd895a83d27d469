#include "adapters/discovery/worker_sign_rule.h"

#include <algorithm>

namespace kvrouter {

WorkerSigns WorkerSignRule::Weigh(const WorkerSpec& spec, const EngineFacts& facts,
                                  uint64_t event_messages, MonotonicTime now) {
  WorkerSigns signs{};
  SignOf(signs, WorkerSign::kUnreachable) = !facts.answers;
  SignOf(signs, WorkerSign::kBlockSize) =
      facts.block_size_tokens && *facts.block_size_tokens != spec.block_size_tokens;
  SignOf(signs, WorkerSign::kModelName) =
      spec.model_name != "default" && !facts.models.empty() &&
      std::find(facts.models.begin(), facts.models.end(), spec.model_name) == facts.models.end();
  SignOf(signs, WorkerSign::kPrefixCachingOff) = facts.prefix_caching == false;
  const bool has_events = event_messages > 0 ||  // over the event plane or a door
                          std::any_of(spec.events.begin(), spec.events.end(),
                                      [](const auto& rank) { return !rank.second.live.empty(); });
  SignOf(signs, WorkerSign::kSilentPublisher) =
      has_events && IsSilent(facts, spec.block_size_tokens, event_messages, now);
  return signs;
}

bool WorkerSignRule::IsSilent(const EngineFacts& facts, uint32_t block_size_tokens,
                              uint64_t event_messages, MonotonicTime now) {
  if (event_messages != messages_) {
    messages_ = event_messages;
    before_.reset();
    owes_since_.reset();
  }
  if (facts.queried_tokens && facts.hit_tokens && facts.finished_requests) {
    const Work work{*facts.queried_tokens, *facts.hit_tokens, *facts.finished_requests};
    // Counters that fell back are another process's.
    if (!before_ || work.queried_tokens < latest_.queried_tokens ||
        work.finished_requests < latest_.finished_requests) {
      before_ = work;
      owes_since_.reset();
    }
    latest_ = work;
    const double computed_tokens =
        (work.queried_tokens - before_->queried_tokens) - (work.hit_tokens - before_->hit_tokens);
    const double requests =
        work.finished_requests - before_->finished_requests + facts.live_requests;
    const double new_blocks = computed_tokens / block_size_tokens - requests;
    if (!owes_since_ && new_blocks >= kNewBlocks) owes_since_ = now;
  }
  return owes_since_ && now - *owes_since_ >= kGrace;
}

}  // namespace kvrouter
