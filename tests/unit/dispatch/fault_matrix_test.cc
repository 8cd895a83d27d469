#include <gtest/gtest.h>

#include <random>
#include <string>
#include <vector>

#include "plan_fleets.h"

// What goes wrong × on which leg × streaming or not: whatever it is, the client gets the right
// answer or one clear error within the total time, and nothing stays booked, open or running.

namespace kvrouter {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

enum class FleetKind { kLocal, kPrefill, kMigration };

std::unique_ptr<DispatchFleet> Make(FleetKind kind, const FleetOptions& options = QuickOptions()) {
  switch (kind) {
    case FleetKind::kLocal:
      return LocalFleet(options);
    case FleetKind::kPrefill:
      return PrefillFleet(options);
    case FleetKind::kMigration:
      break;
  }
  return MigrationFleet(options);
}

// A restarted engine is another life of its worker.
void WatchRestarts(DispatchFleet* fleet) {
  for (auto& [id, engine] : fleet->engines) {
    engine->on_restart = [fleet, worker = WorkerId{id}] {
      WorkerSpec spec = *fleet->registry.Find(worker);
      spec.incarnation = Incarnation{static_cast<uint64_t>(spec.incarnation) + 1};
      ASSERT_TRUE(fleet->registry.Register(spec).ok());
    };
  }
}

enum class Expect {
  kRight,     // the answer that a fleet without faults gives
  kTorn,      // its beginning, then one error
  kPassedOn,  // the engine's own refusal
  kLate,      // an error at the end of the total time
};

struct Cell {
  FleetKind fleet;
  EngineLegKind leg;
  Fault fault;
  bool stream;
  Expect expect;
  int status = 200;
};

constexpr Fault kServeFaults[] = {Fault::kRefuse,
                                  Fault::kStallBeforeHead,
                                  Fault::kStallMidStream,
                                  Fault::kCutBeforeFirstByte,
                                  Fault::kCutMidStream,
                                  Fault::k500,
                                  Fault::k429,
                                  Fault::k400,
                                  Fault::kErrorEvent,
                                  Fault::kRefusalEvent};
constexpr Fault kProduceFaults[] = {Fault::kRefuse,
                                    Fault::kStallBeforeHead,
                                    Fault::kStallMidStream,
                                    Fault::kCutBeforeFirstByte,
                                    Fault::kCutMidStream,
                                    Fault::k500,
                                    Fault::k429,
                                    Fault::k400,
                                    Fault::kMissingHandshake,
                                    Fault::kWrongHandshake,
                                    Fault::kLocalHandshake,
                                    Fault::kLateHandshake,
                                    Fault::kRestart};

std::vector<Cell> Cells() {
  std::vector<Cell> cells;
  for (const bool stream : {true, false}) {
    for (const Fault fault : kServeFaults) {
      const bool torn =
          stream && (fault == Fault::kStallMidStream || fault == Fault::kCutMidStream);
      // An engine that does not stream is silent while it generates,
      // so only the total time ends it.
      const bool late = !stream && fault == Fault::kStallBeforeHead;
      const Expect expect = torn ? Expect::kTorn : late ? Expect::kLate : Expect::kRight;
      const int status = late ? 504 : 200;
      if (fault == Fault::k429 || fault == Fault::k400) {
        cells.push_back({FleetKind::kLocal, EngineLegKind::kServe, fault, stream, Expect::kPassedOn,
                         fault == Fault::k429 ? 429 : 400});
      } else {
        cells.push_back({FleetKind::kLocal, EngineLegKind::kServe, fault, stream, expect, status});
      }
      // What is wrong with a leg that has parameters may be wrong with the parameters.
      cells.push_back(
          {FleetKind::kPrefill, EngineLegKind::kConsume, fault, stream, expect, status});
      cells.push_back(
          {FleetKind::kMigration, EngineLegKind::kConsume, fault, stream, expect, status});
    }
    for (const Fault fault : kProduceFaults) {
      // The one error of a leg that is no help that is passed on: the prefill pool is full.
      const bool full = fault == Fault::k429;
      cells.push_back({FleetKind::kPrefill, EngineLegKind::kProduce, fault, stream,
                       full ? Expect::kPassedOn : Expect::kRight, full ? 429 : 200});
      cells.push_back(
          {FleetKind::kMigration, EngineLegKind::kProduce, fault, stream, Expect::kRight});
    }
  }
  return cells;
}

std::string NameOf(const Cell& cell) {
  return fmt::format("fleet={} leg={} fault={} stream={}", static_cast<int>(cell.fleet),
                     static_cast<int>(cell.leg), static_cast<int>(cell.fault), cell.stream);
}

void ExpectOneEnd(DispatchFleet& fleet, const RecordingClient& client) {
  EXPECT_EQ(client.misuses, 0);
  EXPECT_EQ(fleet.observer.ends.size(), 1u);
  for (const DispatchEnd& end : fleet.observer.ends) EXPECT_LE(end.since_arrival, seconds(60));
  fleet.ExpectNothingLeft();
}

TEST(FaultMatrixTest, EveryCellEndsInARightAnswerOrOneClearError) {
  const auto ids = Ids(kPromptTokens);
  const std::string right = VirtualEngine::Answer(ids, VirtualEngine::kDefaultTokens);
  const std::vector<Cell> cells = Cells();
  EXPECT_GE(cells.size(), 60u);
  for (const Cell& cell : cells) {
    SCOPED_TRACE(NameOf(cell));
    const auto fleet = Make(cell.fleet);
    WatchRestarts(fleet.get());
    fleet->side.Break(cell.leg, cell.fault);
    const auto client = fleet->Send(CompletionBody(ids, cell.stream));
    fleet->link.Run(seconds(70));
    EndLoad(fleet.get());
    EXPECT_EQ(fleet->side.faults_taken, 1) << "the cell did not happen";
    EXPECT_EQ(client->answers, 1);
    EXPECT_TRUE(client->ended);
    EXPECT_EQ(client->status, cell.status);
    ExpectOneEnd(*fleet, *client);
    switch (cell.expect) {
      case Expect::kRight:
        EXPECT_FALSE(client->cut);
        EXPECT_EQ(TextOf(client->body), right);
        EXPECT_EQ(client->body.ends_with("data: [DONE]\n\n"), cell.stream);
        break;
      case Expect::kTorn: {
        const std::string text = TextOf(client->body);  // every event is whole
        EXPECT_TRUE(right.starts_with(text)) << text;
        EXPECT_EQ(text, VirtualEngine::Answer(ids, 1));
        const size_t error = client->body.find("data: {\"error\":");
        ASSERT_NE(error, std::string::npos);
        EXPECT_EQ(client->body.find("data:", error + 1), std::string::npos) << "it is the last";
        EXPECT_EQ(fleet->observer.ends[0].outcome, DispatchOutcome::kFailed);
        break;
      }
      case Expect::kLate:
        EXPECT_NE(client->body.find("within 60000 ms"), std::string::npos) << client->body;
        EXPECT_EQ(fleet->observer.ends[0].outcome, DispatchOutcome::kDeadline);
        break;
      case Expect::kPassedOn:
        EXPECT_NE(client->body.find("\"error\""), std::string::npos);
        EXPECT_EQ(fleet->observer.ends[0].outcome, DispatchOutcome::kEngineRefused);
        break;
    }
  }
}

TEST(FaultMatrixTest, WithoutFaultsEveryPlanGivesTheSameTokens) {
  const auto ids = Ids(kPromptTokens);
  for (const bool stream : {true, false}) {
    for (const FleetKind kind : {FleetKind::kLocal, FleetKind::kPrefill, FleetKind::kMigration}) {
      SCOPED_TRACE(static_cast<int>(kind));
      const auto fleet = Make(kind);
      const auto client = fleet->Send(CompletionBody(ids, stream));
      fleet->link.Run(seconds(10));
      EndLoad(fleet.get());
      EXPECT_EQ(TextOf(client->body), VirtualEngine::Answer(ids, VirtualEngine::kDefaultTokens));
      int consumed = 0;
      for (const auto& [id, engine] : fleet->engines) consumed += engine->consumed;
      EXPECT_EQ(consumed, kind == FleetKind::kLocal ? 0 : 1);
      EXPECT_TRUE(fleet->observer.fallbacks.empty());
      EXPECT_EQ(fleet->observer.leases_left, 0);
      ExpectOneEnd(*fleet, *client);
    }
  }
}

TEST(FaultMatrixTest, AClientMayLeaveAtAnyMoment) {
  for (const FleetKind kind : {FleetKind::kLocal, FleetKind::kPrefill, FleetKind::kMigration}) {
    for (const bool stream : {true, false}) {
      for (int ms = 0; ms < 50; ++ms) {
        SCOPED_TRACE(fmt::format("fleet={} stream={} ms={}", static_cast<int>(kind), stream, ms));
        const auto fleet = Make(kind);
        const auto client = fleet->Send(CompletionBody(Ids(kPromptTokens), stream));
        fleet->link.Run(milliseconds(ms));
        const bool ended = client->ended;
        client->Leave();
        EndLoad(fleet.get());
        EXPECT_EQ(fleet->observer.ends.at(0).outcome,
                  ended ? DispatchOutcome::kSuccess : DispatchOutcome::kClientGone);
        ExpectOneEnd(*fleet, *client);
        fleet->link.Run(seconds(70));
        ExpectOneEnd(*fleet, *client);
      }
    }
  }
}

TEST(FaultMatrixTest, UnderStrictDisaggregationAFailedPrefillLegIsTheRequestsError) {
  FleetOptions options = QuickOptions();
  options.router.strict_disaggregation = true;
  for (const Fault fault : kProduceFaults) {
    SCOPED_TRACE(static_cast<int>(fault));
    const auto fleet = PrefillFleet(options);
    WatchRestarts(fleet.get());
    fleet->side.Break(EngineLegKind::kProduce, fault);
    const auto client = fleet->Send(CompletionBody(Ids(kPromptTokens), true));
    fleet->link.Run(seconds(70));
    // What speaks against the request itself is the worker's to say.
    EXPECT_EQ(client->status, fault == Fault::k429 ? 429 : fault == Fault::k400 ? 400 : 503);
    EXPECT_EQ(fleet->observer.fallbacks[DispatchFallback::kPrefillFailed], 0);
    ExpectOneEnd(*fleet, *client);
  }
}

TEST(FaultMatrixTest, UnderStrictDisaggregationAFailedConsumerIsReplacedAsOtherwise) {
  FleetOptions options = QuickOptions();
  options.router.strict_disaggregation = true;
  for (const Fault fault : {Fault::k400, Fault::kRefusalEvent, Fault::k500, Fault::kRefuse,
                            Fault::kCutBeforeFirstByte}) {
    SCOPED_TRACE(static_cast<int>(fault));
    const auto fleet = PrefillFleet(options);
    fleet->side.Break(EngineLegKind::kConsume, fault);
    const auto client = fleet->Send(CompletionBody(Ids(kPromptTokens), true));
    fleet->link.Run(seconds(70));
    EXPECT_EQ(client->status, 200) << client->body;
    EXPECT_EQ(fleet->observer.fallbacks[DispatchFallback::kConsumerFailed], 1);
    ExpectOneEnd(*fleet, *client);
  }
}

TEST(FaultMatrixTest, UnderStrictDisaggregationTheClientReadsWhatIsWrongWithItsRequest) {
  FleetOptions options = QuickOptions();
  options.router.strict_disaggregation = true;
  for (const EngineLegKind kind : {EngineLegKind::kProduce, EngineLegKind::kConsume}) {
    const auto fleet = PrefillFleet(options);
    for (const auto leg : {kind, EngineLegKind::kServe}) fleet->side.Break(leg, Fault::k400, 9);
    const auto client = fleet->Send(CompletionBody(Ids(kPromptTokens), true));
    fleet->link.Run(seconds(70));
    EXPECT_EQ(client->status, 400);
    EXPECT_NE(client->body.find("of the engine's own words"), std::string::npos) << client->body;
    EXPECT_EQ(fleet->observer.ends.at(0).outcome, DispatchOutcome::kEngineRefused);
    ExpectOneEnd(*fleet, *client);
  }
}

TEST(FaultMatrixTest, WhereEverythingFailsTheClientHearsItOnce) {
  for (const FleetKind kind : {FleetKind::kLocal, FleetKind::kPrefill, FleetKind::kMigration}) {
    for (const Fault fault : kServeFaults) {
      SCOPED_TRACE(
          fmt::format("fleet={} fault={}", static_cast<int>(kind), static_cast<int>(fault)));
      const auto fleet = Make(kind);
      for (const auto leg :
           {EngineLegKind::kServe, EngineLegKind::kProduce, EngineLegKind::kConsume})
        fleet->side.Break(leg, fault, 100);
      const auto client = fleet->Send(CompletionBody(Ids(kPromptTokens), true));
      fleet->link.Run(seconds(70));
      EndLoad(fleet.get());
      EXPECT_EQ(client->answers, 1);
      EXPECT_TRUE(client->ended);
      EXPECT_NE(client->body.find("\"error\""), std::string::npos) << client->body;
      EXPECT_LE(fleet->side.faults_taken, 6) << "attempts are bounded";
      ExpectOneEnd(*fleet, *client);
    }
  }
}

TEST(FaultMatrixTest, FaultsTogetherLeaveNothingBehind) {
  for (uint64_t seed = 0; seed < 400; ++seed) {
    SCOPED_TRACE(fmt::format("seed={}", seed));
    std::mt19937_64 random(seed);
    const auto pick = [&random](uint64_t n) { return random() % n; };
    const auto fleet = Make(static_cast<FleetKind>(pick(3)));
    WatchRestarts(fleet.get());
    for (const auto leg :
         {EngineLegKind::kServe, EngineLegKind::kProduce, EngineLegKind::kConsume}) {
      const auto faults =
          leg == EngineLegKind::kProduce
              ? std::vector<Fault>(std::begin(kProduceFaults), std::end(kProduceFaults))
              : std::vector<Fault>(std::begin(kServeFaults), std::end(kServeFaults));
      fleet->side.Break(leg, faults[pick(faults.size())], static_cast<int>(pick(3)));
    }
    std::vector<std::shared_ptr<RecordingClient>> clients;
    for (int i = 0; i < 4; ++i) {
      const bool slow = pick(3) == 0;
      clients.push_back(fleet->Send(CompletionBody(Ids(kPromptTokens), pick(2) == 0)));
      clients.back()->keeps_up = !slow;
      fleet->link.Run(milliseconds(pick(20)));
      if (pick(4) == 0) clients[pick(clients.size())]->Leave();
      if (pick(8) == 0 && fleet->registry.List().size() > 2)
        (void)fleet->registry.Remove(fleet->registry.List().back().id);
    }
    for (int step = 0; step < 100; ++step) {
      fleet->link.Run(seconds(1));
      for (const auto& client : clients) {
        if (!client->keeps_up) client->Drain();
      }
    }
    fleet->service.Tick();
    EndLoad(fleet.get());
    for (const auto& client : clients) {
      EXPECT_TRUE(client->ended || client->gone);
      EXPECT_EQ(client->misuses, 0);
      EXPECT_LE(client->answers, 1);
    }
    EXPECT_EQ(fleet->observer.ends.size(), clients.size());
    for (const DispatchEnd& end : fleet->observer.ends) EXPECT_LE(end.since_arrival, seconds(60));
    fleet->ExpectNothingLeft();
    if (::testing::Test::HasFailure()) return;
  }
}

}  // namespace
}  // namespace kvrouter
