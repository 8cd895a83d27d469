#include "sim/virtual/break_even.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <utility>
#include <vector>

#include "base/check.h"

namespace kvrouter::sim {
namespace {

constexpr uint64_t kWarmUpId = 0;
constexpr uint64_t kMeasuredId = 1;

EngineRequest Prompt(uint64_t id, uint64_t blocks, const EngineConfig& engine) {
  EngineRequest request{
      .id = id, .isl_tokens = blocks * engine.block_size_tokens, .block_hashes = {}};
  for (uint64_t i = 1; i <= blocks; ++i) request.block_hashes.push_back(EngineHash{i});
  return request;
}

// Serves it at `start` by an engine that has nothing else to do; its first token is its last.
MonotonicTime ServedAt(EngineModel& engine, EngineRequest request, MonotonicTime start) {
  engine.Submit(std::move(request), start);
  std::vector<EngineEvent> events;
  engine.AdvanceTo(MonotonicTime::max(), &events);
  KVR_CHECK(!events.empty(), "an engine that does nothing");
  return events.back().at;
}

MonotonicTime ComputingTime(const EngineConfig& config, uint64_t blocks) {
  EngineModel target(config);
  return ServedAt(target, Prompt(kMeasuredId, blocks, config), MonotonicTime{});
}

MonotonicTime PullingTime(const EngineConfig& config, uint64_t blocks) {
  EngineModel source(config);
  const MonotonicTime start = ServedAt(source, Prompt(kWarmUpId, blocks, config), MonotonicTime{});
  EngineRequest step = Prompt(kMeasuredId, blocks, config);
  step.hold_blocks = true;
  const MonotonicTime held = ServedAt(source, std::move(step), start);
  EngineModel target(config);
  EngineRequest request = Prompt(kMeasuredId, blocks, config);
  request.external_tokens = source.HeldBlocks(kMeasuredId).size() * config.block_size_tokens;
  return ServedAt(target, std::move(request), held) - start;
}

}  // namespace

std::optional<uint64_t> IdleBreakEvenTokens(const EngineConfig& engine) {
  EngineConfig config = engine;
  config.capacity_blocks = 0;
  const auto pays = [&config](uint64_t blocks) {
    return PullingTime(config, blocks) < ComputingTime(config, blocks);
  };
  // Both grow with the length, the one that starts behind at the lower rate if it wins at all.
  uint64_t loses = 0;
  uint64_t wins = 1;
  const uint64_t most_blocks =
      std::max<uint64_t>(1, kMaxBreakEvenTokens / config.block_size_tokens);
  while (!pays(wins)) {
    if (wins == most_blocks) return std::nullopt;
    loses = wins;
    wins = std::min(2 * wins, most_blocks);
  }
  while (wins - loses > 1) {
    const uint64_t middle = loses + (wins - loses) / 2;
    (pays(middle) ? wins : loses) = middle;
  }
  return wins * config.block_size_tokens;
}

std::optional<uint64_t> LoadedBreakEvenTokens(const EngineConfig& engine, const MoveSums& moves) {
  if (moves.moved == 0) return std::nullopt;
  const double pull_s_per_token =
      std::chrono::duration<double>(engine.transfer_per_block).count() / engine.block_size_tokens;
  const double saved_s_per_token = 1 / engine.prefill_tokens_per_s - pull_s_per_token;
  if (saved_s_per_token <= 0) return std::nullopt;
  const double mean_wait_s = moves.source_wait_s / static_cast<double>(moves.moved);
  return static_cast<uint64_t>(std::ceil(mean_wait_s / saved_s_per_token));
}

}  // namespace kvrouter::sim
