#include "service/peer_history.h"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <set>
#include <string>
#include <thread>
#include <utility>

#include "service/peer_blocks.h"
#include "support/plane_fixture.h"
#include "support/plane_payload.h"

namespace kvrouter {
namespace {

using std::chrono::milliseconds;

constexpr uint64_t kWorker = 7;

// Peers that answer at once what the test says, or keep the question.
class FakePeers final : public PeerBlockSource {
 public:
  bool HasPeers() const override { return has_peers; }
  void Request(const WorkerSpec& spec, uint32_t dp_rank, Answer answer) override {
    ++asked;
    if (mute) {
      kept = std::move(answer);
      return;
    }
    if (!failure.ok()) return answer(failure);
    PeerRankBlocks blocks{.peer = "10.0.0.9:8092", .events = {}, .blocks = 0};
    for (const uint64_t block : {11, 12, 13}) {
      blocks.events.push_back(
          {.target = {spec.id, dp_rank},
           .incarnation = spec.incarnation,
           .data = Stored{.parent = std::nullopt,
                          .blocks = {{EngineHash{block}, LocalBlockHash{block}}}}});
      ++blocks.blocks;
    }
    answer(std::move(blocks));
  }
  void CountUse(Use use, uint64_t blocks) override {
    use == Use::kTaken ? ++taken : ++outdone;
    taken_blocks += blocks;
  }

  bool has_peers = true;
  bool mute = false;
  absl::Status failure;
  Answer kept;
  std::atomic<int> asked{0}, taken{0}, outdone{0};
  std::atomic<uint64_t> taken_blocks{0};
};

class PeerHistoryTest : public PlaneFixture {
 protected:
  ~PeerHistoryTest() override {
    if (intake_) intake_->Stop();  // it asks the history below
  }
  static bool Never() { return false; }
  static std::string Store(uint64_t id) {
    return EventsEnvelope(1, id, {{.event_id = id, .data = PlaneStored({}, {{1 + id, 1 + id}})}});
  }
  void StartIntake() {
    PlaneIntakeConfig config;
    config.feed.rank.doubt_grace = std::chrono::hours(1);  // silent ranks are not asked about
    MakeIntake(config, {&history_});
    ASSERT_TRUE(intake_->Start().ok());
    intake_->PathUp(0);
  }
  bool InState(FeedState state) { return PlaneFixture::InState(kWorker, state); }

  FakePeers peers_;
  PeerHistory history_{
      {.settle = milliseconds(20), .unknown_for = std::chrono::hours(1)}, &peers_, &SteadyClock()};
};

TEST_F(PeerHistoryTest, KnowsRanksWhoseEngineTellsNothingWhereThereArePeers) {
  WorkerSpec spec = Spec(kWorker);
  EXPECT_TRUE(history_.Knows(spec, 0));
  spec.events[0].replay = "tcp://127.0.0.1:1";
  EXPECT_FALSE(history_.Knows(spec, 0)) << "its engine knows better";
  EXPECT_TRUE(history_.Knows(spec, 1));
  peers_.has_peers = false;
  EXPECT_FALSE(history_.Knows(spec, 1));
  EXPECT_FALSE(history_.Proves());
}

TEST_F(PeerHistoryTest, PictureIsNeverTakenForProvedAndIsCountedOnceItsUseIsKnown) {
  const auto picture = history_.Fetch(Spec(kWorker), 0, Never);
  ASSERT_TRUE(picture.ok());
  EXPECT_EQ(picture->events.size(), 3u);
  EXPECT_NE(picture->missing.find("10.0.0.9:8092"), std::string::npos);
  EXPECT_EQ(peers_.taken + peers_.outdone, 0);
  picture->settled(true);
  EXPECT_EQ(peers_.taken, 1);
  EXPECT_EQ(peers_.taken_blocks, 3u);
  picture->settled(false);
  EXPECT_EQ(peers_.outdone, 1);
  EXPECT_EQ(peers_.taken_blocks, 3u);
}

TEST_F(PeerHistoryTest, RankThatNoPeerKnowsIsNotAskedForAgainInTheSameLife) {
  peers_.failure = absl::NotFoundError("no peer knows the rank");
  EXPECT_FALSE(history_.Fetch(Spec(kWorker), 0, Never).ok());
  EXPECT_FALSE(history_.Fetch(Spec(kWorker), 0, Never).ok());
  EXPECT_EQ(peers_.asked, 1);
  EXPECT_FALSE(history_.Fetch(Spec(kWorker), 1, Never).ok());
  EXPECT_EQ(peers_.asked, 2) << "another rank";
  EXPECT_FALSE(history_.Fetch(Spec(kWorker, 2), 0, Never).ok());
  EXPECT_EQ(peers_.asked, 3) << "another life";
}

TEST_F(PeerHistoryTest, PeersThatDoNotAnswerAreAskedAgain) {
  peers_.failure = absl::UnavailableError("no peer answered");
  EXPECT_FALSE(history_.Fetch(Spec(kWorker), 0, Never).ok());
  peers_.failure = absl::OkStatus();
  EXPECT_TRUE(history_.Fetch(Spec(kWorker), 0, Never).ok());
}

TEST_F(PeerHistoryTest, WithdrawnQuestionEndsAndItsLateAnswerHarmsNothing) {
  peers_.mute = true;
  const auto picture = history_.Fetch(Spec(kWorker), 0, [this] { return peers_.asked > 0; });
  EXPECT_EQ(picture.status().code(), absl::StatusCode::kCancelled);
  peers_.kept(absl::CancelledError("too late"));
}

TEST_F(PeerHistoryTest, QuestionThatIsWithdrawnAtOnceReachesNobody) {
  EXPECT_FALSE(history_.Fetch(Spec(kWorker), 0, [] { return true; }).ok());
  EXPECT_EQ(peers_.asked, 0);
}

TEST_F(PeerHistoryTest, LossIsRepairedFromAPeerAndTheRankStaysDegraded) {
  StartIntake();
  Register(kWorker);
  intake_->Push(0, Store(0));
  ASSERT_TRUE(Eventually([&] { return InState(FeedState::kLive); }));
  EXPECT_EQ(peers_.asked, 0);
  intake_->Push(0, Store(2));  // 1 is lost
  ASSERT_TRUE(Eventually([&] { return peers_.taken == 1; }));
  EXPECT_TRUE(Eventually([&] { return InState(FeedState::kDegraded); }));
  EXPECT_NE(Detail(kWorker).find("10.0.0.9:8092"), std::string::npos);
  EXPECT_EQ(Held(kWorker, 20), (std::set<uint64_t>{11, 12, 13}));
  intake_->Push(0, Store(3));
  EXPECT_TRUE(Eventually([&] { return Held(kWorker, 20) == std::set<uint64_t>{4, 11, 12, 13}; }));
  EXPECT_TRUE(InState(FeedState::kDegraded)) << "the next event proves nothing of what is missing";
}

TEST_F(PeerHistoryTest, LossThatNoPeerHelpsWithResetsTheRank) {
  peers_.failure = absl::NotFoundError("no peer knows the rank");
  StartIntake();
  Register(kWorker);
  intake_->Push(0, Store(0));
  ASSERT_TRUE(Eventually([&] { return InState(FeedState::kLive); }));
  intake_->Push(0, Store(2));
  EXPECT_TRUE(Eventually([&] { return Held(kWorker, 20) == std::set<uint64_t>{3}; }));
  EXPECT_TRUE(Eventually([&] {
    return InState(FeedState::kDegraded) &&
           Detail(kWorker).find("no peer knows") != std::string::npos;
  }));
}

}  // namespace
}  // namespace kvrouter
