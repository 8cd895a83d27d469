// Who may be chosen, who has to wait and who is left out for a while, through the Router.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <cmath>
#include <functional>
#include <limits>
#include <optional>
#include <string>
#include <vector>

#include "kvrouter/error.h"
#include "kvrouter/router.h"
#include "support/core_builders.h"

namespace kvrouter {
namespace {

using namespace testing;  // NOLINT: the builders
using std::chrono::milliseconds;
using std::chrono::seconds;

constexpr uint64_t kBatchTokens = 1000;

WorkerSpec ABatchWorker(uint64_t id) {
  WorkerSpec spec = AWorker(id);
  spec.max_num_batched_tokens = kBatchTokens;
  spec.total_kv_blocks = 100;
  return spec;
}

// Requests wait while every worker has more than half a batch to compute.
RouterConfig QueueingConfig() {
  RouterConfig config;
  config.scheduler.queue.busy.batch_share = 0.5;
  return config;
}

class Fleet {
 public:
  explicit Fleet(RouterConfig config, uint64_t workers = 2) : router(std::move(config), &sink) {
    for (uint64_t id = 1; id <= workers; ++id) {
      EXPECT_TRUE(router.UpsertWorker(ABatchWorker(id)).ok());
    }
  }

  // A prompt of its own; the tokens do not outlive the call.
  absl::StatusOr<Router::Submission> Submit(std::string id, MonotonicTime now = {},
                                            size_t isl_tokens = 640) {
    const auto tokens = TokensFrom(next_ += 100'000, isl_tokens);
    RouteRequest request = ARequest(tokens);
    request.request_id = std::move(id);
    if (edit) edit(&request);
    return router.Submit(request, now);
  }
  TicketId Ticket(std::string id, MonotonicTime now = {}, size_t isl_tokens = 640) {
    const auto submission = Submit(std::move(id), now, isl_tokens);
    if (!submission.ok() || !std::holds_alternative<TicketId>(*submission)) {
      ADD_FAILURE() << "does not wait: " << submission.status();
      return kNoTicket;
    }
    return std::get<TicketId>(*submission);
  }
  RouteDecision Decision(std::string id, MonotonicTime now = {}) {
    const auto submission = Submit(std::move(id), now);
    if (!submission.ok() || !std::holds_alternative<RouteDecision>(*submission)) {
      ADD_FAILURE() << "not decided at once: " << submission.status();
      return {};
    }
    return std::get<RouteDecision>(*submission);
  }
  // One request on every worker: all are busy.
  std::vector<BookingId> FillUp(MonotonicTime now = {}) {
    std::vector<BookingId> bookings;
    for (size_t i = 0; i < router.Snapshot().front().loads.size(); ++i) {
      bookings.push_back(Decision("filler", now).booking);
    }
    return bookings;
  }
  QueueClassSnapshot Queue(size_t i = 0) const { return router.Snapshot().front().queue.at(i); }

  RecordingSink sink;
  Router router;
  std::function<void(RouteRequest*)> edit;

 private:
  TokenId next_ = 0;
};

std::vector<TicketId> TicketsOf(const std::vector<Router::Resolved>& resolved) {
  std::vector<TicketId> tickets;
  for (const auto& r : resolved) tickets.push_back(r.ticket);
  return tickets;
}

TEST(RouterQueueTest, ARequestWaitsWhileAllAreBusyAndGoesWhenPrefillCompletes) {
  Fleet fleet(QueueingConfig());
  const auto fillers = fleet.FillUp(seconds(1));
  const TicketId ticket = fleet.Ticket("waits", seconds(2));
  EXPECT_TRUE(fleet.router.Pump(seconds(3)).empty());
  EXPECT_EQ(fleet.Queue().waiting, 1u);
  EXPECT_EQ(fleet.Queue().waiting_isl_tokens, 640u);

  ASSERT_TRUE(fleet.router.PrefillComplete(fillers[0], seconds(5)));
  const auto resolved = fleet.router.Pump(seconds(5));
  ASSERT_EQ(TicketsOf(resolved), std::vector{ticket});
  ASSERT_TRUE(resolved[0].decision.ok()) << resolved[0].decision.status();
  const RouteDecision& decision = *resolved[0].decision;
  EXPECT_TRUE(decision.booked);
  EXPECT_EQ(decision.isl_tokens, 640u);
  EXPECT_EQ(decision.waited, seconds(3));
  EXPECT_EQ(fleet.Queue().waiting, 0u);
  EXPECT_EQ(fleet.sink.Decisions().back().target, decision.target) << "reported like any other";
  for (const BookingId booking : fillers) fleet.router.Finish(booking, seconds(6));
  EXPECT_TRUE(fleet.router.Finish(decision.booking, seconds(6)));
  ExpectIdle(fleet.router);
}

TEST(RouterQueueTest, NobodyPassesThoseWhoWait) {
  Fleet fleet(QueueingConfig());
  const auto fillers = fleet.FillUp();
  const TicketId first = fleet.Ticket("first", seconds(1));
  ASSERT_TRUE(fleet.router.Finish(fillers[0], seconds(2)));
  const TicketId second = fleet.Ticket("second", seconds(2));  // though somebody is idle
  EXPECT_EQ(TicketsOf(fleet.router.Pump(seconds(2))), std::vector{first});
  ASSERT_TRUE(fleet.router.Finish(fillers[1], seconds(3)));
  EXPECT_EQ(TicketsOf(fleet.router.Pump(seconds(3))), std::vector{second});
}

TEST(RouterQueueTest, StrictPriorityAndHeadStartGoFirst) {
  Fleet fleet(QueueingConfig());
  const auto fillers = fleet.FillUp();
  const TicketId plain = fleet.Ticket("plain", seconds(1));
  fleet.edit = [](RouteRequest* request) { request->priority_jump = 10; };
  const TicketId jumps = fleet.Ticket("jumps", seconds(2));
  fleet.edit = [](RouteRequest* request) { request->strict_priority = 1; };
  const TicketId strict = fleet.Ticket("strict", seconds(3));
  for (const BookingId booking : fillers) fleet.router.Finish(booking, seconds(4));
  EXPECT_EQ(TicketsOf(fleet.router.Pump(seconds(4))), (std::vector{strict, jumps}))
      << "then both are busy again";
  EXPECT_TRUE(fleet.router.Cancel(plain));
}

TEST(RouterQueueTest, ItLeavesAtItsDeadline) {
  Fleet fleet(QueueingConfig());
  const auto fillers = fleet.FillUp();
  fleet.edit = [](RouteRequest* request) { request->deadline = seconds(10); };
  const TicketId ticket = fleet.Ticket("late", seconds(1));
  EXPECT_TRUE(fleet.router.Pump(seconds(10) - milliseconds(1)).empty());
  const auto resolved = fleet.router.Pump(seconds(10));
  ASSERT_EQ(TicketsOf(resolved), std::vector{ticket});
  EXPECT_EQ(ErrorReasonOf(resolved[0].decision.status()), ErrorReason::kQueueDeadline);
  EXPECT_EQ(resolved[0].decision.status().code(), absl::StatusCode::kDeadlineExceeded);
  EXPECT_FALSE(fleet.router.Cancel(ticket));
  EXPECT_EQ(fleet.Queue().expired_total, 1u);
  for (const BookingId booking : fillers) fleet.router.Finish(booking, seconds(11));
  EXPECT_TRUE(fleet.router.Pump(seconds(11)).empty());
  ExpectIdle(fleet.router);
}

TEST(RouterQueueTest, WhoIsCancelledNeverBooks) {
  Fleet fleet(QueueingConfig());
  const auto fillers = fleet.FillUp();
  const TicketId ticket = fleet.Ticket("gone");
  EXPECT_TRUE(fleet.router.Cancel(ticket));
  EXPECT_FALSE(fleet.router.Cancel(ticket));
  for (const BookingId booking : fillers) fleet.router.Finish(booking, {});
  EXPECT_TRUE(fleet.router.Pump({}).empty());
  EXPECT_EQ(fleet.Queue().cancelled_total, 1u);
  ExpectIdle(fleet.router);
}

TEST(RouterQueueTest, AdviceWaitsLikeTheRequestItStandsForUnlessItOnlyLooks) {
  Fleet fleet(QueueingConfig());
  fleet.FillUp();
  fleet.edit = [](RouteRequest* request) { request->book = false; };
  fleet.Ticket("advice");
  fleet.edit = [](RouteRequest* request) {
    request->book = false;
    request->may_wait = false;
  };
  EXPECT_FALSE(fleet.Decision("only looks").booked);
}

TEST(RouterQueueTest, AFullQueueSaysWhichLimitWasMet) {
  RouterConfig config = QueueingConfig();
  PolicyProfile profile{.default_policy_family = "chat",
                        .uncached_isl_buckets = {{.min_tokens = 0, .bucket = "any"}},
                        .policy_classes = {{.name = "chat-any",
                                            .policy_family = "chat",
                                            .cache_bucket = "any",
                                            .busy = {.tokens = 100},
                                            .request_limit_per_worker = 1}}};
  config.scheduler.queue.profile = profile;
  Fleet fleet(config);
  fleet.FillUp();
  fleet.Ticket("1");
  fleet.Ticket("2");
  const auto refused = fleet.Submit("3").status();
  EXPECT_EQ(refused.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_EQ(ErrorReasonOf(refused), ErrorReason::kQueueLimit);
  EXPECT_EQ(QueueRejectionOf(refused),
            (QueueRejection{
                .policy_class = "chat-any", .limit_kind = "requests", .current = 2, .limit = 2}));
  EXPECT_EQ(fleet.Queue().over_request_limit_total, 1u);
}

TEST(RouterQueueTest, TheProfileOfItsModelIsTaken) {
  RouterConfig config;
  const auto profile = [](std::string name) {
    return PolicyProfile{.default_policy_family = "f",
                         .uncached_isl_buckets = {{.min_tokens = 0, .bucket = "b"}},
                         .policy_classes = {{.name = std::move(name),
                                             .policy_family = "f",
                                             .cache_bucket = "b",
                                             .busy = {.tokens = 100}}}};
  };
  config.scheduler.queue.profile = profile("others");
  config.scheduler.queue.model_profiles["m"] = profile("of-m");
  Fleet fleet(config, 1);
  WorkerSpec of_m = ABatchWorker(9);
  of_m.model_name = "m";
  ASSERT_TRUE(fleet.router.UpsertWorker(of_m).ok());
  const auto partitions = fleet.router.Snapshot();
  EXPECT_EQ(partitions[0].queue.at(0).policy_class, "others");
  EXPECT_EQ(partitions[1].queue.at(0).policy_class, "of-m");
}

TEST(RouterQueueTest, APinnedRequestWaitsForItsOwnTargetOnly) {
  Fleet fleet(QueueingConfig());
  const BookingId first = fleet.Decision("a").booking;
  const auto busy = fleet.sink.Decisions().back().target.worker;
  fleet.edit = [busy](RouteRequest* request) { request->pinned = {.worker = busy}; };
  const TicketId pinned = fleet.Ticket("pinned");  // though the other is idle
  EXPECT_TRUE(fleet.router.Pump({}).empty());
  ASSERT_TRUE(fleet.router.Finish(first, {}));
  EXPECT_EQ(TicketsOf(fleet.router.Pump({})), std::vector{pinned});
}

TEST(RouterQueueTest, WhenTheLastWorkerLeavesThoseWhoWaitAreTold) {
  Fleet fleet(QueueingConfig());
  fleet.FillUp();
  const TicketId ticket = fleet.Ticket("stranded");
  fleet.router.RemoveWorker(WorkerId{1});
  fleet.router.RemoveWorker(WorkerId{2});
  const auto resolved = fleet.router.Pump({});
  ASSERT_EQ(TicketsOf(resolved), std::vector{ticket});
  EXPECT_EQ(ErrorReasonOf(resolved[0].decision.status()), ErrorReason::kNoWorkers);
}

TEST(RouterQueueTest, AfterALongWaitTheOverlapIsLookedUpAgain) {
  RouterConfig config = QueueingConfig();
  config.scheduler.queue.overlap_refresh_after = seconds(10);
  for (const bool long_wait : {false, true}) {
    Fleet fleet(config, 1);
    const auto tokens = TokensFrom(7, 640);
    const auto fillers = fleet.FillUp();
    const auto waits = fleet.router.Submit(ARequest(tokens), seconds(1));
    ASSERT_TRUE(std::holds_alternative<TicketId>(*waits));
    ASSERT_EQ(fleet.router.Apply(StoredEvent(tokens, TargetOf(1))).status, ApplyStatus::kOk);
    const MonotonicTime then = long_wait ? seconds(11) : seconds(10);
    ASSERT_TRUE(fleet.router.Finish(fillers[0], then));
    const auto resolved = fleet.router.Pump(then);
    ASSERT_EQ(resolved.size(), 1u);
    ASSERT_TRUE(resolved[0].decision.ok());
    EXPECT_EQ(resolved[0].decision->overlap_blocks, long_wait ? 40u : 0u);
  }
}

TEST(RouterOverloadTest, AllOverloadedNobodyThereAndPinnedOverloadedAreThreeErrors) {
  RouterConfig config;
  config.scheduler.overload.active_prefill_tokens = 600;
  Fleet fleet(config);
  fleet.FillUp();
  const auto all = fleet.Submit("r").status();
  EXPECT_EQ(ErrorReasonOf(all), ErrorReason::kAllOverloaded);
  EXPECT_EQ(all.code(), absl::StatusCode::kResourceExhausted);
  fleet.edit = [](RouteRequest* request) { request->pinned = {.worker = WorkerId{1}}; };
  EXPECT_EQ(ErrorReasonOf(fleet.Submit("r").status()), ErrorReason::kPinnedOverloaded);
  fleet.edit = [](RouteRequest* request) { request->allowed_workers = {{WorkerId{7}}}; };
  const auto nobody = fleet.Submit("r").status();
  EXPECT_EQ(ErrorReasonOf(nobody), ErrorReason::kNoWorkers);
  EXPECT_EQ(nobody.code(), absl::StatusCode::kUnavailable);
  EXPECT_TRUE(LoadOf(fleet.router, TargetOf(1))->overloaded);
  // Who names a target books there all the same.
  const auto tokens = TokensFrom(5, 160);
  EXPECT_TRUE(fleet.router.Reserve({.route = ARequest(tokens), .target = TargetOf(1)}, {}).ok());
}

TEST(RouterOverloadTest, TheDecodeLatchIsHeldByEitherSignalAndReleasedByBoth) {
  RouterConfig config;
  config.scheduler.overload.active_decode_blocks = 0.5;  // of 100 blocks
  Fleet fleet(config, 1);
  const auto overloaded = [&] { return LoadOf(fleet.router, TargetOf(1))->overloaded; };
  const auto report = [&](std::optional<double> used, std::optional<double> active) {
    fleet.router.ReportLoad(
        {.target = TargetOf(1), .kv_used_blocks = used, .active_decode_blocks = active});
  };
  EXPECT_FALSE(overloaded());
  report(50, {});
  EXPECT_FALSE(overloaded()) << "at the threshold";
  report(51, {});
  EXPECT_TRUE(overloaded());
  report({}, 80);
  report(10, {});
  EXPECT_TRUE(overloaded()) << "the other signal still is above";
  report({}, 10);
  EXPECT_FALSE(overloaded());
  // A record that is told again keeps what was heard; another life does not.
  report(90, {});
  WorkerSpec spec = ABatchWorker(1);
  spec.taints = {"a"};
  ASSERT_TRUE(fleet.router.UpsertWorker(spec).ok());
  EXPECT_TRUE(overloaded());
  spec.incarnation = Incarnation{2};
  ASSERT_TRUE(fleet.router.UpsertWorker(spec).ok());
  EXPECT_FALSE(overloaded());
  fleet.router.ReportLoad({.target = TargetOf(77), .kv_used_blocks = 1});  // nobody
}

TEST(RouterEligibleTest, TaintsTopologyAndAdaptersOfWorkersNarrowAndPrefer) {
  Fleet fleet(RouterConfig{}, 0);
  WorkerSpec near = ABatchWorker(1);
  near.topology.topology_domains = {{"rack", "r1"}};
  near.taints = {"gold"};
  near.lora_adapters = {{"sql"}};
  WorkerSpec far = ABatchWorker(2);
  far.lora_adapters.emplace();
  WorkerSpec silent = ABatchWorker(3);
  for (const WorkerSpec& spec : {near, far, silent}) {
    ASSERT_TRUE(fleet.router.UpsertWorker(spec).ok());
  }
  fleet.edit = [](RouteRequest* request) {
    request->constraints.required_taints = {"dynamo.topology/rack=r1"};
  };
  RouteDecision decision = fleet.Decision("topology");
  EXPECT_EQ(decision.target.worker, WorkerId{1});
  EXPECT_EQ(decision.filtered.taints, 2u);
  ASSERT_EQ(decision.filtered_targets.size(), 2u);
  EXPECT_EQ(decision.filtered_targets[0].reason, FilterReason::kTaints);

  fleet.edit = [](RouteRequest* request) { request->lora_name = "sql"; };
  for (int i = 0; i < 4; ++i) {
    decision = fleet.Decision("adapter");
    EXPECT_NE(decision.target.worker, WorkerId{2});
    EXPECT_EQ(decision.filtered.no_lora_replica, 1u);
  }

  // It has the most load, and yet is the cheapest.
  fleet.edit = [](RouteRequest* request) {
    request->constraints.preferred_taints = {{"gold", 1e9}};
  };
  for (const CandidateCost& cost : fleet.Decision("preferred").candidates) {
    const bool carries = cost.target.worker == WorkerId{1};
    EXPECT_DOUBLE_EQ(cost.taint_multiplier, carries ? std::exp(-1.0) : 1.0);
  }
  fleet.edit = [](RouteRequest* request) {
    request->constraints.preferred_taints = {{"gold", std::numeric_limits<double>::infinity()}};
  };
  EXPECT_EQ(ErrorReasonOf(fleet.Submit("infinite").status()), ErrorReason::kInvalidRequest);
}

TEST(RouterEjectionTest, WhoFailsFastIsLeftOutForAWhileButNeverTheLast) {
  RouterConfig config;
  config.scheduler.outlier_ejection.consecutive_failures = 3;
  Fleet fleet(config, 2);
  const auto fail = [&](uint64_t worker, MonotonicTime now) {
    for (int i = 0; i < 3; ++i) {
      fleet.router.ReportLeg({.target = TargetOf(worker),
                              .incarnation = Incarnation{1},
                              .succeeded = false,
                              .after = milliseconds(5)},
                             now);
    }
  };
  fail(1, seconds(1));
  EXPECT_EQ(LoadOf(fleet.router, TargetOf(1))->ejected_until, seconds(11));
  for (int i = 0; i < 6; ++i) {
    const RouteDecision decision = fleet.Decision("r", seconds(2));
    EXPECT_EQ(decision.target, TargetOf(2)) << "though it is the busier one";
    EXPECT_EQ(decision.filtered.ejected, 1u);
  }
  fail(2, seconds(3));
  EXPECT_EQ(fleet.Decision("r", seconds(4)).target, TargetOf(2)) << "the last one stays";
  EXPECT_EQ(fleet.router.Snapshot().front().ejections_total, 1u);
  EXPECT_GT(fleet.router.Snapshot().front().ejections_refused_total, 0u);
  EXPECT_EQ(fleet.Decision("r", seconds(11)).target, TargetOf(1)) << "its time is over";
  // Another life starts anew, and reports of the old one say nothing.
  WorkerSpec reborn = ABatchWorker(1);
  reborn.incarnation = Incarnation{2};
  ASSERT_TRUE(fleet.router.UpsertWorker(reborn).ok());
  fail(1, seconds(12));
  EXPECT_FALSE(LoadOf(fleet.router, TargetOf(1))->ejected_until.has_value());
}

TEST(RouterEjectionTest, IfOnlyEjectedOnesCouldServeTheyDo) {
  RouterConfig config;
  config.scheduler.outlier_ejection.consecutive_failures = 1;
  Fleet fleet(config, 2);
  fleet.router.ReportLeg({.target = TargetOf(1), .incarnation = Incarnation{1}, .succeeded = false},
                         seconds(1));
  fleet.edit = [](RouteRequest* request) { request->allowed_workers = {{WorkerId{1}}}; };
  const RouteDecision decision = fleet.Decision("r", seconds(2));
  EXPECT_EQ(decision.target, TargetOf(1));
  EXPECT_EQ(decision.filtered.ejected, 1u);
  EXPECT_EQ(decision.filtered.not_allowed, 1u);
}

}  // namespace
}  // namespace kvrouter
