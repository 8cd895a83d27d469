#include "sim/wire/wire_engine.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <utility>
#include <variant>

#include "base/check.h"
#include "sim/wire/engine_hashes.h"
#include "sim/wire/json_response.h"

namespace kvrouter::sim {
namespace {

double WallTimeSeconds() {
  return std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
}

}  // namespace

WireEngine::WireEngine(Config config, EventPublisher* publisher, size_t channel)
    : config_(std::move(config)), publisher_(publisher), channel_(channel), model_(config_.model) {
  PublishSnapshot();
}

void WireEngine::Submit(CompletionRequest request, std::shared_ptr<HttpResponder> responder,
                        MonotonicTime now) {
  if (live_.size() >= config_.max_live_requests) {
    ++requests_refused_;
    PublishSnapshot();
    responder->Complete(
        JsonResponse(503, ErrorBody(fmt::format("{} requests are live, the limit is {}",
                                                live_.size(), config_.max_live_requests),
                                    "service_unavailable", 503)));
    return;
  }
  AdvanceTo(now);
  const uint64_t id = next_request_id_++;
  LiveAnswer answer(request, NewHead(request, id), std::move(responder));
  Live live{.prompt_tokens = std::move(request.prompt_tokens),
            .block_hashes = {},
            .answer = std::move(answer)};
  live.block_hashes =
      ChainedEngineHashes(live.prompt_tokens, config_.model.block_size_tokens, config_.hash_seed);
  EngineRequest to_model{.id = id,
                         .isl_tokens = live.prompt_tokens.size(),
                         .osl_tokens = request.max_tokens,
                         .block_hashes = live.block_hashes};
  live_.emplace(id, std::move(live));
  model_.Submit(std::move(to_model), now);
  AdvanceTo(now);
}

CompletionHead WireEngine::NewHead(const CompletionRequest& request, uint64_t id) const {
  const std::string name =
      request.request_id.empty() ? fmt::format("{:016x}", id) : request.request_id;
  return {.id = (request.chat ? "chatcmpl-" : "cmpl-") + name,
          .model = config_.model_name,
          .created_s = static_cast<int64_t>(WallTimeSeconds()),
          .chat = request.chat};
}

void WireEngine::ResetPrefixCache(MonotonicTime now) {
  AdvanceTo(now);
  if (!model_.ResetPrefixCache()) return;
  step_events_.emplace_back(WireCleared{});
  PublishStep();
  PublishSnapshot();
}

std::vector<uint64_t> WireEngine::CachedPrefixBlocks(
    const std::vector<std::vector<TokenId>>& prompts) const {
  std::vector<uint64_t> blocks;
  blocks.reserve(prompts.size());
  for (const std::vector<TokenId>& prompt : prompts) {
    blocks.push_back(model_.CachedPrefixBlocks(
        ChainedEngineHashes(prompt, config_.model.block_size_tokens, config_.hash_seed)));
  }
  return blocks;
}

void WireEngine::AdvanceTo(MonotonicTime now) {
  events_.clear();
  model_.AdvanceTo(now, &events_);
  MonotonicTime step{};
  for (const EngineEvent& event : events_) {
    if (event.at != step) PublishStep();
    step = event.at;
    std::visit([this](const auto& what) { Handle(what); }, event.what);
  }
  PublishStep();
  PublishSnapshot();
}

void WireEngine::AbortDeserted(MonotonicTime now) {
  std::vector<uint64_t> deserted;
  for (const auto& [id, live] : live_) {
    if (live.answer.ClientGone()) deserted.push_back(id);
  }
  if (deserted.empty()) return;
  for (const uint64_t id : deserted) model_.Abort(id, now);
  // What the model still has to say about them (blocks that were computed) needs their tokens.
  AdvanceTo(now);
  for (const uint64_t id : deserted) live_.erase(id);
}

EngineSnapshot WireEngine::Snapshot() const {
  MutexLock lock(snapshot_mu_);
  return snapshot_;
}

void WireEngine::Handle(const PrefillStarted& event) {
  const auto it = live_.find(event.id);
  if (it == live_.end()) return;
  const uint64_t block_size_tokens = config_.model.block_size_tokens;
  // The last token is always computed, so a prompt of full blocks is never cached whole.
  const uint64_t usable_blocks =
      std::min(event.hit_blocks, (it->second.prompt_tokens.size() - 1) / block_size_tokens);
  it->second.answer.SetCachedTokens(usable_blocks * block_size_tokens);
}

void WireEngine::Handle(const BlocksStored& event) {
  const auto it = live_.find(event.id);
  KVR_CHECK(it != live_.end(), "blocks of unknown request {}", event.id);
  const Live& live = it->second;
  const uint64_t end = event.first_block + event.count;
  KVR_CHECK(end <= live.block_hashes.size(), "blocks [{}, {}) of {}", event.first_block, end,
            live.block_hashes.size());
  WireStored stored;
  stored.block_size_tokens = config_.model.block_size_tokens;
  const auto hash = [&](uint64_t block) {
    return live.block_hashes.begin() + static_cast<ptrdiff_t>(block);
  };
  const auto token = [&](uint64_t block) {
    return live.prompt_tokens.begin() + static_cast<ptrdiff_t>(block * stored.block_size_tokens);
  };
  if (event.first_block > 0) stored.parent = *hash(event.first_block - 1);
  stored.hashes.assign(hash(event.first_block), hash(end));
  stored.token_ids.assign(token(event.first_block), token(end));
  step_events_.emplace_back(std::move(stored));
}

void WireEngine::Handle(const BlocksRemoved& event) {
  for (const EngineHash hash : event.hashes) step_events_.emplace_back(WireRemoved{hash});
}

void WireEngine::Handle(const FirstToken& event) {
  const auto it = live_.find(event.id);
  if (it != live_.end()) it->second.answer.Grow(1);
}

void WireEngine::Handle(const TokensGenerated& event) {
  const auto it = live_.find(event.id);
  if (it != live_.end()) it->second.answer.Grow(event.output_tokens);
}

void WireEngine::Handle(const RequestFinished& event) {
  const auto it = live_.find(event.id);
  if (it == live_.end()) return;
  it->second.answer.Finish();
  live_.erase(it);
}

void WireEngine::PublishStep() {
  if (step_events_.empty()) return;
  publisher_->Publish(channel_, {.wall_time_s = WallTimeSeconds(),
                                 .dp_rank = config_.dp_rank,
                                 .events = std::exchange(step_events_, {})});
}

void WireEngine::PublishSnapshot() {
  const EngineSnapshot snapshot{.totals = model_.Totals(),
                                .gauges = model_.Gauges(),
                                .capacity_blocks = config_.model.capacity_blocks,
                                .block_size_tokens = config_.model.block_size_tokens,
                                .requests_refused = requests_refused_};
  MutexLock lock(snapshot_mu_);
  snapshot_ = snapshot;
}

}  // namespace kvrouter::sim
