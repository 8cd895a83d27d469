#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <random>
#include <set>
#include <vector>

#include "kvrouter/router.h"
#include "support/core_builders.h"

namespace kvrouter {
namespace {

using namespace testing;  // NOLINT: the builders

using Blocks = std::vector<LocalBlockHash>;

// What the router should know, as sets and loops: which prefixes each worker holds, which requests
// are live where.
struct NaiveFleet {
  struct Live {
    uint64_t worker = 0;
    Blocks blocks;
    uint64_t prefill_tokens = 0;
  };
  std::map<uint64_t, std::set<Blocks>> held;  // by worker: prefixes it holds
  std::map<BookingId, Live> live;

  uint64_t Overlap(uint64_t worker, const Blocks& prompt) const {
    for (size_t n = 1; n <= prompt.size(); ++n) {
      if (!held.at(worker).contains(Prefix(prompt, n))) return n - 1;
    }
    return prompt.size();
  }
  std::set<Blocks> LiveBlocks(uint64_t worker) const {
    std::set<Blocks> distinct;
    for (const auto& [id, request] : live) {
      if (request.worker != worker) continue;
      for (size_t n = 1; n <= request.blocks.size(); ++n) {
        distinct.insert(Prefix(request.blocks, n));
      }
    }
    return distinct;
  }
  uint64_t PrefillTokens(uint64_t worker) const {
    uint64_t tokens = 0;
    for (const auto& [id, request] : live) {
      if (request.worker == worker) tokens += request.prefill_tokens;
    }
    return tokens;
  }
  // Defaults: (pending prefill + prompt) / B - overlap, and the distinct blocks with this prompt's
  // added.
  double Cost(uint64_t worker, const Blocks& prompt, uint64_t isl_tokens) const {
    auto distinct = LiveBlocks(worker);
    for (size_t n = 1; n <= prompt.size(); ++n) distinct.insert(Prefix(prompt, n));
    const double prefill = static_cast<double>(PrefillTokens(worker) + isl_tokens) / kBlockSize -
                           static_cast<double>(Overlap(worker, prompt));
    return std::max(0.0, prefill) + static_cast<double>(distinct.size());
  }
  static Blocks Prefix(const Blocks& blocks, size_t n) {
    return {blocks.begin(), blocks.begin() + static_cast<long>(n)};
  }
};

class FleetHistory {
 public:
  explicit FleetHistory(uint64_t seed) : random_(seed), router_(Config(seed), nullptr) {
    for (uint64_t id = 1; id <= kWorkers; ++id) {
      EXPECT_TRUE(router_.UpsertWorker(AWorker(id)).ok());
      fleet_.held[id];
      incarnations_[id] = 1;
    }
  }

  void Step() {
    switch (Draw(10)) {
      case 0:
      case 1:
      case 2:
      case 3:
        return Route();
      case 4:
      case 5:
        return Finish();
      case 6:
        return PrefillComplete();
      case 7:
      case 8:
        return Cache();
      default:
        return Draw(10) == 0 ? Restart() : Evict();
    }
  }

  void FinishAll() {
    while (!fleet_.live.empty()) Finish();
    ExpectIdle(router_);
  }

 private:
  static constexpr uint64_t kWorkers = 4;

  static RouterConfig Config(uint64_t seed) {
    RouterConfig config;
    config.random_seed = seed;
    return config;
  }

  uint64_t Draw(uint64_t bound) { return random_() % bound; }
  uint64_t AWorkerId() { return 1 + Draw(kWorkers); }
  Blocks APrompt() {
    Blocks prompt(Draw(6));
    for (auto& block : prompt) block = LocalBlockHash{1 + Draw(2)};
    return prompt;
  }
  // An engine's name for a block: here one number per prefix.
  static EngineHash NameOf(const Blocks& prefix) {
    uint64_t name = 1;
    for (const auto block : prefix) name = name * 3 + static_cast<uint64_t>(block);
    return EngineHash{name};
  }

  void Route() {
    const Blocks prompt = APrompt();
    const uint64_t isl_tokens = prompt.size() * kBlockSize + Draw(kBlockSize);
    RouteRequest request;
    request.prompt =
        HashPrompt{.local_hashes = prompt, .sequence_hashes = {}, .isl_tokens = isl_tokens};
    request.book = Draw(4) != 0;
    const auto decision = Decide(router_, request);
    ASSERT_EQ(decision.candidates.size(), kWorkers);
    double lowest = std::numeric_limits<double>::max();
    uint32_t ties = 0;
    for (const CandidateCost& candidate : decision.candidates) {
      const auto worker = static_cast<uint64_t>(candidate.target.worker);
      const double cost = fleet_.Cost(worker, prompt, isl_tokens);
      ASSERT_EQ(candidate.cost_blocks, cost) << "worker " << worker;
      ASSERT_EQ(candidate.device_overlap_blocks,
                static_cast<double>(fleet_.Overlap(worker, prompt)));
      ties = cost < lowest ? 1 : ties + (cost == lowest ? 1 : 0);
      lowest = std::min(lowest, cost);
    }
    const auto chosen = static_cast<uint64_t>(decision.target.worker);
    ASSERT_EQ(fleet_.Cost(chosen, prompt, isl_tokens), lowest);
    ASSERT_EQ(decision.tie_size, ties);
    ASSERT_EQ(decision.overlap_blocks, fleet_.Overlap(chosen, prompt));
    if (!request.book) return;
    fleet_.live[decision.booking] = {
        .worker = chosen,
        .blocks = prompt,
        .prefill_tokens = isl_tokens - decision.overlap_blocks * kBlockSize};
  }

  std::map<BookingId, NaiveFleet::Live>::iterator ALiveRequest() {
    return std::next(fleet_.live.begin(), static_cast<long>(Draw(fleet_.live.size())));
  }

  void Finish() {
    if (fleet_.live.empty()) return;
    const auto it = ALiveRequest();
    ASSERT_TRUE(router_.Finish(it->first, {}));
    ASSERT_FALSE(router_.Finish(it->first, {}));
    fleet_.live.erase(it);
  }

  void PrefillComplete() {
    if (fleet_.live.empty()) return;
    const auto it = ALiveRequest();
    ASSERT_TRUE(router_.PrefillComplete(it->first, {}));
    it->second.prefill_tokens = 0;
  }

  void Cache() {
    const uint64_t worker = AWorkerId();
    const Blocks prompt = APrompt();
    if (prompt.empty()) return;
    Stored stored;
    for (size_t n = 1; n <= prompt.size(); ++n) {
      const Blocks prefix = NaiveFleet::Prefix(prompt, n);
      stored.blocks.push_back({.engine_hash = NameOf(prefix), .local_hash = prompt[n - 1]});
      fleet_.held[worker].insert(prefix);
    }
    KvEvent event = AnEvent(TargetOf(worker), std::move(stored), incarnations_[worker]);
    event.counting = StoreCounting::kSet;
    ASSERT_EQ(router_.Apply(event).status, ApplyStatus::kOk);
  }

  void Evict() {
    const uint64_t worker = AWorkerId();
    auto& held = fleet_.held[worker];
    if (held.empty()) return;
    const auto victim = std::next(held.begin(), static_cast<long>(Draw(held.size())));
    const auto event = AnEvent(TargetOf(worker), Removed{{NameOf(*victim)}}, incarnations_[worker]);
    ASSERT_EQ(router_.Apply(event).status, ApplyStatus::kOk);
    held.erase(victim);
  }

  void Restart() {
    const uint64_t worker = AWorkerId();
    ASSERT_TRUE(router_.UpsertWorker(AWorker(worker, ++incarnations_[worker])).ok());
    fleet_.held[worker].clear();
    std::erase_if(fleet_.live, [&](const auto& entry) { return entry.second.worker == worker; });
  }

  std::mt19937_64 random_;
  Router router_;
  NaiveFleet fleet_;
  std::map<uint64_t, uint64_t> incarnations_;
};

TEST(RouterPropertyTest, EveryTermOfEveryDecisionAgreesWithANaiveFleet) {
  for (uint64_t seed = 0; seed < 60; ++seed) {
    FleetHistory history(seed);
    for (int step = 0; step < 400; ++step) {
      SCOPED_TRACE(fmt::format("seed={} step={}", seed, step));
      history.Step();
      if (::testing::Test::HasFatalFailure()) return;
    }
    SCOPED_TRACE(fmt::format("seed={} end", seed));
    history.FinishAll();
    if (::testing::Test::HasFailure()) return;
  }
}

}  // namespace
}  // namespace kvrouter
