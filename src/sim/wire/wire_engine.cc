#include "sim/wire/wire_engine.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <random>
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

uint64_t RandomNumber() {
  std::random_device device;
  return (static_cast<uint64_t>(device()) << 32) | device();
}

std::string NewEngineId() { return fmt::format("{:016x}{:016x}", RandomNumber(), RandomNumber()); }

}  // namespace

WireEngine::WireEngine(Config config, Wires wires)
    : config_(std::move(config)),
      wires_(std::move(wires)),
      hash_seed_(config_.hash_seed.value_or(RandomNumber())),
      model_(config_.model),
      kv_(config_.kv, NewEngineId()) {
  PublishSnapshot();
}

void WireEngine::Refuse(HttpResponder& responder) {
  ++requests_refused_;
  PublishSnapshot();
  responder.Complete(
      JsonResponse(503, ErrorBody(fmt::format("{} requests are live, the limit is {}", live_.size(),
                                              config_.max_live_requests),
                                  "service_unavailable", 503)));
}

void WireEngine::Submit(CompletionRequest request, std::shared_ptr<HttpResponder> responder,
                        MonotonicTime now) {
  if (live_.size() >= config_.max_live_requests) return Refuse(*responder);
  AdvanceTo(now);
  const uint64_t id = next_request_id_++;
  CompletionHead head = NewHead(request, id);
  std::string answer_id = head.id;
  LiveAnswer answer(request, std::move(head), std::move(responder));
  if (config_.early_stream_head) answer.Open();
  Live live{.prompt_tokens = std::move(request.prompt_tokens),
            .block_hashes = {},
            .answer = std::move(answer),
            .answer_id = std::move(answer_id),
            .to_model = {},
            .source = {}};
  live.block_hashes =
      ChainedEngineHashes(live.prompt_tokens, config_.model.block_size_tokens, hash_seed_);
  const KvAsk asked = kv_.Asked(request.kv_transfer_params);
  live.to_model = {.id = id,
                   .isl_tokens = live.prompt_tokens.size(),
                   .osl_tokens = request.max_tokens,
                   .block_hashes = live.block_hashes,
                   .hold_blocks = asked == KvAsk::kProduce};
  Live& placed = live_.emplace(id, std::move(live)).first->second;
  ++outside_model_;
  if (asked == KvAsk::kConsume) return AskSource(id, placed, request.kv_transfer_params);
  ToModel(placed, now);
}

void WireEngine::ToModel(Live& live, MonotonicTime now) {
  if (!std::exchange(live.in_model, true)) --outside_model_;
  model_.Submit(std::move(live.to_model), now);
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
        ChainedEngineHashes(prompt, config_.model.block_size_tokens, hash_seed_)));
  }
  return blocks;
}

void WireEngine::Restart() {
  for (auto& [id, live] : live_) live.answer.Cut();
  live_.clear();
  outside_model_ = aborts_outside_model_ = requests_refused_ = 0;
  consumed_ = {};
  model_ = EngineModel(config_.model);
  kv_.Restart(NewEngineId());
  hash_seed_ = config_.hash_seed.value_or(RandomNumber());
  wires_.publisher->Restart(wires_.channel);
  PublishSnapshot();
}

void WireEngine::AdvanceTo(MonotonicTime now) {
  now_ = now;
  for (const uint64_t model_id : kv_.TakeExpired(now)) model_.ReleaseHeld(model_id, now);
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
  for (const uint64_t id : deserted) {
    const Live& live = live_.at(id);
    // What was held for it need not be held any longer.
    if (live.source && live.in_model) wires_.side_channel->End(*live.source);
    if (!live.in_model) {
      ++aborts_outside_model_;
      --outside_model_;
    }
    model_.Abort(id, now);
  }
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
  // As vLLM, where KV that came from elsewhere counts as cached, too.
  const uint64_t cached_tokens = std::min<uint64_t>(
      usable_blocks * block_size_tokens + event.external_tokens, it->second.prompt_tokens.size());
  it->second.answer.SetCachedTokens(cached_tokens);
}

void WireEngine::Handle(const ExternalLoaded& event) {
  const auto it = live_.find(event.id);
  if (it == live_.end() || !it->second.source) return;
  consumed_.blocks += event.blocks;
  wires_.side_channel->End(*it->second.source);
  it->second.source.reset();
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
  nlohmann::ordered_json handshake;
  if (const auto held = model_.HeldBlocks(event.id); !held.empty()) {
    handshake = kv_.Hold({.request_id = it->second.answer_id,
                          .model_id = event.id,
                          .block_ids = held,
                          .tokens = it->second.prompt_tokens.size()},
                         now_);
  }
  PublishSnapshot();  // whoever has the answer finds it in the metrics
  it->second.answer.Finish(handshake);
  live_.erase(it);
}

void WireEngine::PublishStep() {
  if (step_events_.empty()) return;
  wires_.publisher->Publish(wires_.channel, {.wall_time_s = WallTimeSeconds(),
                                             .dp_rank = config_.dp_rank,
                                             .events = std::exchange(step_events_, {})});
}

void WireEngine::PublishSnapshot() {
  EngineSnapshot snapshot{.totals = model_.Totals(),
                          .gauges = model_.Gauges(),
                          .capacity_blocks = config_.model.capacity_blocks,
                          .block_size_tokens = config_.model.block_size_tokens,
                          .requests_refused = requests_refused_,
                          .pinned_requests = kv_.pins().size(),
                          .pinned_blocks = kv_.pins().blocks(),
                          .pins = kv_.pins().totals(),
                          .consumed = consumed_};
  snapshot.totals.requests_aborted += aborts_outside_model_;
  snapshot.gauges.waiting += outside_model_;
  MutexLock lock(snapshot_mu_);
  snapshot_ = snapshot;
}

}  // namespace kvrouter::sim
