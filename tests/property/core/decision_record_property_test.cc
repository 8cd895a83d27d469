// What is recorded of a decision is enough to make it again, whatever was asked and whatever the
// fleet was like; and another policy's choice from a record is the choice a router makes with it.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <random>
#include <string>
#include <vector>

#include "kvrouter/decision_record.h"
#include "kvrouter/router.h"
#include "support/core_builders.h"
#include "support/log_in_memory.h"

namespace kvrouter {
namespace {

using namespace testing;  // NOLINT: the builders

class RecordedFleet {
 public:
  RecordedFleet(uint64_t seed, RecordBounds bounds)
      : random_(seed),
        workers_(2 + Draw(100)),
        log_(bounds),
        router_(AConfig(), nullptr, nullptr, &log_) {
    for (uint64_t id = 1; id <= workers_; ++id) {
      WorkerSpec worker = AWorker(id * (1 + Draw(3)) * 0x1000003);
      worker.dp_size = 1 + static_cast<uint32_t>(Draw(2));
      worker.draining = Draw(12) == 0;
      const auto status = router_.UpsertWorker(worker);
      EXPECT_TRUE(status.ok()) << status;
      ids_.push_back(worker.id);
    }
  }

  void Step() {
    const std::vector<TokenId> tokens =
        TokensFrom(static_cast<TokenId>(1000 * Draw(3)), Draw(12 * kBlockSize));
    if (Draw(2) == 0) {
      KvEvent event = StoredEvent(tokens, {AnId(), 0});
      event.tier = static_cast<StorageTier>(Draw(kStorageTierCount));
      router_.Apply(event);
    }
    RouteRequest request = ARequest(tokens);
    request.request_id = fmt::format("request-{}", ++asked_);
    request.book = Draw(5) != 0;
    if (Draw(6) == 0) request.excluded.push_back({.worker = AnId()});
    if (Draw(6) == 0) request.pinned = {.worker = AnId()};
    if (Draw(6) == 0) request.overrides.overlap_score_credit = 0.25 * static_cast<double>(Draw(8));
    if (Draw(6) == 0) request.overrides.prefill_load_scale = 0.5 * static_cast<double>(Draw(4));
    if (Draw(6) == 0) request.overrides.track_prefill_tokens = Draw(2) == 0;
    if (Draw(6) == 0) request.overrides.router_temperature = 0.3 * static_cast<double>(Draw(3));
    if (Draw(6) == 0) request.overrides.assume_kv_reuse = Draw(2) == 0;
    const auto decision = Draw(10) == 0 ? Reserved(request) : Asked(request);
    if (!decision.ok()) return;  // nobody eligible
    decisions_.push_back(*decision);
    if (decision->booked) live_.push_back(decision->booking);
    if (live_.size() > 60 || (Draw(3) == 0 && !live_.empty())) {
      const size_t victim = Draw(live_.size());
      if (Draw(2) == 0) {
        router_.PrefillComplete(live_[victim], {});
      } else {
        router_.Finish(live_[victim], {});
        live_.erase(live_.begin() + static_cast<long>(victim));
      }
    }
  }

  const std::vector<RouteDecision>& decisions() const { return decisions_; }
  std::vector<DecisionRecord> Records() const { return log_.ReadBack(); }

 private:
  RouterConfig AConfig() {
    RouterConfig config;
    CostWeights& weights = config.scheduler.weights;
    weights.overlap_score_credit = 0.5 * static_cast<double>(Draw(4));
    weights.overlap_score_credit_decay = 0.3 * static_cast<double>(Draw(3));
    weights.prefill_load_scale = 0.1 + static_cast<double>(Draw(3));
    weights.decode_active_request_weight = 0.7 * static_cast<double>(Draw(3));
    weights.host_cache_hit_weight = 0.1 * static_cast<double>(Draw(11));
    weights.disk_cache_hit_weight = 0.1 * static_cast<double>(Draw(11));
    config.scheduler.router_temperature = Draw(2) == 0 ? 0.4 : 0;
    config.decision_detail = Draw(2) == 0 ? DecisionDetail::kFull : DecisionDetail::kWinner;
    config.random_seed = Draw(1000);
    return config;
  }

  absl::StatusOr<RouteDecision> Asked(const RouteRequest& request) {
    auto submission = router_.Submit(request, {});
    if (!submission.ok()) return submission.status();
    return std::get<RouteDecision>(*std::move(submission));
  }

  // On a target that the caller chose, half of the time with an overlap that it states.
  absl::StatusOr<RouteDecision> Reserved(const RouteRequest& request) {
    ReserveRequest reserve{.route = request, .target = {AnId(), 0}};
    const auto& tokens = std::get<TokenPrompt>(request.prompt).token_ids;
    if (Draw(2) == 0) reserve.effective_prefill_tokens = Draw(tokens.size() + 1);
    return router_.Reserve(reserve, {});
  }

  uint64_t Draw(uint64_t bound) { return random_() % bound; }
  WorkerId AnId() { return ids_[Draw(ids_.size())]; }

  std::mt19937_64 random_;
  const uint64_t workers_;
  LogInMemory log_;
  Router router_;
  std::vector<WorkerId> ids_;
  std::vector<RouteDecision> decisions_;
  std::vector<BookingId> live_;
  uint64_t asked_ = 0;
};

TEST(DecisionRecordPropertyTest, UnchangedSettingsReproduceEveryDecision) {
  size_t ties = 0;
  size_t samples = 0;
  size_t pins = 0;
  size_t many = 0;
  size_t checked = 0;
  for (uint64_t seed = 0; seed < 40; ++seed) {
    SCOPED_TRACE(fmt::format("seed={}", seed));
    RecordedFleet fleet(seed, {.max_candidates = 1024, .with_hashes = seed % 2 == 0});
    for (int step = 0; step < 300; ++step) fleet.Step();
    const std::vector<DecisionRecord> records = fleet.Records();
    ASSERT_EQ(records.size(), fleet.decisions().size());
    for (size_t i = 0; i < records.size(); ++i) {
      const DecisionRecord& record = records[i];
      const RouteDecision& decision = fleet.decisions()[i];
      ASSERT_EQ(record.target, decision.target);
      ASSERT_EQ(record.candidates.size(), decision.candidate_count);
      ASSERT_EQ(record.sequence_hashes.size(), seed % 2 == 0 ? decision.full_blocks : 0);
      const auto again = Redecide(record, {}, i);
      ASSERT_TRUE(again.ok()) << again.status();
      ASSERT_FALSE(again->moves) << "decision " << i;
      ASSERT_EQ(again->overlap_blocks, decision.effective_overlap_blocks);
      ++checked;
      ties += record.tie_size > 1 ? 1 : 0;
      samples += record.reason == DecisionReason::kSampled ? 1 : 0;
      pins += record.reason == DecisionReason::kPinned ? 1 : 0;
      many += record.candidates.size() > kMaxDetailedCandidates ? 1 : 0;
    }
  }
  EXPECT_GT(checked, 10'000u);
  for (const size_t kind : {ties, samples, pins, many}) EXPECT_GT(kind, 500u);
}

TEST(DecisionRecordPropertyTest, MoreCandidatesThanTheBoundAreNotRecorded) {
  RecordedFleet fleet(7, {.max_candidates = 3});
  for (int step = 0; step < 200; ++step) fleet.Step();
  size_t left_out = 0;
  for (const DecisionRecord& record : fleet.Records()) {
    EXPECT_EQ(record.CanBeReplayed(), record.candidate_count <= 3);
    left_out += record.CanBeReplayed() ? 0 : 1;
    EXPECT_EQ(Redecide(record, {}, 0).ok(), record.CanBeReplayed());
  }
  EXPECT_GT(left_out, 0u);
}

// The policy in force and the one that is tried out swap places: what a replay says of the other is
// what a router with it does from the same state.
TEST(DecisionRecordPropertyTest, AChangedPolicyChoosesAsARouterWithThatPolicyWould) {
  size_t moved = 0;
  for (uint64_t seed = 0; seed < 200; ++seed) {
    SCOPED_TRACE(fmt::format("seed={}", seed));
    std::mt19937_64 random(seed);
    RouterConfig before;
    before.scheduler.weights.overlap_score_credit = 1;
    RouterConfig after = before;
    after.scheduler.weights.overlap_score_credit = 0.25;
    after.scheduler.weights.prefill_load_scale = 2;
    PolicyChange change;
    change.overlap_score_credit = 0.25;
    change.prefill_load_scale = 2;

    LogInMemory log({});
    Router with_before(before, nullptr, nullptr, &log);
    Router with_after(after, nullptr);
    const auto both = [&](const auto& act) {
      act(with_before);
      act(with_after);
    };
    both([](Router& router) {
      for (uint64_t id = 1; id <= 5; ++id) ASSERT_TRUE(router.UpsertWorker(AWorker(id)).ok());
    });
    for (int i = 0; i < 12; ++i) {  // the same loads in both, chosen by nobody
      const auto tokens =
          TokensFrom(static_cast<TokenId>(1000 * (random() % 3)), kBlockSize * (1 + random() % 20));
      const Target target = TargetOf(1 + random() % 5);
      const bool load = random() % 2 == 0;
      both([&](Router& router) {
        if (!load) {
          router.Apply(StoredEvent(tokens, target));
        } else {
          ASSERT_TRUE(router.Reserve({.route = ARequest(tokens), .target = target}, {}).ok());
        }
      });
    }
    const auto tokens = TokensFrom(static_cast<TokenId>(1000 * (random() % 3)), 20 * kBlockSize);
    RouteRequest advice = ARequest(tokens);
    advice.book = false;
    const RouteDecision made = Decide(with_before, advice);
    const RouteDecision other = Decide(with_after, advice);
    if (made.tie_size > 1 || other.tie_size > 1) continue;
    const auto again = Redecide(log.ReadBack().back(), change, seed);
    ASSERT_TRUE(again.ok()) << again.status();
    EXPECT_EQ(again->moves, other.target != made.target);
    EXPECT_EQ(again->overlap_blocks, other.effective_overlap_blocks);
    moved += again->moves ? 1 : 0;
  }
  EXPECT_GT(moved, 5u) << "the two policies never differ: nothing was tested";
}

}  // namespace
}  // namespace kvrouter
