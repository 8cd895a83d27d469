#include <gtest/gtest.h>

#include <vector>

#include "kvrouter/block_hash.h"
#include "kvrouter/router.h"
#include "support/core_builders.h"

namespace kvrouter {
namespace {

using namespace testing;  // NOLINT: the builders
using std::chrono::nanoseconds;

// A clock that moves by 1, 10, 100, ... ns with each reading, so that a sum names its parts.
class PhaseRecorder : public PhaseObserver {
 public:
  MonotonicTime ReadClock() const override {
    now_ += step_;
    step_ *= 10;
    ++readings_;
    return now_;
  }
  void OnPhases(const PhaseTimes& times) override {
    seen.push_back(times);
    step_ = nanoseconds(1);
  }

  std::optional<nanoseconds> Last(DecisionPhase phase) const {
    return seen.back().phases[static_cast<size_t>(phase)];
  }
  int readings() const { return readings_; }

  std::vector<PhaseTimes> seen;

 private:
  mutable nanoseconds now_{1'000'000};
  mutable nanoseconds step_{1};
  mutable int readings_ = 0;
};

class RouterPhasesTest : public ::testing::Test {
 protected:
  void SetUp() override { ASSERT_TRUE(router_.UpsertWorker(AWorker(1)).ok()); }

  PhaseRecorder phases_;
  Router router_{RouterConfig{}, nullptr, &phases_};
  const std::vector<TokenId> tokens_ = TokensFrom(0, 100);
};

TEST_F(RouterPhasesTest, EachStepIsTimedFromTheEndOfTheOneBefore) {
  Decide(router_, ARequest(tokens_));
  ASSERT_EQ(phases_.seen.size(), 1u);
  EXPECT_EQ(phases_.Last(DecisionPhase::kBlockHashing), nanoseconds(10));
  EXPECT_EQ(phases_.Last(DecisionPhase::kSequenceHashing), nanoseconds(100));
  EXPECT_EQ(phases_.Last(DecisionPhase::kFindMatches), nanoseconds(1'000));
  EXPECT_EQ(phases_.Last(DecisionPhase::kScheduling), nanoseconds(10'000));
  EXPECT_EQ(phases_.seen[0].total, nanoseconds(111'110)) << "with 100000 to describe the decision";
}

TEST_F(RouterPhasesTest, HashingThatTheCallerDidIsNotTimed) {
  std::vector<LocalBlockHash> local;
  std::vector<SequenceHash> sequence;
  AppendLocalBlockHashes(tokens_, kBlockSize, BlockSeed({}), &local);
  AppendSequenceHashes(local, &sequence);
  RouteRequest request = ARequest(tokens_);
  request.prompt = HashPrompt{.local_hashes = local, .sequence_hashes = {}, .isl_tokens = 100};
  Decide(router_, request);
  EXPECT_EQ(phases_.Last(DecisionPhase::kBlockHashing), std::nullopt);
  EXPECT_EQ(phases_.Last(DecisionPhase::kSequenceHashing), nanoseconds(10));
  request.prompt =
      HashPrompt{.local_hashes = local, .sequence_hashes = sequence, .isl_tokens = 100};
  Decide(router_, request);
  EXPECT_EQ(phases_.Last(DecisionPhase::kBlockHashing), std::nullopt);
  EXPECT_EQ(phases_.Last(DecisionPhase::kSequenceHashing), std::nullopt);
  EXPECT_EQ(phases_.Last(DecisionPhase::kFindMatches), nanoseconds(10));
  EXPECT_EQ(phases_.Last(DecisionPhase::kScheduling), nanoseconds(100));
}

TEST_F(RouterPhasesTest, AdviceAndExplicitBookingsAreTimedLooksAndFailuresAreNot) {
  RouteRequest request = ARequest(tokens_);
  request.book = false;
  Decide(router_, request);
  ASSERT_TRUE(router_.Reserve({.route = request, .target = TargetOf(1)}, MonotonicTime{}).ok());
  EXPECT_EQ(phases_.seen.size(), 2u);

  const int readings = phases_.readings();
  ASSERT_TRUE(router_.FindOverlap(request).ok());
  ASSERT_TRUE(router_.PotentialLoads(request).ok());
  EXPECT_EQ(phases_.readings(), readings);
  request.allowed_workers.emplace();
  EXPECT_FALSE(router_.Submit(request, MonotonicTime{}).ok());
  EXPECT_EQ(phases_.seen.size(), 2u);
}

}  // namespace
}  // namespace kvrouter
