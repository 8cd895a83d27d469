#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <list>
#include <random>
#include <set>
#include <vector>

#include "random_requests.h"
#include "sim/model/engine_model.h"

namespace kvrouter::sim {
namespace {

constexpr uint64_t kBlockTokens = 4;
constexpr auto kPerToken = std::chrono::milliseconds(1);
constexpr auto kPerOutputToken = std::chrono::milliseconds(3);

struct Outcome {
  uint64_t hit_blocks = 0;
  MonotonicTime first_token{};
  MonotonicTime finished{};
};

struct History {
  std::vector<Outcome> outcomes;    // by request id
  std::vector<EngineHash> removed;  // in order of eviction
  std::set<EngineHash> resident;    // at the end
  uint64_t computed_tokens = 0;
  uint64_t counted_hit_tokens = 0;
};

// The service model straight from its description: requests one after the other, and a cache that
// is a list.
History RunNaively(const std::vector<TimedRequest>& requests, uint64_t capacity_blocks) {
  History history;
  std::list<EngineHash> youngest_first;
  const auto holds = [&](EngineHash hash) {
    return std::find(youngest_first.begin(), youngest_first.end(), hash) != youngest_first.end();
  };
  MonotonicTime server_free{0};
  for (const auto& [arrival, request] : requests) {
    const std::vector<EngineHash>& blocks = request.block_hashes;
    const MonotonicTime start = std::max(arrival, server_free);
    uint64_t hits = 0;
    while (hits < blocks.size() && holds(blocks[hits])) ++hits;
    const int64_t computed =
        std::max<int64_t>(1, static_cast<int64_t>(request.isl_tokens - hits * kBlockTokens));
    server_free = start + computed * kPerToken;
    for (auto block = blocks.rbegin(); block != blocks.rend(); ++block) {
      youngest_first.remove(*block);
      youngest_first.push_front(*block);
    }
    while (capacity_blocks > 0 && youngest_first.size() > capacity_blocks) {
      history.removed.push_back(youngest_first.back());
      youngest_first.pop_back();
    }
    history.computed_tokens += static_cast<uint64_t>(computed);
    const bool whole_prompt_hit = hits > 0 && hits * kBlockTokens == request.isl_tokens;
    history.counted_hit_tokens += (whole_prompt_hit ? hits - 1 : hits) * kBlockTokens;
    history.outcomes.push_back(
        {.hit_blocks = hits,
         .first_token = server_free,
         .finished = server_free + static_cast<int64_t>(request.osl_tokens) * kPerOutputToken});
  }
  history.resident.insert(youngest_first.begin(), youngest_first.end());
  return history;
}

// Collects what the model says, and holds its events to their own rules on the way.
class Observer {
 public:
  explicit Observer(const std::vector<TimedRequest>& requests) : requests_(requests) {
    history_.outcomes.resize(requests.size());
  }

  void See(const EngineEvent& event) {
    ASSERT_GE(event.at, last_at_) << "events come in time order";
    last_at_ = event.at;
    if (const auto* started = std::get_if<PrefillStarted>(&event.what)) {
      history_.outcomes[started->id].hit_blocks = started->hit_blocks;
    } else if (const auto* stored = std::get_if<BlocksStored>(&event.what)) {
      const auto& blocks = requests_[stored->id].request.block_hashes;
      if (stored->first_block > 0) {
        EXPECT_TRUE(history_.resident.contains(blocks[stored->first_block - 1]))
            << "parent is held";
      }
      for (uint64_t i = 0; i < stored->count; ++i) {
        EXPECT_TRUE(history_.resident.insert(blocks[stored->first_block + i]).second)
            << "stored once";
      }
    } else if (const auto* removed = std::get_if<BlocksRemoved>(&event.what)) {
      for (const EngineHash hash : removed->hashes) {
        EXPECT_EQ(history_.resident.erase(hash), 1u) << "removed what was held";
        history_.removed.push_back(hash);
      }
    } else if (const auto* first = std::get_if<FirstToken>(&event.what)) {
      history_.outcomes[first->id].first_token = event.at;
    } else if (const auto* finished = std::get_if<RequestFinished>(&event.what)) {
      history_.outcomes[finished->id].finished = event.at;
    }
  }

  const History& history() const { return history_; }

 private:
  const std::vector<TimedRequest>& requests_;
  History history_;
  MonotonicTime last_at_{0};
};

TEST(FifoPrefillPropertyTest, AgreesWithANaiveModelOnRandomTraces) {
  for (uint64_t seed = 0; seed < 400; ++seed) {
    SCOPED_TRACE(fmt::format("seed={}", seed));
    std::mt19937_64 random(seed);
    const std::vector<TimedRequest> requests = RandomRequests(random, 60);
    const uint64_t capacity_blocks = random() % 30;  // 0 = unlimited
    const History expected = RunNaively(requests, capacity_blocks);

    EngineModel engine({.service = EngineConfig::Service::kFifoPrefill,
                        .block_size_tokens = kBlockTokens,
                        .capacity_blocks = capacity_blocks,
                        .prefill_tokens_per_s = 1000,
                        .inter_token = kPerOutputToken});
    Observer observer(requests);
    std::vector<EngineEvent> events;
    const bool sleepy = random() % 2 == 0;  // the caller's wake-ups must not matter
    for (const TimedRequest& timed : requests) {
      if (!sleepy) engine.AdvanceTo(timed.arrival, &events);
      engine.Submit(timed.request, timed.arrival);
    }
    engine.AdvanceTo(MonotonicTime::max(), &events);
    for (const EngineEvent& event : events) ASSERT_NO_FATAL_FAILURE(observer.See(event));

    const History& actual = observer.history();
    for (size_t id = 0; id < requests.size(); ++id) {
      ASSERT_EQ(actual.outcomes[id].hit_blocks, expected.outcomes[id].hit_blocks) << "id=" << id;
      ASSERT_EQ(actual.outcomes[id].first_token, expected.outcomes[id].first_token) << "id=" << id;
      ASSERT_EQ(actual.outcomes[id].finished, expected.outcomes[id].finished) << "id=" << id;
    }
    ASSERT_EQ(actual.removed, expected.removed);
    ASSERT_EQ(actual.resident, expected.resident);
    ASSERT_EQ(engine.Gauges().cached_blocks, expected.resident.size());
    ASSERT_EQ(engine.Gauges().active_blocks, 0u);
    ASSERT_EQ(engine.Totals().computed_prefill_tokens, expected.computed_tokens);
    ASSERT_EQ(engine.Totals().prefix_cache_hit_tokens, expected.counted_hit_tokens);
    for (const TimedRequest& timed : requests) {
      const auto& blocks = timed.request.block_hashes;
      uint64_t resident = 0;
      while (resident < blocks.size() && expected.resident.contains(blocks[resident])) ++resident;
      ASSERT_EQ(engine.CachedPrefixBlocks(blocks), resident);
    }
  }
}

}  // namespace
}  // namespace kvrouter::sim
