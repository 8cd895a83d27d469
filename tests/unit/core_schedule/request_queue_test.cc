#include "core/schedule/request_queue.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "kvrouter/error.h"

namespace kvrouter {
namespace {

using std::chrono::seconds;
using ::testing::ElementsAre;
using ::testing::IsEmpty;
using Readiness = RequestQueue::Readiness;
using Rejection = RequestQueue::Rejection;
using Request = RequestQueue::Request;

constexpr Target kSeven{.worker = WorkerId{7}};
constexpr Target kEight{.worker = WorkerId{8}};

PolicyClass AClass(std::string name, uint64_t quantum_tokens = 1) {
  PolicyClass c;
  c.name = std::move(name);
  c.policy_family = c.name;
  c.cache_bucket = "all";
  c.quantum_tokens = quantum_tokens;
  c.busy.tokens = 0;
  return c;
}

PolicyClasses Classes(std::vector<PolicyClass> classes) {
  const auto made = PolicyClasses::Make({.default_policy_family = classes[0].policy_family,
                                         .uncached_isl_buckets = {{.bucket = "all"}},
                                         .policy_classes = classes});
  EXPECT_TRUE(made.ok()) << made.status();
  return *made;
}

// A queue, and requests by name.
class Waiting {
 public:
  explicit Waiting(PolicyClasses classes, RequestQueue::Options options = {})
      : queue(options, std::move(classes), seconds(0)) {}
  explicit Waiting(QueueOrder order) : Waiting(PolicyClasses::Single(order, {.tokens = 0})) {}

  // Each a second after the other.
  TicketId Park(const std::string& name, const Request& request) {
    now += seconds(1);
    const auto parked = queue.Park(request, workers, now);
    const auto* const ticket = std::get_if<TicketId>(&parked);
    EXPECT_NE(ticket, nullptr) << name;
    if (ticket == nullptr) return kNoTicket;
    names[*ticket] = name;
    return *ticket;
  }

  std::vector<std::string> Pump(const std::function<Readiness(const std::string&)>& judge) {
    std::vector<std::string> gone;
    queue.Pump(
        now, [&](TicketId ticket) { return judge(names.at(ticket)); },
        [&](const RequestQueue::Released& released) {
          gone.push_back(names.at(released.ticket));
          last = released;
        });
    return gone;
  }

  std::vector<std::string> PumpAll() {
    return Pump([](const std::string&) { return Readiness::kReady; });
  }

  // At most so many go.
  std::vector<std::string> PumpSome(int count) {
    return Pump([&, gone = 0](const std::string&) mutable {
      // Judged once per class and release: with one class, once per release.
      return gone++ < count ? Readiness::kReady : Readiness::kBusy;
    });
  }

  RequestQueue queue;
  std::map<TicketId, std::string> names;
  MonotonicTime now = seconds(0);
  uint64_t workers = 1;
  RequestQueue::Released last;
};

TEST(RequestQueueTest, FirstComeFirstServed) {
  Waiting w(QueueOrder::kFcfs);
  for (const char* name : {"a", "b", "c"}) w.Park(name, {});
  EXPECT_THAT(w.PumpAll(), ElementsAre("a", "b", "c"));
  EXPECT_EQ(w.queue.WaitingCount(), 0u);
}

TEST(RequestQueueTest, LastComeFirstServed) {
  Waiting w(QueueOrder::kLcfs);
  for (const char* name : {"a", "b", "c"}) w.Park(name, {});
  EXPECT_THAT(w.PumpAll(), ElementsAre("c", "b", "a"));
}

TEST(RequestQueueTest, ShortestRemainingWorkFirst) {
  Waiting w(QueueOrder::kWspt);
  w.Park("long", {.isl_tokens = 10'000});
  w.Park("mostly cached", {.isl_tokens = 20'000, .cached_tokens = 19'900});
  w.Park("short", {.isl_tokens = 50});
  w.Park("all cached", {.isl_tokens = 50, .cached_tokens = 80});
  w.Park("empty", {});
  w.Park("long but wanted", {.priority_jump = 99, .isl_tokens = 7'000});
  // 1 / 1 twice, in order of arrival; 1 / 50; 100 / 7,000; 1 / 100; 1 / 10,000.
  EXPECT_THAT(w.PumpAll(), ElementsAre("all cached", "empty", "short", "long but wanted",
                                       "mostly cached", "long"));
}

TEST(RequestQueueTest, APriorityJumpIsWorthItsSeconds) {
  Waiting w(QueueOrder::kFcfs);
  w.Park("1 s", {});
  w.Park("2 s", {});
  w.Park("3 s, jumps 1.5", {.priority_jump = 1.5});
  w.Park("4 s, jumps 3, a tie with 1 s", {.priority_jump = 3});
  w.Park("5 s, negative", {.priority_jump = -100});
  w.Park("6 s, not a number", {.priority_jump = std::nan("")});
  EXPECT_THAT(w.PumpAll(), ElementsAre("1 s", "4 s, jumps 3, a tie with 1 s", "3 s, jumps 1.5",
                                       "2 s", "5 s, negative", "6 s, not a number"));
}

TEST(RequestQueueTest, StrictPriorityComesBeforeAnyScore) {
  Waiting w(QueueOrder::kFcfs);
  w.Park("plain, jumps far", {.priority_jump = 1e9});
  w.Park("strict 1", {.strict_priority = 1});
  w.Park("strict 2", {.strict_priority = 2});
  EXPECT_THAT(w.PumpAll(), ElementsAre("strict 2", "strict 1", "plain, jumps far"));
}

TEST(RequestQueueTest, NobodyPassesABusyHead) {
  Waiting w(QueueOrder::kFcfs);
  w.Park("head", {});
  w.Park("could go", {});
  EXPECT_THAT(w.Pump([](const std::string& name) {
    return name == "head" ? Readiness::kBusy : Readiness::kReady;
  }),
              IsEmpty());
  EXPECT_THAT(w.PumpAll(), ElementsAre("head", "could go"));
}

TEST(RequestQueueTest, APinnedRequestHoldsUpItsOwnLaneOnly) {
  Waiting w(QueueOrder::kFcfs);
  w.Park("7 first", {.pinned = kSeven});
  w.Park("shared", {});
  w.Park("7 second", {.pinned = kSeven});
  w.Park("8", {.pinned = kEight});
  EXPECT_THAT(w.Pump([](const std::string& name) {
    return name[0] == '7' ? Readiness::kBusy : Readiness::kReady;
  }),
              ElementsAre("shared", "8"));
  EXPECT_THAT(w.PumpAll(), ElementsAre("7 first", "7 second"));
}

TEST(RequestQueueTest, LanesOfAClassShareOneOrder) {
  Waiting w(QueueOrder::kFcfs);
  w.Park("a", {.pinned = kSeven});
  w.Park("b", {});
  w.Park("c", {.pinned = kEight});
  w.Park("d", {.strict_priority = 1, .pinned = kEight});
  EXPECT_THAT(w.PumpAll(), ElementsAre("d", "a", "b", "c"));
}

TEST(RequestQueueTest, EachIsPlacedBeforeTheNextIsJudged) {
  Waiting w(QueueOrder::kFcfs);
  for (const char* name : {"a", "b", "c"}) w.Park(name, {});
  int room = 2;
  std::vector<std::string> gone;
  w.queue.Pump(
      w.now, [&](TicketId) { return room > 0 ? Readiness::kReady : Readiness::kBusy; },
      [&](const RequestQueue::Released& released) {
        --room;
        gone.push_back(w.names.at(released.ticket));
      });
  EXPECT_THAT(gone, ElementsAre("a", "b"));
  EXPECT_EQ(w.queue.WaitingCount(), 1u);
}

TEST(RequestQueueTest, WhoNobodyCanServeGoesToItsError) {
  Waiting w(QueueOrder::kFcfs);
  w.Park("orphan", {});
  w.Park("next", {});
  EXPECT_THAT(w.Pump([](const std::string& name) {
    return name == "orphan" ? Readiness::kNobody : Readiness::kBusy;
  }),
              ElementsAre("orphan"));
}

TEST(RequestQueueTest, ParkingIsForBusyTargetsOrABacklog) {
  Waiting w(QueueOrder::kFcfs);
  EXPECT_FALSE(w.queue.MustPark(0, false));
  EXPECT_TRUE(w.queue.MustPark(0, true));
  const TicketId ticket = w.Park("a", {});
  EXPECT_TRUE(w.queue.MustPark(0, false)) << "or it would bypass who waits";
  w.queue.Cancel(ticket);
  EXPECT_FALSE(w.queue.MustPark(0, false));
}

TEST(RequestQueueTest, WithoutThresholdsNobodyParks) {
  Waiting w(PolicyClasses::Single(QueueOrder::kFcfs, {}));
  EXPECT_FALSE(w.queue.MustPark(0, true));
}

TEST(RequestQueueTest, ABacklogIsItsClassesOwn) {
  Waiting w(Classes({AClass("a"), AClass("b")}));
  w.Park("x", {.policy_class = 0});
  EXPECT_TRUE(w.queue.MustPark(0, false));
  EXPECT_FALSE(w.queue.MustPark(1, false));
}

Rejection RejectedBy(Waiting* w, const Request& request) {
  const auto parked = w->queue.Park(request, w->workers, w->now);
  const auto* const rejection = std::get_if<Rejection>(&parked);
  EXPECT_NE(rejection, nullptr);
  return rejection != nullptr ? *rejection : Rejection{};
}

TEST(RequestQueueTest, LimitsAreComparedBeforeTheRequestIsAdded) {
  PolicyClass limited = AClass("limited");
  limited.raw_isl_token_limit_per_worker = 50;
  Waiting w(Classes({limited}));
  w.workers = 2;
  w.Park("99 of 100", {.isl_tokens = 99});
  w.Park("crosses", {.isl_tokens = 1000});
  const Rejection rejection = RejectedBy(&w, {.isl_tokens = 1});
  EXPECT_EQ(rejection.policy_class, "limited");
  EXPECT_EQ(LimitKindName(rejection.kind), "raw_isl_tokens");
  EXPECT_EQ(rejection.current, 1099u);
  EXPECT_EQ(rejection.limit, 100u);
  const absl::Status status = StatusOf(rejection);
  EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_EQ(ErrorReasonOf(status), ErrorReason::kQueueLimit);
  EXPECT_EQ(status.message(),
            "queue of policy class limited is full: 1099 raw_isl_tokens wait, the limit is 100");
  EXPECT_EQ(w.queue.StatsOf(0).rejected_total, 1u);
  w.PumpAll();
  w.Park("there is room again", {.isl_tokens = 1});
}

TEST(RequestQueueTest, EachKindOfLimitIsReported) {
  PolicyClass limited = AClass("limited");
  limited.request_limit_per_worker = 1;
  Waiting requests(Classes({limited}));
  requests.Park("one", {.isl_tokens = 5});
  EXPECT_EQ(LimitKindName(RejectedBy(&requests, {}).kind), "requests");
  limited.request_limit_per_worker.reset();
  limited.cached_token_limit_per_worker = 10;
  Waiting cached(Classes({limited}));
  cached.Park("caches nothing", {.isl_tokens = 500});
  cached.Park("10 at most", {.isl_tokens = 10, .cached_tokens = 500});
  const Rejection rejection = RejectedBy(&cached, {});
  EXPECT_EQ(LimitKindName(rejection.kind), "cached_tokens");
  EXPECT_EQ(rejection.current, 10u) << "capped at the prompt";
}

TEST(RequestQueueTest, ALimitOfZeroAdmitsNobodyAndAHugeOneDoesNotOverflow) {
  PolicyClass limited = AClass("limited");
  limited.request_limit_per_worker = 0;
  Waiting none(Classes({limited}));
  EXPECT_EQ(RejectedBy(&none, {}).limit, 0u);
  limited.request_limit_per_worker = ~uint64_t{0};
  Waiting all(Classes({limited}));
  all.workers = 1000;
  all.Park("a", {});
}

TEST(RequestQueueTest, TheWholeQueueIsBounded) {
  Waiting w(Classes({AClass("a"), AClass("b")}), {.max_waiting = 2});
  w.Park("x", {.policy_class = 0});
  w.Park("y", {.policy_class = 1});
  EXPECT_EQ(LimitKindName(RejectedBy(&w, {.policy_class = 1}).kind), "max_waiting");
}

TEST(RequestQueueTest, ClassesTakeTurnsByTheirQuantum) {
  Waiting w(Classes({AClass("a", 100), AClass("b", 300)}));
  for (const char* name : {"a1", "a2", "a3"}) w.Park(name, {.policy_class = 0, .isl_tokens = 300});
  for (const char* name : {"b1", "b2", "b3", "b4", "b5", "b6"}) {
    w.Park(name, {.policy_class = 1, .isl_tokens = 300});
  }
  // One round lets b go: a has 100. b goes, another round, b, a third round: both can, b was last
  // and goes on, then a.
  EXPECT_THAT(w.PumpAll(), ElementsAre("b1", "b2", "b3", "a1", "b4", "b5", "b6", "a2", "a3"));
}

TEST(RequestQueueTest, WhoeverWasLastGoesOnWhileItsDeficitLasts) {
  Waiting w(Classes({AClass("a", 100), AClass("b", 100)}));
  for (const char* name : {"a1", "a2", "a3", "a4"}) {
    w.Park(name, {.policy_class = 0, .isl_tokens = 50});
  }
  for (const char* name : {"b1", "b2"}) w.Park(name, {.policy_class = 1, .isl_tokens = 50});
  EXPECT_THAT(w.PumpAll(), ElementsAre("a1", "a2", "b1", "b2", "a3", "a4"));
}

TEST(RequestQueueTest, ARequestCostsItsUncachedTokensAndAtLeastOne) {
  Waiting w(Classes({AClass("a", 10), AClass("b", 10)}));
  w.Park("a1", {.policy_class = 0, .isl_tokens = 1000, .cached_tokens = 1000});
  w.Park("a2", {.policy_class = 0, .isl_tokens = 1000, .cached_tokens = 991});
  w.Park("a3", {.policy_class = 0, .isl_tokens = 1});
  w.Park("b1", {.policy_class = 1, .isl_tokens = 10});
  // A round: 10 each. a1 costs 1, a2 costs 9, a3 must wait for the next round.
  EXPECT_THAT(w.PumpAll(), ElementsAre("a1", "a2", "b1", "a3"));
}

TEST(RequestQueueTest, AClassThatEmptiesLosesItsDeficit) {
  Waiting w(Classes({AClass("a", 100), AClass("b", 100)}));
  w.Park("a1", {.policy_class = 0, .isl_tokens = 1});
  EXPECT_THAT(w.PumpAll(), ElementsAre("a1"));
  // With 99 left, a2 would go first.
  w.Park("a2", {.policy_class = 0, .isl_tokens = 99});
  w.Park("a3", {.policy_class = 0, .isl_tokens = 99});
  w.Park("b1", {.policy_class = 1, .isl_tokens = 50});
  EXPECT_THAT(w.PumpAll(), ElementsAre("a2", "b1", "a3"));
}

TEST(RequestQueueTest, ABusyClassTakesNoTurnAndGathersNothing) {
  Waiting w(Classes({AClass("a", 100), AClass("b", 100)}));
  w.Park("a1", {.policy_class = 0, .isl_tokens = 100});
  for (const char* name : {"b1", "b2", "b3"}) w.Park(name, {.policy_class = 1, .isl_tokens = 100});
  EXPECT_THAT(w.Pump([](const std::string& name) {
    return name[0] == 'a' ? Readiness::kBusy : Readiness::kReady;
  }),
              ElementsAre("b1", "b2", "b3"));
  w.Park("a2", {.policy_class = 0, .isl_tokens = 100});
  w.Park("b4", {.policy_class = 1, .isl_tokens = 100});
  EXPECT_THAT(w.PumpAll(), ElementsAre("b4", "a1", "a2")) << "one round for both; b was last";
}

TEST(RequestQueueTest, WhoWaitedLongHasItsOverlapLookedUpAgain) {
  for (const auto& [waited, refresh] :
       std::map<std::chrono::nanoseconds, bool>{{seconds(10) - std::chrono::nanoseconds(1), false},
                                                {seconds(10), true},
                                                {seconds(11), true}}) {
    Waiting w(QueueOrder::kFcfs);
    w.Park("a", {});
    w.now += waited;
    w.PumpAll();
    EXPECT_EQ(w.last.refresh_overlap, refresh);
    EXPECT_EQ(w.last.waited, waited);
  }
  Waiting never(PolicyClasses::Single(QueueOrder::kFcfs, {.tokens = 0}),
                {.overlap_refresh_after = seconds(0)});
  never.Park("a", {});
  never.now += seconds(1000);
  never.PumpAll();
  EXPECT_FALSE(never.last.refresh_overlap);
}

TEST(RequestQueueTest, DeadlinesEndTheWaiting) {
  Waiting w(QueueOrder::kFcfs);
  const TicketId late = w.Park("late", {.deadline = seconds(50)});
  const TicketId early = w.Park("early", {.deadline = seconds(40)});
  w.Park("patient", {});
  std::vector<TicketId> expired;
  w.queue.Expire(seconds(40) - std::chrono::nanoseconds(1), &expired);
  EXPECT_THAT(expired, IsEmpty());
  w.queue.Expire(seconds(60), &expired);
  EXPECT_THAT(expired, ElementsAre(early, late));
  EXPECT_EQ(w.queue.StatsOf(0).expired_total, 2u);
  EXPECT_FALSE(w.queue.Cancel(early));
  EXPECT_THAT(w.PumpAll(), ElementsAre("patient"));
}

TEST(RequestQueueTest, ACancelledRequestIsGoneAndItsTicketVoid) {
  Waiting w(QueueOrder::kFcfs);
  const TicketId a = w.Park("a", {.isl_tokens = 5});
  const TicketId b = w.Park("b", {.isl_tokens = 6});
  EXPECT_TRUE(w.queue.Cancel(a));
  EXPECT_FALSE(w.queue.Cancel(a));
  EXPECT_FALSE(w.queue.Cancel(kNoTicket));
  const TicketId c = w.Park("c", {});
  EXPECT_NE(c, a) << "slots are used again, tickets are not";
  EXPECT_EQ(w.queue.StatsOf(0).waiting_isl_tokens, 6u);
  EXPECT_THAT(w.PumpAll(), ElementsAre("b", "c"));
  EXPECT_FALSE(w.queue.Cancel(b)) << "released";
  EXPECT_EQ(w.queue.StatsOf(0).cancelled_total, 1u);
}

TEST(RequestQueueTest, CancellingAHeadLetsTheNextOneBeJudged) {
  Waiting w(QueueOrder::kFcfs);
  const TicketId head = w.Park("head", {.pinned = kSeven});
  w.Park("next", {.pinned = kSeven});
  EXPECT_TRUE(w.queue.Cancel(head));
  EXPECT_THAT(w.PumpAll(), ElementsAre("next"));
}

TEST(RequestQueueTest, TicketsOfAnotherPartitionAreNotOurs) {
  RequestQueue ours({.partition = 1}, PolicyClasses::Single(QueueOrder::kFcfs, {}), seconds(0));
  RequestQueue theirs({.partition = 2}, PolicyClasses::Single(QueueOrder::kFcfs, {}), seconds(0));
  const auto ticket = std::get<TicketId>(ours.Park({}, 1, seconds(0)));
  theirs.Park({}, 1, seconds(0));
  EXPECT_FALSE(theirs.Cancel(ticket));
  EXPECT_TRUE(ours.Cancel(ticket));
}

TEST(RequestQueueTest, ClearingLetsEverybodyGoInOrderOfArrival) {
  Waiting w(QueueOrder::kLcfs);
  const TicketId a = w.Park("a", {.deadline = seconds(100)});
  const TicketId b = w.Park("b", {.pinned = kSeven, .deadline = seconds(50)});
  std::vector<TicketId> cleared;
  w.queue.Clear(&cleared);
  EXPECT_THAT(cleared, ElementsAre(a, b));
  EXPECT_EQ(w.queue.WaitingCount(), 0u);
  EXPECT_EQ(w.queue.StatsOf(0).waiting, 0u);
}

TEST(RequestQueueTest, SomeGoAndTheRestKeepsItsPlaces) {
  Waiting w(QueueOrder::kFcfs);
  for (const char* name : {"a", "b", "c", "d"}) w.Park(name, {});
  EXPECT_THAT(w.PumpSome(2), ElementsAre("a", "b"));
  w.Park("e", {});
  EXPECT_THAT(w.PumpSome(2), ElementsAre("c", "d"));
  EXPECT_THAT(w.PumpSome(2), ElementsAre("e"));
}

}  // namespace
}  // namespace kvrouter
