#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <limits>
#include <map>
#include <vector>

#include "kvrouter/error.h"
#include "kvrouter/router.h"
#include "support/core_builders.h"

namespace kvrouter {
namespace {

using namespace testing;  // NOLINT: the builders

class RouterDecisionTest : public ::testing::Test {
 protected:
  void AddWorkers(uint64_t count) {
    for (uint64_t id = 1; id <= count; ++id) ASSERT_TRUE(router_.UpsertWorker(AWorker(id)).ok());
  }
  void Cache(const std::vector<TokenId>& tokens, uint64_t worker) {
    ASSERT_EQ(router_.Apply(StoredEvent(tokens, TargetOf(worker))).status, ApplyStatus::kOk);
  }

  RecordingSink sink_;
  Router router_{RouterConfig{}, &sink_};
};

TEST_F(RouterDecisionTest, MeasuresThePromptInTokensAndBlocks) {
  AddWorkers(1);
  const auto tokens = TokensFrom(0, 100);
  const auto decision = Decide(router_, ARequest(tokens));
  EXPECT_EQ(decision.isl_tokens, 100u);
  EXPECT_EQ(decision.block_size_tokens, 16u);
  EXPECT_EQ(decision.isl_blocks, 7u);
  EXPECT_EQ(decision.full_blocks, 6u);
  EXPECT_EQ(decision.target, TargetOf(1));
  EXPECT_EQ(decision.incarnation, Incarnation{1});
  EXPECT_EQ(decision.address, "http://worker-1");
  EXPECT_EQ(decision.plan, Plan::kLocal);
  EXPECT_TRUE(decision.booked);
  EXPECT_NE(decision.booking, kNoBooking);
}

TEST_F(RouterDecisionTest, PrefersTheWorkerThatHoldsThePrompt) {
  AddWorkers(4);
  const auto tokens = TokensFrom(0, 64);
  Cache(TokensFrom(0, 32), 3);
  const auto decision = Decide(router_, ARequest(tokens));
  EXPECT_EQ(decision.target, TargetOf(3));
  EXPECT_EQ(decision.reason, DecisionReason::kLowestCost);
  EXPECT_EQ(decision.effective_overlap_blocks, 2);
  EXPECT_EQ(decision.overlap_blocks, 2u);
  EXPECT_EQ(decision.expected_engine_hit_tokens, 32u);
  EXPECT_EQ(decision.best_overlap_blocks, 2);
  EXPECT_EQ(decision.best_overlap_target, TargetOf(3));
  ASSERT_EQ(decision.candidates.size(), 4u);
  EXPECT_EQ(decision.candidates[2].cost_blocks, 6);
  EXPECT_EQ(decision.candidates[0].cost_blocks, 8);
  EXPECT_EQ(LoadOf(router_, TargetOf(3))->active_prefill_tokens, 32u) << "only the uncached part";
}

TEST_F(RouterDecisionTest, EngineComputesTheLastTokenOfAFullyCachedPrompt) {
  AddWorkers(1);
  const auto tokens = TokensFrom(0, 64);
  Cache(tokens, 1);
  const auto decision = Decide(router_, ARequest(tokens));
  EXPECT_EQ(decision.overlap_blocks, 4u) << "no cap in cost and metrics";
  EXPECT_EQ(decision.expected_engine_hit_tokens, 48u);
  EXPECT_EQ(LoadOf(router_, TargetOf(1))->active_prefill_tokens, 0u);
  auto longer = tokens;
  longer.push_back(9);
  EXPECT_EQ(Decide(router_, ARequest(longer)).expected_engine_hit_tokens, 64u);
}

TEST_F(RouterDecisionTest, EmptyPromptIsRoutedByLoad) {
  AddWorkers(2);
  const auto busy = Decide(router_, ARequest(TokensFrom(0, 160))).target;
  const std::vector<TokenId> none;
  const auto decision = Decide(router_, ARequest(none));
  EXPECT_NE(decision.target, busy);
  EXPECT_EQ(decision.isl_blocks, 0u);
  EXPECT_EQ(decision.effective_overlap_blocks, 0);
  EXPECT_EQ(decision.expected_engine_hit_tokens, 0u);
}

TEST_F(RouterDecisionTest, AdviceBooksNothingAndIsReportedAsAdvice) {
  AddWorkers(2);
  const auto tokens = TokensFrom(0, 64);
  RouteRequest request = ARequest(tokens);
  request.book = false;
  const auto decision = Decide(router_, request);
  EXPECT_FALSE(decision.booked);
  EXPECT_EQ(decision.booking, kNoBooking);
  ExpectIdle(router_);
  ASSERT_EQ(sink_.Decisions().size(), 1u);
  EXPECT_FALSE(sink_.Decisions()[0].booked);
}

TEST_F(RouterDecisionTest, TheSinkHearsEachDecisionOnceAndNoFailure) {
  AddWorkers(2);
  const auto tokens = TokensFrom(0, 64);
  RouteRequest request = ARequest(tokens);
  for (const char* id : {"a", "b"}) {
    request.request_id = id;
    Decide(router_, request);
  }
  request.request_id = "refused";
  request.allowed_workers.emplace();
  EXPECT_FALSE(ErrorOf(router_, request).ok());
  EXPECT_EQ(sink_.RequestIds(), (std::vector<std::string>{"a", "b"}));
  EXPECT_TRUE(sink_.Decisions()[0].booked);
}

// B48: a mean of ratios says 0.495 where the fleet reuses 99 of 101 blocks. Both come from what the
// sink is told.
TEST_F(RouterDecisionTest, B48_SinkIsToldBothSidesOfTheRatio) {
  AddWorkers(1);
  const auto first = TokensFrom(1'000'000, 16);
  const auto second = TokensFrom(0, 1600);
  Cache(TokensFrom(0, 99 * 16), 1);
  Decide(router_, ARequest(first));
  Decide(router_, ARequest(second));
  const std::vector<TokenId> empty;
  Decide(router_, ARequest(empty));
  double overlap = 0;
  double isl = 0;
  double ratios = 0;
  int observations = 0;
  for (const auto& decision : sink_.Decisions()) {
    overlap += decision.effective_overlap_blocks;
    isl += static_cast<double>(decision.isl_blocks);
    if (decision.isl_blocks == 0) continue;
    ratios += decision.effective_overlap_blocks / static_cast<double>(decision.isl_blocks);
    ++observations;
  }
  EXPECT_EQ(overlap, 99);
  EXPECT_EQ(isl, 101);
  EXPECT_EQ(observations, 2);
  EXPECT_DOUBLE_EQ(ratios, 0.99);
}

TEST_F(RouterDecisionTest, EachReasonIsNamed) {
  AddWorkers(2);
  const auto tokens = TokensFrom(0, 64);
  RouteRequest request = ARequest(tokens);
  request.book = false;
  const auto tie = Decide(router_, request);
  EXPECT_EQ(tie.reason, DecisionReason::kTieBreak);
  EXPECT_EQ(tie.tie_size, 2u);
  request.overrides.router_temperature = 0.5;
  const auto sampled = Decide(router_, request);
  EXPECT_EQ(sampled.reason, DecisionReason::kSampled);
  EXPECT_EQ(sampled.temperature, 0.5);
  request.overrides = {};
  request.allowed_workers = {{WorkerId{2}}};
  EXPECT_EQ(Decide(router_, request).reason, DecisionReason::kOnlyCandidate);
  request.pinned = {.worker = WorkerId{2}};
  EXPECT_EQ(Decide(router_, request).reason, DecisionReason::kPinned);
  Cache(tokens, 1);
  EXPECT_EQ(Decide(router_, ARequest(tokens)).reason, DecisionReason::kLowestCost);
}

TEST_F(RouterDecisionTest, TiesAreSharedUniformly) {
  AddWorkers(4);
  const auto tokens = TokensFrom(0, 64);
  std::map<Target, int> counts;
  for (int i = 0; i < 8000; ++i) {
    const auto decision = Decide(router_, ARequest(tokens));
    ++counts[decision.target];
    router_.Finish(decision.booking, {});
  }
  ASSERT_EQ(counts.size(), 4u);
  for (const auto& [target, count] : counts) EXPECT_NEAR(count, 2000, 240);  // 6 sigma
}

TEST_F(RouterDecisionTest, TemperatureSamplesTheSoftmaxOfTheCosts) {
  AddWorkers(2);
  const auto tokens = TokensFrom(0, 64);
  Cache(TokensFrom(0, 32), 1);
  RouteRequest request = ARequest(tokens);
  request.book = false;
  request.overrides.router_temperature = 1;
  int first = 0;
  for (int i = 0; i < 10'000; ++i) first += Decide(router_, request).target == TargetOf(1);
  EXPECT_NEAR(first, 7311, 270);  // 6 sigma
}

TEST_F(RouterDecisionTest, FilteredTargetsAreCountedByReason) {
  AddWorkers(5);
  WorkerSpec draining = AWorker(5);
  draining.draining = true;
  ASSERT_TRUE(router_.UpsertWorker(draining).ok());
  const auto tokens = TokensFrom(0, 64);
  Cache(tokens, 1);
  RouteRequest request = ARequest(tokens);
  request.allowed_workers = {{WorkerId{2}, WorkerId{3}, WorkerId{4}, WorkerId{5}}};
  request.excluded = {{.worker = WorkerId{3}}};
  const auto decision = Decide(router_, request);
  EXPECT_EQ(decision.candidate_count, 2u);
  EXPECT_EQ(decision.filtered.not_allowed, 1u);
  EXPECT_EQ(decision.filtered.excluded, 1u);
  EXPECT_EQ(decision.filtered.draining, 1u);
  EXPECT_EQ(decision.overlap_blocks, 0u);
  EXPECT_EQ(decision.best_overlap_target, TargetOf(1)) << "also of targets that may not serve";
  EXPECT_EQ(decision.best_overlap_blocks, 4);
}

TEST_F(RouterDecisionTest, UpTo64CandidatesAreShownInTargetOrder) {
  AddWorkers(64);
  const auto decision = Decide(router_, ARequest(TokensFrom(0, 64)));
  ASSERT_EQ(decision.candidates.size(), 64u);
  EXPECT_EQ(decision.candidate_count, 64u);
  EXPECT_EQ(decision.omitted.count, 0u);
  for (uint64_t i = 0; i < 64; ++i) EXPECT_EQ(decision.candidates[i].target, TargetOf(i + 1));
}

TEST_F(RouterDecisionTest, Of65CandidatesTheBest32AndASummaryAreShown) {
  AddWorkers(65);
  const auto tokens = TokensFrom(0, 40 * 16);
  for (uint32_t id = 1; id <= 40; ++id) Cache(TokensFrom(0, id * 16), id);
  const auto decision = Decide(router_, ARequest(tokens));
  EXPECT_EQ(decision.target, TargetOf(40));
  ASSERT_EQ(decision.candidates.size(), kBestCandidates);
  EXPECT_EQ(decision.candidate_count, 65u);
  for (uint64_t i = 0; i < kBestCandidates; ++i) {
    EXPECT_EQ(decision.candidates[i].target, TargetOf(40 - i));
    EXPECT_EQ(decision.candidates[i].cost_blocks, 40.0 + static_cast<double>(i));
  }
  EXPECT_EQ(decision.omitted.count, 33u);  // workers 1..8 with 72..79, 25 empty ones with 80
  EXPECT_EQ(decision.omitted.min_cost_blocks, 72);
  EXPECT_EQ(decision.omitted.max_cost_blocks, 80);
  EXPECT_NEAR(decision.omitted.mean_cost_blocks, (75.5 * 8 + 80.0 * 25) / 33, 1e-9);
}

TEST_F(RouterDecisionTest, TheChosenOneIsAlwaysAmongTheShown) {
  AddWorkers(65);
  const auto tokens = TokensFrom(0, 64);
  RouteRequest request = ARequest(tokens);
  request.book = false;
  for (const double temperature : {0.0, 10.0}) {
    request.overrides.router_temperature = temperature;
    for (int i = 0; i < 100; ++i) {
      const auto decision = Decide(router_, request);
      const auto is_chosen = [&](const auto& c) { return c.target == decision.target; };
      ASSERT_EQ(std::count_if(decision.candidates.begin(), decision.candidates.end(), is_chosen),
                1);
    }
  }
}

TEST_F(RouterDecisionTest, WinnerDetailKeepsTheChosenOneOnly) {
  RouterConfig config;
  config.decision_detail = DecisionDetail::kWinner;
  Router router(config, nullptr);
  for (uint64_t id = 1; id <= 3; ++id) ASSERT_TRUE(router.UpsertWorker(AWorker(id)).ok());
  const auto decision = Decide(router, ARequest(TokensFrom(0, 64)));
  ASSERT_EQ(decision.candidates.size(), 1u);
  EXPECT_EQ(decision.candidates[0].target, decision.target);
  EXPECT_EQ(decision.candidate_count, 3u);
  EXPECT_EQ(decision.omitted.count, 2u);
}

TEST_F(RouterDecisionTest, OverridesReachTheFormulaAndTheBooking) {
  AddWorkers(2);
  const auto tokens = TokensFrom(0, 64);
  Cache(tokens, 1);
  RouteRequest request = ARequest(tokens);
  request.book = false;
  request.overrides.overlap_score_credit = 0;
  EXPECT_EQ(Decide(router_, request).reason, DecisionReason::kTieBreak);
  request.overrides = {.prefill_load_scale = 3};
  EXPECT_EQ(Decide(router_, request).candidates[1].cost_blocks, 3 * 4 + 4);
  request.overrides = {.track_prefill_tokens = false};
  request.book = true;
  request.pinned = {.worker = WorkerId{2}};
  EXPECT_EQ(Decide(router_, request).candidates[0].raw_prefill_blocks, 0);
  EXPECT_EQ(LoadOf(router_, TargetOf(2))->active_prefill_tokens, 0u);
  request.overrides = {.assume_kv_reuse = false};
  EXPECT_EQ(Decide(router_, request).candidates[0].additional_decode_blocks, 4u);
  EXPECT_EQ(LoadOf(router_, TargetOf(2))->active_decode_blocks, 8);
  request.overrides = {};
  EXPECT_EQ(Decide(router_, request).candidates[0].additional_decode_blocks, 0u);
}

TEST_F(RouterDecisionTest, CreditDecayMeasuresTheExcessOverTheLeastBusyCandidate) {
  RouterConfig config;
  config.scheduler.weights.overlap_score_credit_decay = 1;
  Router router(config, nullptr);
  for (uint64_t id = 1; id <= 3; ++id) ASSERT_TRUE(router.UpsertWorker(AWorker(id)).ok());
  const auto book = [&](uint64_t worker, TokenId first, size_t tokens) {
    const auto prompt = TokensFrom(first, tokens);
    RouteRequest request = ARequest(prompt);
    request.pinned = {.worker = WorkerId{worker}};
    Decide(router, request);
  };
  book(1, 100'000, 32);
  book(2, 200'000, 96);
  book(3, 300'000, 96);
  const auto tokens = TokensFrom(0, 64);
  for (uint64_t id = 1; id <= 3; ++id) {
    ASSERT_EQ(router.Apply(StoredEvent(tokens, TargetOf(id))).status, ApplyStatus::kOk);
  }
  const auto decision = Decide(router, ARequest(tokens));
  ASSERT_EQ(decision.candidates.size(), 3u);
  EXPECT_EQ(decision.candidates[0].credit_blocks, 4);
  EXPECT_EQ(decision.candidates[1].credit_blocks, 2);  // excess 4 blocks over a prompt of 4
  EXPECT_EQ(decision.candidates[2].credit_blocks, 2);
}

TEST_F(RouterDecisionTest, LoraNameAndSaltKeepPromptsApart) {
  AddWorkers(2);
  const auto tokens = TokensFrom(0, 64);
  Cache(tokens, 1);
  RouteRequest request = ARequest(tokens);
  request.book = false;
  EXPECT_EQ(Decide(router_, request).best_overlap_blocks, 4);
  request.lora_name = "adapter";
  EXPECT_EQ(Decide(router_, request).best_overlap_blocks, 0);
  request.lora_name = "";
  request.cache_salt = "tenant";
  EXPECT_EQ(Decide(router_, request).best_overlap_blocks, 0);
}

TEST_F(RouterDecisionTest, PrecomputedHashesDecideAsTokensDo) {
  AddWorkers(3);
  const auto tokens = TokensFrom(0, 70);
  Cache(TokensFrom(0, 48), 2);
  std::vector<LocalBlockHash> local;
  std::vector<SequenceHash> sequence;
  AppendLocalBlockHashes(tokens, kBlockSize, BlockSeed({}), &local);
  AppendSequenceHashes(local, &sequence);
  RouteRequest request;
  request.prompt = HashPrompt{.local_hashes = local, .sequence_hashes = sequence, .isl_tokens = 70};
  const auto by_hashes = Decide(router_, request);
  EXPECT_EQ(by_hashes.target, TargetOf(2));
  EXPECT_EQ(by_hashes.overlap_blocks, 3u);
  EXPECT_EQ(by_hashes.isl_blocks, 5u);
  // The same blocks by tokens, and by local hashes only, are recognised as live on the same target.
  EXPECT_EQ(Decide(router_, ARequest(tokens)).candidates[1].additional_decode_blocks, 0u);
  request.prompt = HashPrompt{.local_hashes = local, .sequence_hashes = {}, .isl_tokens = 70};
  EXPECT_EQ(Decide(router_, request).candidates[1].additional_decode_blocks, 0u);
}

TEST_F(RouterDecisionTest, HashesThatDoNotFitThePromptAreRefused) {
  AddWorkers(1);
  const std::vector<LocalBlockHash> local(4);
  const std::vector<SequenceHash> sequence(3);
  RouteRequest request;
  const auto reason = [&](HashPrompt prompt) {
    request.prompt = prompt;
    return ErrorReasonOf(ErrorOf(router_, request));
  };
  const auto hashes = [&](uint64_t isl_tokens) {
    return HashPrompt{.local_hashes = local, .sequence_hashes = {}, .isl_tokens = isl_tokens};
  };
  EXPECT_EQ(reason(hashes(63)), ErrorReason::kInvalidRequest);
  EXPECT_EQ(reason(hashes(80)), ErrorReason::kInvalidRequest);
  EXPECT_EQ(reason(hashes(std::numeric_limits<uint64_t>::max())), ErrorReason::kInvalidRequest);
  EXPECT_EQ(reason({.local_hashes = local, .sequence_hashes = sequence, .isl_tokens = 64}),
            ErrorReason::kInvalidRequest);
  request.prompt = hashes(64);
  EXPECT_TRUE(router_.Submit(request, {}).ok());
  request.prompt = hashes(79);
  EXPECT_TRUE(router_.Submit(request, {}).ok());
}

TEST_F(RouterDecisionTest, BadRequestsAreNamed) {
  AddWorkers(1);
  const auto tokens = TokensFrom(0, 64);
  RouteRequest request = ARequest(tokens);
  request.expected_output_tokens = 0;
  EXPECT_EQ(ErrorReasonOf(ErrorOf(router_, request)), ErrorReason::kInvalidRequest);
  request.expected_output_tokens = 1;
  EXPECT_TRUE(router_.Submit(request, {}).ok());
  request.overrides.router_temperature = std::nan("");
  const auto status = ErrorOf(router_, request);
  EXPECT_EQ(ErrorReasonOf(status), ErrorReason::kInvalidRequest);
  EXPECT_NE(std::string(status.message()).find("router_temperature"), std::string::npos);
}

TEST_F(RouterDecisionTest, NoWorkersIsNotUnknownPartition) {
  const auto tokens = TokensFrom(0, 64);
  RouteRequest request = ARequest(tokens);
  auto status = ErrorOf(router_, request);
  EXPECT_EQ(status.code(), absl::StatusCode::kNotFound);
  EXPECT_EQ(ErrorReasonOf(status), ErrorReason::kUnknownPartition);
  EXPECT_EQ(ErrorReasonOf(router_.FindOverlap(request).status()), ErrorReason::kUnknownPartition);
  AddWorkers(1);
  request.model_name = "another";
  EXPECT_EQ(ErrorReasonOf(ErrorOf(router_, request)), ErrorReason::kUnknownPartition);
  request.model_name = "default";
  router_.RemoveWorker(WorkerId{1});
  status = ErrorOf(router_, request);
  EXPECT_EQ(status.code(), absl::StatusCode::kUnavailable);
  EXPECT_EQ(ErrorReasonOf(status), ErrorReason::kNoWorkers);
}

TEST_F(RouterDecisionTest, PinsFailByTheirOwnReasons) {
  AddWorkers(2);
  WorkerSpec draining = AWorker(3);
  draining.draining = true;
  ASSERT_TRUE(router_.UpsertWorker(draining).ok());
  const auto tokens = TokensFrom(0, 64);
  RouteRequest request = ARequest(tokens);
  request.pinned = {.worker = WorkerId{1}};
  request.allowed_workers = {{WorkerId{2}}};
  EXPECT_EQ(ErrorReasonOf(ErrorOf(router_, request)), ErrorReason::kPinnedNotAllowed);
  request.allowed_workers.reset();
  for (const TargetSelector& pin :
       {TargetSelector{.worker = WorkerId{9}}, TargetSelector{.worker = WorkerId{1}, .dp_rank = 1},
        TargetSelector{.worker = WorkerId{3}}}) {
    request.pinned = pin;
    const auto status = ErrorOf(router_, request);
    EXPECT_EQ(status.code(), absl::StatusCode::kUnavailable);
    EXPECT_EQ(ErrorReasonOf(status), ErrorReason::kPinnedUnavailable);
  }
  request.pinned = {.worker = WorkerId{1}};
  request.excluded = {{.worker = WorkerId{1}}};
  EXPECT_EQ(ErrorReasonOf(ErrorOf(router_, request)), ErrorReason::kPinnedUnavailable);
}

TEST_F(RouterDecisionTest, APinWithoutRankChoosesAmongTheRanks) {
  WorkerSpec wide = AWorker(1);
  wide.dp_start_rank = 4;
  wide.dp_size = 3;
  ASSERT_TRUE(router_.UpsertWorker(wide).ok());
  AddWorkers(0);
  const auto tokens = TokensFrom(0, 64);
  ASSERT_EQ(router_.Apply(StoredEvent(tokens, TargetOf(1, 5))).status, ApplyStatus::kOk);
  RouteRequest request = ARequest(tokens);
  request.pinned = {.worker = WorkerId{1}};
  const auto decision = Decide(router_, request);
  EXPECT_EQ(decision.target, TargetOf(1, 5));
  EXPECT_EQ(decision.reason, DecisionReason::kPinned);
  EXPECT_EQ(decision.candidate_count, 3u);
}

TEST_F(RouterDecisionTest, TheBoundOnBookingsIsAnErrorOfItsOwn) {
  RouterConfig config;
  config.scheduler.max_bookings = 2;
  Router router(config, nullptr);
  ASSERT_TRUE(router.UpsertWorker(AWorker(1)).ok());
  const auto tokens = TokensFrom(0, 64);
  const auto first = Decide(router, ARequest(tokens));
  Decide(router, ARequest(tokens));
  const auto status = ErrorOf(router, ARequest(tokens));
  EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_EQ(ErrorReasonOf(status), ErrorReason::kLimitReached);
  RouteRequest advice = ARequest(tokens);
  advice.book = false;
  EXPECT_TRUE(router.Submit(advice, {}).ok()) << "advice needs no place";
  EXPECT_TRUE(router.Finish(first.booking, {}));
  EXPECT_TRUE(router.Submit(ARequest(tokens), {}).ok());
}

TEST_F(RouterDecisionTest, SameSeedSameDecisions) {
  const auto run = [](uint64_t seed) {
    RouterConfig config;
    config.random_seed = seed;
    Router router(config, nullptr);
    for (uint64_t id = 1; id <= 8; ++id) EXPECT_TRUE(router.UpsertWorker(AWorker(id)).ok());
    std::vector<Target> targets;
    for (TokenId i = 0; i < 100; ++i) {
      targets.push_back(Decide(router, ARequest(TokensFrom(i * 1000, 64))).target);
    }
    return targets;
  };
  EXPECT_EQ(run(1), run(1));
  EXPECT_NE(run(1), run(2));
}

TEST_F(RouterDecisionTest, WithoutAQueueEverySubmissionIsADecision) {
  AddWorkers(1);
  EXPECT_TRUE(router_.Pump({}).empty());
  EXPECT_FALSE(router_.Cancel(TicketId{1}));
}

TEST(RouterMultimodalTest, AnImageMatchesOnlyItself) {
  Router router(RouterConfig{}, nullptr);
  ASSERT_TRUE(router.UpsertWorker(AWorker(1)).ok());
  const auto tokens = TokensFrom(0, 3 * kBlockSize + 4);
  const std::vector<std::vector<MultimodalHash>> cat = {{}, {MultimodalHash{1}}};
  const std::vector<std::vector<MultimodalHash>> dog = {{}, {MultimodalHash{2}}};
  std::vector<LocalBlockHash> local;
  AppendLocalBlockHashes(
      tokens, {.block_size_tokens = kBlockSize, .block_seed = BlockSeed({}), .multimodal = cat},
      &local);
  Stored stored;
  for (const LocalBlockHash hash : local) {
    stored.blocks.push_back({EngineHash{static_cast<uint64_t>(hash)}, hash});
  }
  ASSERT_EQ(router.Apply(AnEvent(TargetOf(1), std::move(stored))).status, ApplyStatus::kOk);
  RouteRequest request = ARequest(tokens);
  const auto overlap_with = [&](std::span<const std::vector<MultimodalHash>> items) {
    request.prompt = TokenPrompt{.token_ids = tokens, .multimodal = items};
    return Decide(router, request).effective_overlap_blocks;
  };
  EXPECT_EQ(overlap_with(cat), 3);
  EXPECT_EQ(overlap_with(dog), 1);
  EXPECT_EQ(overlap_with({}), 1);

  const std::vector<std::vector<MultimodalHash>> partial_too(4);
  EXPECT_EQ(overlap_with(partial_too), 1);
  std::vector<std::vector<MultimodalHash>> too_many(5);
  EXPECT_EQ(overlap_with(too_many), 1) << "empty entries behind the prompt say nothing";
  too_many[4] = {MultimodalHash{1}};
  request.prompt = TokenPrompt{.token_ids = tokens, .multimodal = too_many};
  EXPECT_EQ(ErrorReasonOf(ErrorOf(router, request)), ErrorReason::kInvalidRequest);
}

}  // namespace
}  // namespace kvrouter
