// What an engine has to do with others.
#include <fmt/format.h>

#include <utility>

#include "sim/wire/wire_engine.h"

namespace kvrouter::sim {

KvTransfer::PullAnswer WireEngine::AnswerPull(std::string_view body, MonotonicTime now) {
  AdvanceTo(now);
  KvTransfer::PullAnswer answer = kv_.AnswerPull(body, now);
  if (answer.released_model_id) {
    model_.ReleaseHeld(*answer.released_model_id, now);
    AdvanceTo(now);
  }
  return answer;
}

void WireEngine::AskSource(uint64_t id, Live& live, const nlohmann::ordered_json& params) {
  live.source = ReadSource(params);
  if (!live.source) {
    // As a real engine, which waits for KV that nobody will send, until the client gives up.
    ++consumed_.handshakes_incomplete;
    return PublishSnapshot();
  }
  ++consumed_.pulls;
  wires_.side_channel->Begin(
      *live.source, config_.kv.compatibility,
      [post = wires_.post, id, source = *live.source](std::string error) {
        post([id, source, error = std::move(error)](WireEngine& engine, MonotonicTime now) {
          engine.SourceAnswered(id, source, error, now);
        });
      });
  PublishSnapshot();
}

void WireEngine::SourceAnswered(uint64_t id, const KvSource& source, const std::string& error,
                                MonotonicTime now) {
  AdvanceTo(now);
  const auto it = live_.find(id);
  if (it == live_.end()) {
    // The client left meanwhile, and the source keeps the blocks for nobody.
    if (error.empty()) wires_.side_channel->End(source);
    return;
  }
  Live& live = it->second;
  if (error.empty()) {
    live.to_model.external_tokens = std::min<uint64_t>(
        source.blocks * config_.model.block_size_tokens, live.to_model.isl_tokens);
    return ToModel(live, now);
  }
  ++consumed_.failures;
  live.source.reset();
  if (config_.kv.recompute_on_failure) return ToModel(live, now);
  --outside_model_;
  PublishSnapshot();
  live.answer.Fail(fmt::format("KV load failure: {}", error));
  live_.erase(it);
}

}  // namespace kvrouter::sim
