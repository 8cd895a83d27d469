#include "service/engine_loads.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

namespace kvrouter {
namespace {

using std::chrono::seconds;
using ::testing::ElementsAre;
using ::testing::IsEmpty;

WorkerSpec AWorker(uint64_t id, uint64_t incarnation = 1, uint32_t dp_size = 1) {
  WorkerSpec spec;
  spec.id = WorkerId{id};
  spec.incarnation = Incarnation{incarnation};
  spec.dp_size = dp_size;
  return spec;
}

EngineLoad Using(double blocks) { return {.used_blocks = blocks}; }

class EngineLoadsTest : public ::testing::Test {
 protected:
  std::vector<std::string> Told() { return std::exchange(told_, {}); }
  std::vector<std::string> Listed() const {
    std::vector<std::string> out;
    for (const EngineLoads::Report& report : loads_.List()) {
      out.push_back(fmt::format(
          "{}.{} {}", static_cast<uint64_t>(report.target.worker), report.target.dp_rank,
          report.load ? fmt::format("{}", report.load->used_blocks.value_or(-1)) : "unknown"));
    }
    return out;
  }

  std::vector<std::string> told_;
  EngineLoads loads_{seconds(10), [this](Target target, std::optional<double> used_blocks) {
                       told_.push_back(fmt::format(
                           "{}.{} {}", static_cast<uint64_t>(target.worker), target.dp_rank,
                           used_blocks ? fmt::format("{}", *used_blocks) : "unknown"));
                     }};
};

TEST_F(EngineLoadsTest, AFigureIsKnownUntilItIsTooOld) {
  loads_.Put(AWorker(1), {{0, Using(7)}}, EnginePollOutcome::kOk, seconds(1));
  EXPECT_THAT(Told(), ElementsAre("1.0 7"));
  loads_.Expire(seconds(10));
  EXPECT_THAT(Listed(), ElementsAre("1.0 7"));
  loads_.Expire(seconds(11));
  EXPECT_THAT(Listed(), ElementsAre("1.0 unknown"));
  EXPECT_THAT(Told(), ElementsAre("1.0 unknown"));
  loads_.Expire(seconds(99));
  EXPECT_THAT(Told(), IsEmpty()) << "told once";
}

// An engine that lets us wait is asked less often.
TEST_F(EngineLoadsTest, AFigureIsKnownForAsLongAsIsSaid) {
  loads_.Put(AWorker(1), {{0, Using(7)}}, EnginePollOutcome::kOk, seconds(1), seconds(40));
  loads_.Put(AWorker(1), {}, EnginePollOutcome::kFailed, seconds(20), seconds(1));
  loads_.Expire(seconds(40));
  EXPECT_THAT(Listed(), ElementsAre("1.0 7"));
  loads_.Put(AWorker(1), {{0, Using(8)}}, EnginePollOutcome::kOk, seconds(40));
  loads_.Expire(seconds(49));
  EXPECT_THAT(Listed(), ElementsAre("1.0 8"));
  loads_.Expire(seconds(50));
  EXPECT_THAT(Listed(), ElementsAre("1.0 unknown"));
}

TEST_F(EngineLoadsTest, AFailedPollLeavesWhatIsKnownToAge) {
  loads_.Put(AWorker(1), {{0, Using(7)}}, EnginePollOutcome::kOk, seconds(1));
  loads_.Put(AWorker(1), {}, EnginePollOutcome::kFailed, seconds(9));
  EXPECT_THAT(Listed(), ElementsAre("1.0 7"));
  loads_.Expire(seconds(11));
  EXPECT_THAT(Listed(), ElementsAre("1.0 unknown"));
  EXPECT_THAT(loads_.Polls(), ElementsAre(1u, 1u, 0u));
}

TEST_F(EngineLoadsTest, AnAnswerWithoutUsedBlocksTakesBackWhatAnEarlierOneSaid) {
  loads_.Put(AWorker(1), {{0, Using(7)}}, EnginePollOutcome::kOk, seconds(1));
  Told();
  const EngineLoad running_only = {.running_requests = 1};
  loads_.Put(AWorker(1), {{0, running_only}}, EnginePollOutcome::kOk, seconds(2));
  EXPECT_THAT(Told(), ElementsAre("1.0 unknown"));
  loads_.Put(AWorker(1), {{0, running_only}}, EnginePollOutcome::kOk, seconds(3));
  EXPECT_THAT(Told(), IsEmpty()) << "told once";
}

TEST_F(EngineLoadsTest, EveryRankOfAPolledWorkerIsListedKnownOrNot) {
  loads_.Put(AWorker(2, 1, 2), {{1, Using(3)}}, EnginePollOutcome::kOk, seconds(1));
  loads_.Put(AWorker(1), {}, EnginePollOutcome::kUnreadable, seconds(1));
  EXPECT_THAT(Listed(), ElementsAre("1.0 unknown", "2.0 unknown", "2.1 3"));
}

TEST_F(EngineLoadsTest, NothingOutlivesItsWorkerItsLifeOrItsRank) {
  loads_.Put(AWorker(1), {{0, Using(1)}}, EnginePollOutcome::kOk, seconds(1));
  loads_.Put(AWorker(2), {{0, Using(2)}}, EnginePollOutcome::kOk, seconds(1));
  loads_.Put(AWorker(3, 1, 2), {{0, Using(3)}, {1, Using(4)}}, EnginePollOutcome::kOk, seconds(1));
  Told();
  loads_.Keep({AWorker(2, 2), AWorker(3)});
  EXPECT_THAT(Listed(), ElementsAre("3.0 3"));
  loads_.Expire(seconds(2));
  EXPECT_THAT(Told(), ElementsAre("1.0 unknown", "2.0 unknown", "3.1 unknown"));
  loads_.Expire(seconds(2));
  EXPECT_THAT(Told(), IsEmpty()) << "told once";
}

TEST_F(EngineLoadsTest, AnotherLifeBeginsUnknown) {
  loads_.Put(AWorker(1), {{0, Using(1)}}, EnginePollOutcome::kOk, seconds(1));
  Told();
  loads_.Put(AWorker(1, 2), {}, EnginePollOutcome::kFailed, seconds(2));
  EXPECT_THAT(Listed(), ElementsAre("1.0 unknown"));
  EXPECT_THAT(Told(), ElementsAre("1.0 unknown"));
}

}  // namespace
}  // namespace kvrouter
