// However the sockets behave, the router never believes in a block that its engine does not hold,
// and knows every one that it holds where replay can tell.
//
//   KVR_TRUTH_SEEDS=first..last   other seeds than the first 500
//   KVR_TRUTH_TRACE=rank          after a failure, what happened there with the shortest plan
//
// Changes of the feed that its faults do not tell from the right thing within 500 seeds, and that
// unit tests do: an equal sequence with another timestamp taken for a repetition (FeedCursorTest,
// EngineFeedTest), orphans not noted (EngineFeedTest, PlaneRankFeedTest), the order of publishers
// off (PublisherOrderTest, PlaneRankFeedTest), blocks kept after a hole (EngineFeedTest,
// FeedLossTest).
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cinttypes>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string>

#include "property/truth/fault_plan.h"
#include "property/truth/fleet.h"

namespace kvrouter::truth {
namespace {

constexpr uint32_t kShortenTrials = 400;

struct Seeds {
  uint64_t first = 0;
  uint64_t last = 499;
};

Seeds SeedsToRun() {
  Seeds seeds;
  const char* const text = std::getenv("KVR_TRUTH_SEEDS");
  if (text == nullptr) return seeds;
  unsigned long long first = 0;
  unsigned long long last = 0;
  if (std::sscanf(text, "%llu..%llu", &first, &last) != 2 || last < first) {
    ADD_FAILURE() << "KVR_TRUTH_SEEDS is first..last, not " << text;
    return seeds;
  }
  return {first, last};
}

FaultPlan PlanOf(uint64_t seed) {
  return RandomPlan(Mix(seed, 7), Fleet::kRanks, Fleet::FaultsEnd());
}

void Add(const Fleet::Outcome& more, Fleet::Outcome* sum) {
  sum->ranks_checked += more.ranks_checked;
  sum->ranks_live += more.ranks_live;
  sum->restored += more.restored;
  sum->counters.messages += more.counters.messages;
  sum->counters.gaps += more.counters.gaps;
  sum->counters.restarts += more.counters.restarts;
  sum->counters.reconnects += more.counters.reconnects;
  sum->counters.replays_completed += more.counters.replays_completed;
  sum->counters.replays_failed += more.counters.replays_failed;
}

Fleet::Outcome Play(uint64_t seed, const FaultPlan& plan, bool trace = false) {
  Fleet fleet(seed);
  const char* const rank = std::getenv("KVR_TRUTH_TRACE");
  if (trace && rank != nullptr)
    fleet.SetTrace(static_cast<uint32_t>(std::atoi(rank)) % Fleet::kRanks);
  return fleet.Run(plan);
}

TEST(TruthTest, OverlapNeverExceedsWhatTheEngineHoldsAndEqualsItWhereReplayCoversTheLoss) {
  const Seeds seeds = SeedsToRun();
  Fleet::Outcome sum;
  for (uint64_t seed = seeds.first; seed <= seeds.last; ++seed) {
    if (seed > seeds.first && seed % 10'000 == 0) std::printf("seed %" PRIu64 "\n", seed);
    const FaultPlan plan = PlanOf(seed);
    const Fleet::Outcome outcome = Play(seed, plan);
    Add(outcome, &sum);
    if (!outcome.failure) continue;
    const FaultPlan shorter = Shorten(
        plan, [&](const FaultPlan& faults) { return Play(seed, faults).failure.has_value(); },
        kShortenTrials);
    FAIL() << "seed=" << seed << ": " << *outcome.failure << "\nwith " << shorter.size() << " of "
           << plan.size() << " faults: "
           << Play(seed, shorter, /*trace=*/true).failure.value_or("(not reproduced)") << "\n"
           << Describe(shorter);
  }
  // The runs are worth their name, and most ranks are whole at the end.
  const uint64_t runs = seeds.last - seeds.first + 1;
  const FeedCounters& counters = sum.counters;
  const std::string figures = fmt::format(
      "runs={} messages={} gaps={} restarts={} reconnects={} replays completed={} failed={} "
      "restored={} live={} of {}",
      runs, counters.messages, counters.gaps, counters.restarts, counters.reconnects,
      counters.replays_completed, counters.replays_failed, sum.restored, sum.ranks_live,
      sum.ranks_checked);
  std::printf("%s\n", figures.c_str());
  if (runs < 100) return;
  EXPECT_GT(counters.gaps, runs) << figures;
  EXPECT_GT(counters.restarts, runs) << figures;
  EXPECT_GT(counters.replays_failed, runs) << figures;
  EXPECT_GT(sum.restored * 2, runs) << figures;
  EXPECT_GT(sum.ranks_live * 2, sum.ranks_checked) << figures;
}

}  // namespace
}  // namespace kvrouter::truth
