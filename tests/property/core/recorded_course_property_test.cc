// A recorded run is reproduced to the last decision also where costs alone did not decide: sessions
// bound hard, softly and by rendezvous, requests that waited, prefill legs, fixed plans,
// decode legs.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <chrono>
#include <cstdint>
#include <map>
#include <random>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "kvrouter/decision_record.h"
#include "kvrouter/router.h"
#include "support/core_builders.h"
#include "support/log_in_memory.h"

namespace kvrouter {
namespace {

using namespace testing;  // NOLINT: the builders
using std::chrono::milliseconds;
using std::chrono::seconds;

class RecordedCourse {
 public:
  explicit RecordedCourse(uint64_t seed)
      : random_(seed),
        disaggregated_(seed % 2 == 1),
        log_({}),
        router_(ConfigOf(seed), nullptr, nullptr, &log_) {
    for (uint64_t id = 1; id <= 7; ++id) {
      WorkerSpec worker = AWorker(id);
      if (disaggregated_) worker.role = id <= 3 ? WorkerRole::kPrefill : WorkerRole::kDecode;
      EXPECT_TRUE(router_.UpsertWorker(worker).ok());
    }
  }

  void Step() {
    now_ += milliseconds(Draw(40));
    const auto tokens =
        TokensFrom(static_cast<TokenId>(1000 * Draw(12)), 1 + Draw(20 * kBlockSize));
    if (Draw(2) == 0) router_.Apply(StoredEvent(tokens, TargetOf(1 + Draw(7))));
    RouteRequest request = ARequest(tokens);
    request.request_id = fmt::format("request-{}", ++asked_);
    request.book = Draw(8) != 0;
    request.fixed_plan = Draw(4) == 0;
    if (Draw(2) == 0) request.session_id = fmt::format("session-{}", Draw(10));
    if (Draw(10) == 0) request.excluded.push_back({.worker = WorkerId{1 + Draw(7)}});
    if (Draw(4) == 0) request.deadline = now_ + milliseconds(Draw(200));
    request.strict_priority = static_cast<uint32_t>(Draw(2));
    Submit(request);
    End();
    for (Router::Resolved& resolved : router_.Pump(now_)) {
      if (!resolved.decision.ok()) continue;
      ++waited_;
      Note(*resolved.decision);
    }
  }

  const std::vector<RouteDecision>& decisions() const { return decisions_; }
  std::vector<DecisionRecord> Records() const { return log_.ReadBack(); }
  uint64_t waited() const { return waited_; }

 private:
  static RouterConfig ConfigOf(uint64_t seed) {
    RouterConfig config;
    config.random_seed = seed;
    config.scheduler.router_temperature = seed % 3 == 0 ? 0.4 : 0;
    config.scheduler.queue.busy.tokens = 64;
    config.sessions.affinity_ttl = seconds(60);
    config.sessions.prefix_tokens = 3 * kBlockSize;
    config.sessions.soft = seed % 4 >= 2;
    config.sessions.rendezvous = seed % 5 == 0;
    config.gate.length.min_remote_prefill_tokens = 6 * kBlockSize;
    config.gate.length.local_continuations = seed % 8 == 1;
    return config;
  }

  void Submit(const RouteRequest& request) {
    auto submission = router_.Submit(request, now_);
    if (!submission.ok()) return;  // nobody eligible
    if (std::holds_alternative<TicketId>(*submission)) return;
    const auto& decision = std::get<RouteDecision>(*submission);
    Note(decision);
    if (decision.plan != Plan::kRemotePrefill || request.fixed_plan || !request.book) return;
    // The prefill leg returns at once: the decode leg has a decision of its own.
    RouteRequest decode = request;
    decode.phase = RequestPhase::kDecode;
    decode.prefilled_by = decision.target;
    const auto second = router_.Submit(decode, now_);
    if (second.ok()) Note(std::get<RouteDecision>(*second));
  }

  void Note(const RouteDecision& decision) {
    decisions_.push_back(decision);
    for (const BookingId booking : {decision.booking, decision.decode_booking})
      if (booking != kNoBooking) live_.push_back(booking);
  }

  void End() {
    while (live_.size() > 30 || (Draw(2) == 0 && !live_.empty())) {
      const size_t victim = Draw(live_.size());
      if (Draw(3) == 0) {
        router_.PrefillComplete(live_[victim], now_);
        continue;
      }
      router_.Finish(live_[victim], now_);
      live_.erase(live_.begin() + static_cast<long>(victim));
    }
  }

  uint64_t Draw(uint64_t bound) { return random_() % bound; }

  std::mt19937_64 random_;
  const bool disaggregated_;
  LogInMemory log_;
  Router router_;
  MonotonicTime now_{};
  std::vector<RouteDecision> decisions_;
  std::vector<BookingId> live_;
  uint64_t asked_ = 0;
  uint64_t waited_ = 0;
};

TEST(RecordedCoursePropertyTest, UnchangedSettingsReproduceEveryDecision) {
  std::map<DecisionReason, uint64_t> reasons;
  std::map<SessionOutcome, uint64_t> outcomes;
  std::map<RequestPhase, uint64_t> legs;
  uint64_t waited = 0;
  uint64_t fixed_plans = 0;
  uint64_t checked = 0;
  for (uint64_t seed = 0; seed < 40; ++seed) {
    SCOPED_TRACE(fmt::format("seed={}", seed));
    RecordedCourse course(seed);
    for (int step = 0; step < 300; ++step) course.Step();
    const std::vector<DecisionRecord> records = course.Records();
    ASSERT_EQ(records.size(), course.decisions().size());
    for (size_t i = 0; i < records.size(); ++i) {
      const RouteDecision& decision = course.decisions()[i];
      ASSERT_EQ(records[i].target, decision.target) << "decision " << i;
      ASSERT_EQ(records[i].reason, decision.reason);
      const auto again = Redecide(records[i], {}, /*seed=*/i + 1);
      ASSERT_TRUE(again.ok()) << again.status();
      ASSERT_FALSE(again->moves) << "decision " << i << " " << DecisionReasonName(decision.reason);
      ASSERT_EQ(again->overlap_blocks, decision.effective_overlap_blocks);
      ++checked;
      ++reasons[decision.reason];
      ++outcomes[decision.session.outcome];
      ++legs[decision.leg];
      fixed_plans += decision.decode_booking != kNoBooking ? 1 : 0;
    }
    waited += course.waited();
  }
  EXPECT_GT(checked, 8'000u);
  EXPECT_GT(waited, 500u);
  EXPECT_GT(fixed_plans, 200u);
  for (const RequestPhase leg :
       {RequestPhase::kWhole, RequestPhase::kPrefill, RequestPhase::kDecode}) {
    EXPECT_GT(legs[leg], 500u) << static_cast<int>(leg);
  }
  for (const DecisionReason reason :
       {DecisionReason::kLowestCost, DecisionReason::kTieBreak, DecisionReason::kSampled,
        DecisionReason::kSession, DecisionReason::kRendezvous}) {
    EXPECT_GT(reasons[reason], 100u) << DecisionReasonName(reason);
  }
  EXPECT_GT(outcomes[SessionOutcome::kMoved], 100u);
  EXPECT_GT(outcomes[SessionOutcome::kBound], 1000u);
}

}  // namespace
}  // namespace kvrouter
