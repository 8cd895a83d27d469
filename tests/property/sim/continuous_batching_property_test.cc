#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <random>
#include <set>
#include <utility>
#include <vector>

#include "random_requests.h"
#include "sim/model/engine_model.h"

namespace kvrouter::sim {
namespace {

constexpr uint64_t kBlockTokens = 4;

EngineConfig RandomConfig(std::mt19937_64& random) {
  return {.service = EngineConfig::Service::kContinuousBatching,
          .block_size_tokens = kBlockTokens,
          .capacity_blocks = random() % 40,  // 0 = unlimited; some are smaller than a prompt
          .prefill_tokens_per_s = 1000,
          .inter_token = std::chrono::milliseconds(3),
          .token_budget_per_step = static_cast<uint32_t>(1 + random() % 30),
          .max_running = static_cast<uint32_t>(1 + random() % 8)};
}

// Follows the events with counts of copies and holds them to what the model promises.
class Observer {
 public:
  Observer(const std::vector<TimedRequest>& requests, const EngineConfig& config)
      : requests_(requests), config_(config) {}

  // The events of one wake-up: the end of a step, then the beginning of the next.
  void See(const std::vector<EngineEvent>& events, const EngineTotals& totals) {
    std::set<uint64_t> first_tokens;
    uint64_t decode_tokens = 0;
    for (const EngineEvent& event : events) {
      ASSERT_GE(event.at, last_at_) << "events come in time order";
      last_at_ = event.at;
      if (const auto* started = std::get_if<PrefillStarted>(&event.what)) {
        SeeStarted(*started);
      } else if (const auto* stored = std::get_if<BlocksStored>(&event.what)) {
        SeeStored(*stored);
      } else if (const auto* removed = std::get_if<BlocksRemoved>(&event.what)) {
        for (const EngineHash hash : removed->hashes) SeeRemoved(hash);
      } else if (const auto* first = std::get_if<FirstToken>(&event.what)) {
        first_tokens.insert(first->id);
      } else if (const auto* tokens = std::get_if<TokensGenerated>(&event.what)) {
        EXPECT_EQ(tokens->output_tokens, ++output_tokens_[tokens->id]) << "one token at a time";
        if (!first_tokens.contains(tokens->id)) ++decode_tokens;
      } else if (const auto* finished = std::get_if<RequestFinished>(&event.what)) {
        EXPECT_EQ(output_tokens_[finished->id], requests_[finished->id].request.osl_tokens);
        EXPECT_EQ(running_.erase(finished->id), 1u);
        ++finished_;
      }
    }
    EXPECT_LE(step_prefill_tokens_ + decode_tokens, config_.token_budget_per_step);
    step_prefill_tokens_ = totals.computed_prefill_tokens - computed_before_;
    computed_before_ = totals.computed_prefill_tokens;
    EXPECT_LE(running_.size(), config_.max_running);
  }

  uint64_t finished() const { return finished_; }
  uint64_t copies() const {
    uint64_t sum = 0;
    for (const auto& [hash, copies] : copies_) sum += copies;
    return sum;
  }

 private:
  struct Held {
    uint64_t hit_blocks = 0;
    uint64_t end_block = 0;  // blocks [hit_blocks, end_block) were stored by the request itself
  };

  const std::vector<EngineHash>& Blocks(uint64_t id) const {
    return requests_[id].request.block_hashes;
  }

  void SeeStarted(const PrefillStarted& started) {
    EXPECT_EQ(started.id, next_admitted_++) << "first come, first served";
    const auto& blocks = Blocks(started.id);
    const uint64_t isl_tokens = requests_[started.id].request.isl_tokens;
    uint64_t cached = 0;
    while (cached < blocks.size() && copies_.contains(blocks[cached])) ++cached;
    const uint64_t countable = isl_tokens == 0 ? 0 : (isl_tokens - 1) / kBlockTokens;
    uint64_t expected = std::min(cached, countable);
    if (config_.capacity_blocks > 0) expected = std::min(expected, config_.capacity_blocks);
    EXPECT_EQ(started.hit_blocks, expected) << "id=" << started.id;
    running_[started.id] = {.hit_blocks = started.hit_blocks, .end_block = started.hit_blocks};
  }

  void SeeStored(const BlocksStored& stored) {
    Held& held = running_.at(stored.id);
    EXPECT_EQ(stored.first_block, held.end_block) << "chunks follow each other";
    held.end_block = stored.first_block + stored.count;
    ASSERT_LE(held.end_block, Blocks(stored.id).size());
    for (uint64_t i = stored.first_block; i < held.end_block; ++i) ++copies_[Blocks(stored.id)[i]];
  }

  void SeeRemoved(EngineHash hash) {
    const auto entry = copies_.find(hash);
    ASSERT_NE(entry, copies_.end()) << "removed what was held";
    const uint64_t copies_left = --entry->second;
    if (copies_left == 0) copies_.erase(entry);
    uint64_t own_copies = 0;
    bool is_shared = false;
    for (const auto& [id, held] : running_) {
      const auto& blocks = Blocks(id);
      for (uint64_t i = 0; i < held.end_block; ++i) {
        if (blocks[i] != hash) continue;
        if (i < held.hit_blocks) {
          is_shared = true;
        } else {
          ++own_copies;
        }
      }
    }
    EXPECT_GE(copies_left, std::max<uint64_t>(own_copies, is_shared ? 1 : 0))
        << "a pinned block was evicted: " << static_cast<uint64_t>(hash);
  }

  const std::vector<TimedRequest>& requests_;
  const EngineConfig config_;
  std::map<EngineHash, uint64_t> copies_;
  std::map<uint64_t, Held> running_;
  std::map<uint64_t, uint64_t> output_tokens_;
  uint64_t next_admitted_ = 0;
  uint64_t finished_ = 0;
  uint64_t step_prefill_tokens_ = 0;
  uint64_t computed_before_ = 0;
  MonotonicTime last_at_{0};
};

TEST(ContinuousBatchingPropertyTest, KeepsItsPromisesOnRandomTraces) {
  for (uint64_t seed = 0; seed < 400; ++seed) {
    SCOPED_TRACE(fmt::format("seed={}", seed));
    std::mt19937_64 random(seed);
    const EngineConfig config = RandomConfig(random);
    const std::vector<TimedRequest> requests = RandomRequests(random, 60);
    EngineModel engine(config);
    Observer observer(requests, config);
    const auto wake_until = [&](MonotonicTime now) {
      for (MonotonicTime at = engine.NextEventTime(); at <= now && at != MonotonicTime::max();
           at = engine.NextEventTime()) {
        std::vector<EngineEvent> events;
        engine.AdvanceTo(at, &events);
        ASSERT_NO_FATAL_FAILURE(observer.See(events, engine.Totals()));
        if (config.capacity_blocks == 0) continue;
        ASSERT_LE(engine.Gauges().active_blocks, config.capacity_blocks);
        ASSERT_LE(engine.Gauges().cached_blocks, config.capacity_blocks);
      }
    };
    for (const TimedRequest& timed : requests) {
      ASSERT_NO_FATAL_FAILURE(wake_until(timed.arrival));
      engine.Submit(timed.request, timed.arrival);
    }
    ASSERT_NO_FATAL_FAILURE(wake_until(MonotonicTime::max()));
    ASSERT_EQ(observer.finished(), requests.size()) << "every request finishes";
    ASSERT_EQ(engine.Gauges().active_blocks, 0u);
    ASSERT_EQ(engine.Gauges().cached_blocks, observer.copies());
    if (HasFailure()) return;
  }
}

// Some requests load their KV, some leave blocks held, some are aborted, in any mixture.
TEST(ContinuousBatchingPropertyTest, ExchangeOfBlocksLosesNoRequestAndNoBlock) {
  for (uint64_t seed = 0; seed < 400; ++seed) {
    SCOPED_TRACE(fmt::format("seed={}", seed));
    std::mt19937_64 random(seed);
    EngineConfig config = RandomConfig(random);
    config.transfer_per_block = std::chrono::milliseconds(random() % 8);
    EngineModel engine(config);
    std::set<uint64_t> ended;
    std::vector<uint64_t> held;
    MonotonicTime last{0};
    uint64_t aborted = 0;
    const auto wake_until = [&](MonotonicTime now) {
      std::vector<EngineEvent> events;
      engine.AdvanceTo(now, &events);
      for (const EngineEvent& event : events) {
        ASSERT_GE(event.at, last) << "events come in time order";
        last = event.at;
        const auto* finished = std::get_if<RequestFinished>(&event.what);
        if (finished == nullptr) continue;
        ASSERT_TRUE(ended.insert(finished->id).second);
        if (!engine.HeldBlocks(finished->id).empty()) held.push_back(finished->id);
      }
      if (config.capacity_blocks > 0) {
        ASSERT_LE(engine.Gauges().active_blocks, config.capacity_blocks);
      }
    };
    const std::vector<TimedRequest> requests = RandomRequests(random, 60);
    for (const TimedRequest& timed : requests) {
      ASSERT_NO_FATAL_FAILURE(wake_until(timed.arrival));
      EngineRequest request = timed.request;
      if (random() % 3 == 0) request.external_tokens = random() % (request.isl_tokens + 9);
      request.hold_blocks = random() % 4 == 0;
      engine.Submit(std::move(request), timed.arrival);
      if (!held.empty() && random() % 2 == 0) {
        engine.ReleaseHeld(held.back(), timed.arrival);
        held.pop_back();
      }
      if (random() % 8 == 0) {
        const uint64_t id = random() % (timed.request.id + 1);
        if (!ended.contains(id)) {
          const uint64_t before = engine.Totals().requests_aborted;
          engine.Abort(id, timed.arrival);
          aborted += engine.Totals().requests_aborted - before;
        }
      }
    }
    MonotonicTime end = requests.back().arrival;
    for (int i = 0; i < 1000; ++i) {
      end += std::chrono::seconds(10);
      ASSERT_NO_FATAL_FAILURE(wake_until(end));
      if (held.empty() && ended.size() + aborted == requests.size()) break;
      for (const uint64_t id : std::exchange(held, {})) engine.ReleaseHeld(id, end);
    }
    ASSERT_EQ(ended.size() + aborted, requests.size()) << "every request ends";
    ASSERT_EQ(engine.Gauges().active_blocks, 0u);
    ASSERT_EQ(engine.NextEventTime(), MonotonicTime::max());
    const EngineTotals& totals = engine.Totals();
    ASSERT_LE(totals.external_tokens, totals.external_query_tokens);
  }
}

TEST(ContinuousBatchingPropertyTest, TheSameCallsGiveTheSameTotalsAndTimes) {
  for (uint64_t seed = 0; seed < 20; ++seed) {
    SCOPED_TRACE(fmt::format("seed={}", seed));
    const auto run = [seed] {
      std::mt19937_64 random(seed);
      const EngineConfig config = RandomConfig(random);
      EngineModel engine(config);
      for (const TimedRequest& timed : RandomRequests(random, 60)) {
        engine.Submit(timed.request, timed.arrival);
      }
      std::vector<EngineEvent> events;
      engine.AdvanceTo(MonotonicTime::max(), &events);
      std::vector<std::pair<MonotonicTime, size_t>> history;
      for (const EngineEvent& event : events) history.emplace_back(event.at, event.what.index());
      for (const EngineEvent& event : events) {
        if (const auto* removed = std::get_if<BlocksRemoved>(&event.what)) {
          for (const EngineHash hash : removed->hashes) {
            history.emplace_back(event.at, static_cast<size_t>(hash));
          }
        }
      }
      return history;
    };
    ASSERT_EQ(run(), run());
  }
}

}  // namespace
}  // namespace kvrouter::sim
