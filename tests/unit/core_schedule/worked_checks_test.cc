#include <gtest/gtest.h>

#include <cmath>
#include <memory>
#include <numeric>
#include <string>
#include <vector>

#include "core/schedule/scheduler.h"

namespace kvrouter {
namespace {

// The worked checks of the pick as a request meets them: block size 16, a prompt of 64 tokens, two
// workers, all else default. scorer_test has their terms.
class WorkedChecksTest : public ::testing::Test {
 protected:
  static constexpr Target kW0{.worker = WorkerId{10}};
  static constexpr Target kW1{.worker = WorkerId{11}};

  void Start(const SchedulerConfig& config) {
    config_ = config;
    scheduler_ =
        std::make_unique<Scheduler>(Scheduler::Options{.config = config, .random_seed = 5});
    for (const Target target : {kW0, kW1}) {
      WorkerSpec spec;
      spec.id = target.worker;
      spec.incarnation = Incarnation{1};
      spec.block_size_tokens = 16;
      scheduler_->SetWorker(std::make_shared<const WorkerSpec>(spec));
    }
  }

  // Of w0 and w1.
  std::vector<double> Costs(const ScheduleRequest& request) {
    CandidateTable table;
    const auto placement = scheduler_->PickAndBook(request, &table, MonotonicTime{});
    EXPECT_TRUE(placement.ok()) << placement.status();
    if (!placement.ok()) return {};
    chosen_ = table.seen[placement->index].target();
    return table.costs;
  }

  ScheduleRequest ARequest() {
    ScheduleRequest request;
    request.filter = &anybody_;
    request.weights = ResolveWeights(config_, {});
    request.overlaps = overlaps_;
    request.chain = chain_;
    request.isl_tokens = 64;
    request.block_size_tokens = 16;
    request.book = false;
    return request;
  }

  // 64 prefill tokens and 4 active blocks on w0, the first two of them the request's first two.
  void MakeW0Busy() {
    const std::vector<SequenceHash> other = {chain_[0], chain_[1], SequenceHash{91},
                                             SequenceHash{92}};
    const CandidateFilter only_w0(kW0);
    ScheduleRequest request = ARequest();
    request.filter = &only_w0;
    request.overlaps = {};
    request.chain = other;
    request.weights.track_prefill_tokens = true;
    request.book = true;
    CandidateTable table;
    ASSERT_TRUE(scheduler_->PickAndBook(request, &table, MonotonicTime{}).ok());
  }

  static OverlapMatch TwoBlocksOn(Target target) {
    OverlapMatch match;
    match.target = target;
    match.blocks = 2;
    return match;
  }

  SchedulerConfig config_;
  const CandidateFilter anybody_{RouteRequest{}};
  const std::vector<SequenceHash> chain_ = {SequenceHash{1}, SequenceHash{2}, SequenceHash{3},
                                            SequenceHash{4}};
  const std::vector<OverlapMatch> overlaps_ = {TwoBlocksOn(kW0)};
  std::unique_ptr<Scheduler> scheduler_;
  Target chosen_;
};

TEST_F(WorkedChecksTest, AnIdleHolderWins) {
  Start({});
  EXPECT_EQ(Costs(ARequest()), (std::vector<double>{6, 8}));
  EXPECT_EQ(chosen_, kW0);
}

TEST_F(WorkedChecksTest, AtTemperatureOneTheHolderGets731Of1000) {
  SchedulerConfig config;
  config.router_temperature = 1;
  Start(config);
  constexpr int kDraws = 20'000;
  int holder = 0;
  for (int i = 0; i < kDraws; ++i) {
    Costs(ARequest());
    holder += chosen_ == kW0 ? 1 : 0;
  }
  const double p = 1 / (1 + std::exp(-1.0));
  EXPECT_NEAR(p, 0.731, 0.0005);
  EXPECT_NEAR(holder, kDraws * p, 6 * std::sqrt(kDraws * p * (1 - p)));
}

TEST_F(WorkedChecksTest, ABusyHolderLoses) {
  Start({});
  MakeW0Busy();
  EXPECT_EQ(Costs(ARequest()), (std::vector<double>{12, 8}));
  EXPECT_EQ(chosen_, kW1);
}

TEST_F(WorkedChecksTest, DecayHalvesTheCreditOfABusyHolder) {
  SchedulerConfig config;
  config.weights.overlap_score_credit_decay = 1;
  Start(config);
  MakeW0Busy();
  EXPECT_EQ(Costs(ARequest()), (std::vector<double>{13, 8}));
}

TEST_F(WorkedChecksTest, ADecodeWorkerWithoutPrefillAndCreditCostsItsDecodeBlocks) {
  SchedulerConfig config;
  config.track_prefill_tokens = false;
  config.weights.overlap_score_credit = 0;
  Start(config);
  MakeW0Busy();
  ScheduleRequest request = ARequest();
  request.decode_pool = true;
  EXPECT_EQ(Costs(request), (std::vector<double>{4 + 2, 4}));
  EXPECT_EQ(chosen_, kW1);
}

}  // namespace
}  // namespace kvrouter
