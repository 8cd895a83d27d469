// However an engine's messages reach us (once, twice, over two sockets, with breaks and restarts in
// between), the index ends up as if every batch of the engine's present life had been applied once,
// in order.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <deque>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "feed/event_codec.h"
#include "support/dice.h"
#include "support/feed_harness.h"

namespace kvrouter {
namespace {

constexpr uint32_t kRanks = 2;

// An engine with a cache: says what a real one could say. Contents repeat between lives and
// sequences; hashes do not repeat between lives, as engines seed them at random.
class CachingEngine {
 public:
  CachingEngine(Dice* dice, uint64_t life)
      : dice_(*dice), wire_(1000.0 * static_cast<double>(life)), next_hash_(life * 1'000'003) {}

  const EngineBatch& Step() {
    const uint32_t rank = dice_.Below(kRanks);
    std::vector<std::string> events;
    for (uint32_t i = 1 + dice_.Below(3); i > 0; --i) events.push_back(Event(rank));
    const EngineBatch& batch = wire_.Publish(events, rank);
    if (!dice_.Chance(0.01)) return batch;
    return wire_.Publish({MsgpackWriter().Array(2).Str("BlockStored").Nil().bytes()},
                         rank);  // malformed
  }

  const FakeEngine& wire() const { return wire_; }

 private:
  using Held = std::vector<std::pair<uint64_t, int>>;  // hash, copies

  std::string Event(uint32_t rank) {
    Held& held = held_[rank];
    const uint32_t what = dice_.Below(20);
    if (what == 0 && dice_.Chance(0.3)) {
      held.clear();
      return ArrayCleared();
    }
    if (what < 7 && !held.empty()) {
      auto& victim = held[dice_.Below(static_cast<uint32_t>(held.size()))];
      const uint64_t hash = victim.first;
      if (--victim.second == 0)
        std::erase_if(held, [&](const auto& block) { return block.first == hash; });
      return dice_.Chance(0.5) ? ArrayRemove({hash}) : MapRemove({hash});
    }
    StoreSpec store;
    if (what < 9 && !held.empty()) {  // a second copy of a block
      auto& again = held[dice_.Below(static_cast<uint32_t>(held.size()))];
      store = specs_.at(again.first);
      if (!store.parent || Holds(held, *store.parent)) {
        ++again.second;
        return ArrayStore(store);
      }
    }
    store = {};
    if (!held.empty() && dice_.Chance(0.7))
      store.parent = held[dice_.Below(static_cast<uint32_t>(held.size()))].first;
    store.hashes = {next_hash_++};
    store.tokens = TokenRun(4 * dice_.Below(5), 4);
    held.emplace_back(store.hashes[0], 1);
    specs_[store.hashes[0]] = store;
    return dice_.Chance(0.5) ? ArrayStore(store) : MapStore(store);
  }
  static bool Holds(const Held& held, uint64_t hash) {
    return std::any_of(held.begin(), held.end(),
                       [&](const auto& block) { return block.first == hash; });
  }

  Dice& dice_;
  FakeEngine wire_;
  uint64_t next_hash_;
  std::map<uint32_t, Held> held_;
  std::map<uint64_t, StoreSpec> specs_;
};

// Everything an index holds, counts included: (rank, hash) -> (path, stores).
using Contents = std::map<std::pair<uint32_t, EngineHash>, std::pair<NaiveIndex::Path, int>>;

Contents ContentsOf(NaiveIndex index) {
  Contents contents;
  for (uint32_t rank = 0; rank < kRanks; ++rank) {
    KvEvent event;
    event.target = {kFeedWorker, rank};
    for (auto names = index.NamesOf(event.target); !names.empty();
         names = index.NamesOf(event.target)) {
      for (const EngineHash hash : names) {
        auto& entry = contents[{rank, hash}];
        entry.first = index.PathOf(event.target, hash);
        ++entry.second;
        event.data = Removed{{hash}};
        index.Apply(event);
      }
    }
  }
  return contents;
}

// The truth: each batch of the life once, in order.
Contents Reference(const FakeEngine& engine) {
  FeedHarness h(/*has_replay=*/false, kRanks);
  h.Connect();
  for (const EngineBatch& batch : engine.history()) h.Live(batch);
  EXPECT_EQ(h.feed().State(), FeedState::kLive);
  return ContentsOf(h.index());
}

TEST(FeedDeliveryPropertyTest, EveryMessageTwiceChangesNothing) {
  for (uint64_t seed = 0; seed < 100; ++seed) {
    SCOPED_TRACE(fmt::format("seed={}", seed));
    Dice dice(seed);
    CachingEngine engine(&dice, 1);
    FeedHarness h(/*has_replay=*/true, kRanks);
    for (int i = 0; i < 60; ++i) engine.Step();
    h.Connect();
    ASSERT_EQ(h.TakeRequest(), 0u);
    // Over both sockets and each of them twice.
    for (const EngineBatch& batch : engine.wire().history()) {
      h.Live(batch);
      h.Replayed(batch);
      h.Live(batch);
      h.Replayed(batch);
    }
    h.ReplayEnd();
    for (int i = 0; i < 60; ++i) {
      const EngineBatch batch = engine.Step();
      h.Live(batch);
      h.Live(batch);
    }
    EXPECT_EQ(h.counters().restarts, 0u);
    const int wanted =
        h.feed().ReplayWanted() ? 1 : 0;  // a step may publish twice, and we passed on one
    ASSERT_EQ(h.ServeReplays(engine.wire()), wanted);
    ASSERT_EQ(ContentsOf(h.index()), Reference(engine.wire()));
    ASSERT_EQ(h.feed().State(), FeedState::kLive);
  }
}

struct Trouble {
  double reply_loss = 0;
  double live_cuts = 0;         // arrive cut in two
  double live_distortions = 0;  // arrive as a store that continues a block nobody knows
};

std::string Distorted(const std::string& payload) {
  RawBatch batch;
  EXPECT_FALSE(DecodeBatch(payload, &batch));
  const StoreSpec orphan{.hashes = {1}, .parent = 2, .tokens = TokenRun(900, 4)};
  return BatchPayload(batch.ts_seconds, {ArrayStore(orphan)}, static_cast<int64_t>(*batch.rank));
}

// Sockets between an engine and a feed: messages in flight, lost connections, slow and cut replies.
class Network {
 public:
  Network(Dice* dice, FeedHarness* feed, const Trouble& trouble)
      : dice_(*dice), feed_(*feed), trouble_(trouble) {}

  void Send(const EngineBatch& batch) {
    if (!connected_ || dice_.Chance(0.03)) return;  // or dropped at the sender's bound
    live_.push_back(batch);
    std::string& payload = live_.back().payload;
    if (trouble_.live_cuts > 0 && dice_.Chance(trouble_.live_cuts)) {
      payload.resize(payload.size() / 2);
    } else if (trouble_.live_distortions > 0 && dice_.Chance(trouble_.live_distortions)) {
      payload = Distorted(payload);
    }
  }
  void Connect() {
    if (std::exchange(connected_, true)) return;
    if (std::exchange(ever_connected_, true) || dice_.Chance(0.8)) {
      feed_.Connect();
    } else {
      late_notice_ = true;  // the first message will tell
    }
  }
  // What was in flight arrives before the notice or after it, or is lost.
  void Disconnect() {
    if (!std::exchange(connected_, false)) return;
    const bool notice_first = dice_.Chance(0.5);
    if (notice_first) {
      if (std::exchange(late_notice_, false)) feed_.Connect();
      feed_.Disconnect();
    }
    while (!live_.empty() && dice_.Chance(0.7)) DeliverLive();
    live_.clear();
    replies_.clear();
    request_.reset();
    late_notice_ = false;
    if (!notice_first) feed_.Disconnect();
  }
  void DeliverLive() {
    if (live_.empty()) return;
    const EngineBatch batch = live_.front();
    live_.pop_front();
    feed_.Live(batch);
    if (dice_.Chance(0.1)) feed_.Live(batch);
    late_notice_ = false;
    TakeRequest();
  }
  // The engine answers with its history as it is now.
  void Serve(const FakeEngine& engine) {
    TakeRequest();
    if (!request_) return;
    for (const EngineBatch& batch : engine.history()) {
      if (batch.sequence >= *request_ && !dice_.Chance(trouble_.reply_loss))
        replies_.push_back(batch);
    }
    if (!dice_.Chance(trouble_.reply_loss)) replies_.push_back({UINT64_MAX, ""});
    request_.reset();
  }
  void DeliverReply() {
    if (replies_.empty()) return;
    const EngineBatch batch = replies_.front();
    replies_.pop_front();
    feed_.Replayed(batch);
    TakeRequest();
  }
  void Advance(MonotonicTime by) {
    feed_.Advance(by);
    TakeRequest();
  }
  // Until nothing moves any more.
  void Settle(const FakeEngine& engine) {
    Connect();
    if (std::exchange(late_notice_, false)) feed_.Connect();
    for (int round = 0; round < 200; ++round) {
      while (!live_.empty()) DeliverLive();
      Serve(engine);
      while (!replies_.empty()) DeliverReply();
      if (request_) continue;  // served in the next round, before it could time out
      Advance(std::chrono::seconds(6));
      if (live_.empty() && replies_.empty() && !feed_.feed().ReplayRunning()) return;
    }
    ADD_FAILURE() << "the feed never comes to rest";
  }

 private:
  // A new replay has a socket of its own: what is left of the old one's reply is gone.
  void TakeRequest() {
    if (const auto from = feed_.TakeRequest()) {
      request_ = *from;
      replies_.clear();
    } else if (!feed_.feed().ReplayRunning()) {
      request_.reset();
      replies_.clear();
    }
  }

  Dice& dice_;
  FeedHarness& feed_;
  const Trouble trouble_;
  bool connected_ = false;
  bool ever_connected_ = false;
  bool late_notice_ = false;
  std::deque<EngineBatch> live_;
  std::optional<uint64_t> request_;
  std::deque<EngineBatch> replies_;
};

// A random history over the network, then quiet. Returns the feed's side through `h`, the truth
// through the result.
Contents Play(uint64_t seed, const Trouble& trouble, FeedHarness* h) {
  Dice dice(seed);
  uint64_t life = 1;
  auto engine = std::make_unique<CachingEngine>(&dice, life);
  Network network(&dice, h, trouble);
  const bool restarts = dice.Chance(0.5);
  for (int step = 0; step < 400; ++step) {
    switch (dice.Below(12)) {
      case 0:
      case 1:
      case 2:
      case 3:
        network.Send(engine->Step());
        break;
      case 4:
      case 5:
      case 6:
        network.DeliverLive();
        break;
      case 7:
      case 8:
        for (uint32_t i = dice.Below(12); i > 0; --i) network.DeliverReply();
        break;
      case 9:
        network.Serve(engine->wire());
        break;
      case 10:
        network.Connect();
        break;
      default:
        network.Advance(
            std::chrono::milliseconds(dice.Below(30)));  // nothing times out for lack of turns
        if (dice.Chance(0.15)) network.Disconnect();
        if (restarts && dice.Chance(0.1)) {
          network.Disconnect();
          engine = std::make_unique<CachingEngine>(&dice, ++life);
          for (uint32_t i = dice.Below(80); i > 0; --i)
            engine->Step();  // it may pass the old sequence unheard
        }
    }
  }
  network.Settle(engine->wire());
  // A last batch that is not lost shows whether anything before it was.
  engine->Step();
  h->Live(engine->wire().history().back());
  network.Settle(engine->wire());
  // What was damaged on the way is repaired in the end.
  const bool is_damaged = trouble.live_cuts + trouble.live_distortions > 0;
  for (int round = 0; round < 100 && !h->feed().Detail().empty() && is_damaged; ++round) {
    network.Advance(std::chrono::seconds(30 << std::min(round, 8)));
    network.Settle(engine->wire());
  }
  return Reference(engine->wire());
}

TEST(FeedDeliveryPropertyTest, SplitAndReorderedBetweenSocketsGivesOneIndex) {
  uint64_t restarts = 0, gaps = 0, reconnects = 0, leftovers = 0;
  for (uint64_t seed = 0; seed < 600; ++seed) {
    SCOPED_TRACE(fmt::format("seed={}", seed));
    EngineFeedConfig config = FeedHarness::Config(/*has_replay=*/true, kRanks);
    config.max_buffered_batches = 1 + seed % 40;
    FeedHarness h(config);
    const Contents truth = Play(seed, {}, &h);
    ASSERT_EQ(h.feed().State(), FeedState::kLive) << h.feed().Detail();
    ASSERT_EQ(ContentsOf(h.index()), truth);
    restarts += h.counters().restarts;
    gaps += h.counters().gaps;
    reconnects += h.counters().reconnects;
    leftovers += h.Skipped(SkipReason::kDisconnected);
  }
  // The histories are worth their name.
  EXPECT_GT(restarts, 300u);
  EXPECT_GT(gaps, 500u);
  EXPECT_GT(reconnects, 1000u);
  EXPECT_GT(leftovers, 300u);
}

// With replies that lose messages the feed may have to give history up, but then it says so, and it
// never believes in a block that the engine does not hold.
TEST(FeedDeliveryPropertyTest, LossyRepliesAreNeverSilent) {
  uint64_t degraded = 0;
  for (uint64_t seed = 0; seed < 600; ++seed) {
    SCOPED_TRACE(fmt::format("seed={}", seed));
    FeedHarness h(FeedHarness::Config(/*has_replay=*/true, kRanks));
    const Contents truth = Play(seed, {.reply_loss = 0.02}, &h);
    const Contents held = ContentsOf(h.index());
    if (h.feed().State() == FeedState::kLive) {
      ASSERT_EQ(held, truth);
    } else {
      ASSERT_EQ(h.feed().State(), FeedState::kDegraded);
      ++degraded;
      for (const auto& [name, what] : held) {
        const auto real = truth.find(name);
        ASSERT_NE(real, truth.end());
        ASSERT_EQ(what.first, real->second.first);
        ASSERT_LE(what.second, real->second.second);
      }
    }
  }
  EXPECT_GT(degraded, 10u);
  EXPECT_LT(degraded, 400u);
}

// Live batches that arrive cut in two are as good as lost: the engine is asked for them, and once.
TEST(FeedDeliveryPropertyTest, BatchesCutOnTheWayAreFetched) {
  uint64_t unreadable = 0, replays = 0;
  for (uint64_t seed = 0; seed < 400; ++seed) {
    SCOPED_TRACE(fmt::format("seed={}", seed));
    EngineFeedConfig config = FeedHarness::Config(/*has_replay=*/true, kRanks);
    config.max_buffered_batches = 1 + seed % 40;
    FeedHarness h(config);
    const Contents truth = Play(seed, {.live_cuts = 0.1}, &h);
    ASSERT_EQ(h.feed().State(), FeedState::kLive) << h.feed().Detail();
    ASSERT_EQ(ContentsOf(h.index()), truth);
    for (const KvEvent& event : h.applied()) ASSERT_EQ(event.staging, Staging::kNone);
    unreadable += h.Skipped(SkipReason::kBadEnvelope);
    replays += h.counters().replays_started;
  }
  EXPECT_GT(unreadable, 500u);
  EXPECT_GT(replays, 2000u);
}

// Batches that lost a parent on the way are brought by a repair, while live batches go on.
TEST(FeedDeliveryPropertyTest, BatchesDistortedOnTheWayAreRepaired) {
  uint64_t repaired = 0, commits = 0;
  for (uint64_t seed = 0; seed < 400; ++seed) {
    SCOPED_TRACE(fmt::format("seed={}", seed));
    EngineFeedConfig config = FeedHarness::Config(/*has_replay=*/true, kRanks);
    config.repair_backoff_min =
        std::chrono::milliseconds(20);  // some begin in the middle of it all
    config.max_buffered_batches = 1 + seed % 40;
    FeedHarness h(config);
    const Contents truth = Play(seed, {.live_cuts = 0.03, .live_distortions = 0.1}, &h);
    ASSERT_EQ(h.feed().State(), FeedState::kLive) << h.feed().Detail();
    ASSERT_EQ(ContentsOf(h.index()), truth);
    for (uint32_t rank = 0; rank < kRanks; ++rank) {
      ASSERT_TRUE(h.index().NamesOf({kFeedWorker, rank}, /*staged=*/true).empty());
    }
    uint64_t commits_here = 0;
    for (const KvEvent& event : h.applied())
      commits_here += event.staging == Staging::kCommit ? 1 : 0;
    commits += commits_here;
    repaired += commits_here > 0 ? 1 : 0;
  }
  EXPECT_GT(repaired, 200u);
  EXPECT_GT(commits, 400u);
}

TEST(FeedDeliveryPropertyTest, WithoutReplayNothingIsEverHeldThatTheEngineDoesNotHold) {
  for (uint64_t seed = 0; seed < 300; ++seed) {
    SCOPED_TRACE(fmt::format("seed={}", seed));
    FeedHarness h(/*has_replay=*/false, kRanks);
    const Contents truth = Play(seed, {}, &h);
    for (const auto& [name, what] : ContentsOf(h.index())) {
      const auto real = truth.find(name);
      ASSERT_NE(real, truth.end());
      ASSERT_EQ(what.first, real->second.first);
      ASSERT_LE(what.second, real->second.second);
    }
    if (h.feed().State() == FeedState::kLive) {
      ASSERT_EQ(ContentsOf(h.index()), truth);
    }
  }
}

}  // namespace
}  // namespace kvrouter
