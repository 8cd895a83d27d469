// A router that restarts from what it saved is, once the engine has proved it, where a router would
// be that never restarted.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "core/index/block_index.h"
#include "feed/engine_feed.h"
#include "feed/saved_feed_codec.h"
#include "support/dice.h"
#include "support/feed_harness.h"

namespace kvrouter {
namespace {

constexpr uint32_t kRanks = 2;
constexpr uint32_t kBlockSize = 4;

// Says what an engine with a small cache could say: chains that branch, second copies, removals
// from anywhere, salts, placeholders.
class CachingEngine {
 public:
  explicit CachingEngine(Dice* dice) : dice_(*dice) {}

  const EngineBatch& Step() {
    const uint32_t rank = dice_.Below(kRanks);
    std::vector<std::string> events;
    for (uint32_t i = 1 + dice_.Below(3); i > 0; --i) events.push_back(Event(rank));
    return wire_.Publish(events, rank);
  }
  FakeEngine& wire() { return wire_; }

 private:
  struct Block {
    uint64_t hash = 0;
    int copies = 1;
  };

  std::string Event(uint32_t rank) {
    auto& held = held_[rank];
    const uint32_t what = dice_.Below(24);
    if (what == 0 && dice_.Chance(0.1)) {
      held.clear();
      return ArrayCleared();
    }
    if (what < 8 && !held.empty()) {
      const size_t at = dice_.Below(static_cast<uint32_t>(held.size()));
      const uint64_t hash = held[at].hash;
      if (--held[at].copies == 0) held.erase(held.begin() + static_cast<ptrdiff_t>(at));
      return ArrayRemove({hash});
    }
    if (what < 10 && !held.empty()) {
      Block& again = held[dice_.Below(static_cast<uint32_t>(held.size()))];
      const auto& [store, salted] = said_.at(again.hash);
      if (!store.parent || Holds(held, *store.parent)) {
        ++again.copies;
        return Said(store, salted);
      }
    }
    StoreSpec store;
    if (!held.empty() && dice_.Chance(0.75))
      store.parent = held[dice_.Below(static_cast<uint32_t>(held.size()))].hash;
    store.hashes = {next_hash_++};
    if (!dice_.Chance(0.05)) store.tokens = TokenRun(4 * dice_.Below(4), kBlockSize);
    const bool salted = !store.parent && !store.tokens.empty() && dice_.Chance(0.2);
    held.push_back({.hash = store.hashes[0]});
    said_[store.hashes[0]] = {store, salted};
    return Said(store, salted);
  }
  static std::string Said(const StoreSpec& store, bool salted) {
    if (!salted) return MapStore(store);
    MsgpackWriter salt;
    salt.Str("extra_keys").Array(1).Array(1).Str("pepper");
    return MapStore(store, 1, salt.bytes());
  }
  static bool Holds(const std::vector<Block>& held, uint64_t hash) {
    return std::any_of(held.begin(), held.end(), [&](const Block& b) { return b.hash == hash; });
  }

  Dice& dice_;
  FakeEngine wire_;
  uint64_t next_hash_ = 1;
  std::map<uint32_t, std::vector<Block>> held_;
  std::map<uint64_t, std::pair<StoreSpec, bool>> said_;
};

// A feed with the real index behind it.
class Router {
 public:
  Router() : feed_(FeedHarness::Config(/*has_replay=*/true, kRanks)) {}

  void Start(const FakeEngine& wire) {
    feed_.OnConnected(&out_);
    Apply();
    ServeReplays(wire);
  }
  void Live(const EngineBatch& batch) {
    const std::string sequence = SequenceFrame(batch.sequence);
    const std::vector<std::string_view> frames{"", sequence, batch.payload};
    feed_.OnLiveMessage(frames, &out_);
    Apply();
  }
  void ServeReplays(const FakeEngine& wire) {
    while (const auto request = feed_.TakeReplayRequest({})) {
      for (const EngineBatch& batch : wire.history()) {
        if (batch.sequence < request->from_sequence) continue;
        const std::string sequence = SequenceFrame(batch.sequence);
        const std::vector<std::string_view> frames{"", sequence, batch.payload};
        feed_.OnReplayMessage(frames, {}, &out_);
        Apply();
        if (!feed_.ReplayRunning() || feed_.ReplayWanted()) break;
      }
      if (feed_.ReplayRunning() && !feed_.ReplayWanted()) {
        feed_.OnReplayEnd(&out_);
        Apply();
      }
    }
  }

  // To bytes and back, as through a file.
  std::optional<SavedFeed> Save() const {
    auto progress = feed_.Save();
    if (!progress) return std::nullopt;
    for (SavedRank& rank : progress->ranks) {
      if (!rank.blocks.empty()) continue;  // not proved yet: as it was restored
      const Target target{kFeedWorker, rank.dp_rank};
      rank.held_blocks = index_.HolderBlocks(target);
      EXPECT_TRUE(index_.SaveTarget(target, [&](std::variant<Stored, Removed>&& data) {
        rank.blocks.push_back({.tier = StorageTier::kDevice, .data = std::move(data)});
      }));
    }
    SavedFeed feed;
    feed.spec.block_size_tokens = kBlockSize;
    feed.progress = *std::move(progress);
    const auto decoded = DecodeFeed(EncodeFeed(feed));
    EXPECT_TRUE(decoded.ok()) << decoded.status();
    return *decoded;
  }

  EngineFeed& feed() { return feed_; }
  const BlockIndex& index() const { return index_; }

 private:
  void Apply() {
    for (const KvEvent& event : out_) feed_.OnApplyResult(event, index_.Apply(event));
    out_.clear();
  }

  EngineFeed feed_;
  BlockIndex index_;
  std::vector<KvEvent> out_;
};

void ExpectSame(Dice* dice, const Router& restarted, const Router& reference) {
  for (uint32_t rank = 0; rank < kRanks; ++rank) {
    const Target target{kFeedWorker, rank};
    ASSERT_EQ(restarted.index().HolderBlocks(target), reference.index().HolderBlocks(target));
  }
  std::vector<OverlapMatch> got, expected;
  for (int query = 0; query < 40; ++query) {
    std::vector<LocalBlockHash> path;
    const uint64_t seed =
        dice->Chance(0.2) ? BlockSeed({.lora_name = {}, .cache_salt = "pepper"}) : BlockSeed({});
    for (uint32_t n = 1 + dice->Below(8); n > 0; --n)
      AppendLocalBlockHashes(TokenRun(4 * dice->Below(4), kBlockSize), kBlockSize, seed, &path);
    restarted.index().FindOverlap(path, &got);
    reference.index().FindOverlap(path, &expected);
    ASSERT_EQ(got, expected);
  }
}

TEST(FeedRestartPropertyTest, ARestartedRouterIsWhereOneWouldBeThatNeverRestarted) {
  int restarts_with_blocks = 0;
  for (uint64_t seed = 0; seed < 150; ++seed) {
    SCOPED_TRACE(fmt::format("seed={}", seed));
    Dice dice(seed);
    CachingEngine engine(&dice);
    auto router = std::make_unique<Router>();
    Router reference;
    for (uint32_t i = dice.Below(20); i > 0; --i) engine.Step();
    router->Start(engine.wire());
    reference.Start(engine.wire());
    for (int life = 0; life < 4; ++life) {
      for (uint32_t i = 20 + dice.Below(40); i > 0; --i) {
        const EngineBatch batch = engine.Step();
        router->Live(batch);
        reference.Live(batch);
      }
      std::optional<SavedFeed> saved = router->Save();
      ASSERT_TRUE(saved.has_value());
      // The router lives on for a while after its last snapshot, then is gone for a while.
      for (uint32_t i = dice.Below(20); i > 0; --i) reference.Live(engine.Step());
      // What it can no longer ask for it does not need: only the batch it stopped at.
      if (dice.Chance(0.5)) engine.wire().ForgetBefore(saved->progress.applied.sequence);
      router = std::make_unique<Router>();
      router->feed().Restore(saved->progress);
      if (dice.Chance(0.3)) {  // and falls over again before it could ask
        saved = router->Save();
        ASSERT_TRUE(saved.has_value());
        router = std::make_unique<Router>();
        router->feed().Restore(saved->progress);
      }
      router->Start(engine.wire());
      ASSERT_EQ(router->feed().RestorationState(), EngineFeed::Restoration::kProved);
      ASSERT_EQ(router->feed().State(), FeedState::kLive) << router->feed().Detail();
      ASSERT_NO_FATAL_FAILURE(ExpectSame(&dice, *router, reference));
      restarts_with_blocks += router->index().Stats().holder_blocks > 5;
    }
  }
  EXPECT_GT(restarts_with_blocks, 300) << "the histories hold nothing to speak of";
}

}  // namespace
}  // namespace kvrouter
