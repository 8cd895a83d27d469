#include "service/published_feeds.h"

#include <gtest/gtest.h>

#include <chrono>
#include <memory>
#include <string>
#include <vector>

#include "kvrouter/error.h"
#include "service/worker_registry.h"
#include "support/core_builders.h"

namespace kvrouter {
namespace {

using namespace testing;  // NOLINT: the builders
using std::chrono::milliseconds;
using std::chrono::seconds;

// A store of all blocks of `tokens`, each named by its sequence hash.
FeedBatch AStore(uint64_t sequence, const std::vector<TokenId>& tokens, double ts_seconds = 1,
                 bool by_hash = false) {
  auto batch = std::make_shared<DecodedBatch>();
  batch->raw.ts_seconds = ts_seconds;
  RawEvent event;
  event.kind = RawKind::kStored;
  event.block_size_tokens = kBlockSize;
  const KvEvent core = StoredEvent(tokens, {});
  for (const StoredBlock& block : std::get<Stored>(core.data).blocks) {
    batch->raw.hashes.push_back(static_cast<uint64_t>(block.engine_hash));
    if (by_hash) batch->raw.local_hashes.push_back(block.local_hash);
  }
  if (!by_hash) batch->raw.tokens = tokens;
  event.hashes.count = static_cast<uint32_t>(batch->raw.hashes.size());
  event.tokens.count = static_cast<uint32_t>(batch->raw.tokens.size());
  event.local_hashes.count = static_cast<uint32_t>(batch->raw.local_hashes.size());
  batch->raw.events.push_back(event);
  return {.mark = {sequence, ts_seconds}, .decoded = batch};
}

FeedBatch Nothing(uint64_t sequence, double ts_seconds = 1) {
  auto batch = std::make_shared<DecodedBatch>();
  batch->raw.ts_seconds = ts_seconds;
  return {.mark = {sequence, ts_seconds}, .decoded = batch};
}

class PublishedFeedsTest : public ::testing::Test {
 protected:
  PublishedFeedsTest() {
    clock_.Set(std::chrono::hours(1));
    registry_.AddListener(&feeds_);
    EXPECT_TRUE(registry_.Register(AWorker(1, 5)).ok());
  }

  std::shared_ptr<PublishStream> Open(PublishStart start) {
    auto stream = feeds_.Open(start, [this] { ++wakes_; });
    EXPECT_TRUE(stream.ok()) << stream.status();
    return stream.ok() ? *stream : nullptr;
  }
  std::shared_ptr<PublishStream> OpenWithReplay() {
    return Open({.target = TargetOf(1), .can_replay = true});
  }
  std::shared_ptr<PublishStream> OpenWithoutReplay() { return Open({.target = TargetOf(1)}); }
  absl::Status OpenError(const PublishStart& start) {
    return feeds_.Open(start, [] {}).status();
  }

  // Must be there.
  PublishStatus News(PublishStream* stream) {
    const auto status = stream->TakeStatus();
    EXPECT_TRUE(status) << "no news";
    return status.value_or(PublishStatus{});
  }
  void Answer(PublishStream* stream, const PublishStatus& status,
              const std::vector<FeedBatch>& history) {
    ASSERT_TRUE(status.replay) << "no replay was asked for";
    for (const FeedBatch& batch : history) {
      if (batch.mark.sequence >= status.replay->from_sequence) {
        stream->OnReplayed(status.replay->id, batch);
      }
    }
    stream->OnReplayEnd(status.replay->id);
  }
  uint32_t Overlap(const std::vector<TokenId>& tokens) const {
    return OverlapOf(router_, tokens, TargetOf(1));
  }
  FeedReport OnlyReport() const {
    const auto reports = monitor_.Reports();
    EXPECT_EQ(reports.size(), 1u);
    return reports.empty() ? FeedReport{} : reports.front();
  }

  ManualClock clock_;
  Router router_{RouterConfig(), nullptr};
  WorkerRegistry registry_{&router_};
  FeedMonitor monitor_;
  PublishedFeeds feeds_{{.replay_timeout = seconds(5)}, &router_, &monitor_, &clock_};
  int wakes_ = 0;
  const std::vector<TokenId> a_ = TokensFrom(0, 64);
  const std::vector<TokenId> b_ = TokensFrom(1'000, 64);
};

TEST_F(PublishedFeedsTest, BatchesAreAppliedAndAcknowledged) {
  const auto stream = OpenWithoutReplay();
  PublishStatus status = News(stream.get());
  EXPECT_EQ(status.state, FeedState::kLive);
  EXPECT_FALSE(status.acknowledged_sequence);
  EXPECT_FALSE(status.replay);
  EXPECT_FALSE(stream->TakeStatus()) << "told once";
  stream->OnLive(AStore(0, a_));
  stream->OnLive(AStore(1, b_, 1, /*by_hash=*/true));
  EXPECT_EQ(News(stream.get()).acknowledged_sequence, 1u) << "the latest, not each";
  EXPECT_EQ(Overlap(a_), 4u);
  EXPECT_EQ(Overlap(b_), 4u) << "hashes name the same content as tokens";
  feeds_.Tick();
  EXPECT_EQ(OnlyReport().state, FeedState::kLive);
  EXPECT_EQ(wakes_, 0) << "nothing that its own messages did not bring";
}

TEST_F(PublishedFeedsTest, ANewStreamIsAskedForItsHistory) {
  const auto stream = OpenWithReplay();
  PublishStatus status = News(stream.get());
  EXPECT_EQ(status.state, FeedState::kRecovering);
  EXPECT_FALSE(feeds_.InitialRecoveryDone());
  stream->OnLive(AStore(1, b_));  // meanwhile
  Answer(stream.get(), status, {AStore(0, a_), AStore(1, b_)});
  EXPECT_TRUE(feeds_.InitialRecoveryDone());
  status = News(stream.get());
  EXPECT_EQ(status.state, FeedState::kLive);
  EXPECT_EQ(status.acknowledged_sequence, 1u);
  EXPECT_EQ(Overlap(a_) + Overlap(b_), 8u);
}

TEST_F(PublishedFeedsTest, AGapIsAskedForFromTheLastAppliedBatchOn) {
  const auto stream = OpenWithReplay();
  Answer(stream.get(), News(stream.get()), {});
  stream->OnLive(Nothing(0));
  stream->OnLive(AStore(2, b_));
  const PublishStatus status = News(stream.get());
  EXPECT_EQ(status.state, FeedState::kRecovering);
  EXPECT_EQ(status.acknowledged_sequence, 0u);
  ASSERT_TRUE(status.replay);
  EXPECT_EQ(status.replay->from_sequence, 0u);
  EXPECT_EQ(Overlap(b_), 0u) << "it waits";
  Answer(stream.get(), status, {Nothing(0), AStore(1, a_), AStore(2, b_)});
  EXPECT_EQ(News(stream.get()).acknowledged_sequence, 2u);
  EXPECT_EQ(Overlap(a_) + Overlap(b_), 8u);
  EXPECT_EQ(OnlyReport().counters.gaps, 1u);
}

TEST_F(PublishedFeedsTest, AGapThatCannotBeFilledDropsTheBlocks) {
  const auto stream = OpenWithoutReplay();
  stream->OnLive(AStore(0, a_));
  stream->OnLive(AStore(2, b_));
  const PublishStatus status = News(stream.get());
  EXPECT_EQ(status.state, FeedState::kDegraded);
  EXPECT_NE(status.detail, "");
  EXPECT_EQ(Overlap(a_), 0u);
  EXPECT_EQ(Overlap(b_), 4u);
}

TEST_F(PublishedFeedsTest, AnUnansweredReplayTimesOutAndThePublisherIsTold) {
  const auto stream = OpenWithReplay();
  const PublishStatus first = News(stream.get());
  stream->OnLive(AStore(7, a_));
  EXPECT_FALSE(stream->TakeStatus()) << "it waits";
  clock_.Advance(seconds(4));
  feeds_.Tick();
  EXPECT_EQ(wakes_, 0);
  clock_.Advance(seconds(2));
  feeds_.Tick();
  EXPECT_EQ(wakes_, 1);
  const PublishStatus status = News(stream.get());
  EXPECT_EQ(status.state, FeedState::kDegraded);
  EXPECT_EQ(Overlap(a_), 4u) << "it goes on from what is there";
  EXPECT_TRUE(feeds_.InitialRecoveryDone());
  EXPECT_EQ(OnlyReport().counters.replays_failed, 1u);
  // The answer comes after all: void.
  Answer(stream.get(), first, {AStore(0, b_)});
  EXPECT_EQ(Overlap(b_), 0u);
  // And later it is asked again.
  clock_.Advance(std::chrono::minutes(2));
  feeds_.Tick();
  EXPECT_EQ(wakes_, 2);
  const PublishStatus repair = News(stream.get());
  ASSERT_TRUE(repair.replay);
  EXPECT_NE(repair.replay->id, first.replay->id);
  stream->OnReplayed(first.replay->id, AStore(0, b_));
  EXPECT_EQ(Overlap(b_), 0u) << "of an older replay";
  std::vector<FeedBatch> history = {AStore(0, b_)};
  for (uint64_t sequence = 1; sequence < 7; ++sequence) history.push_back(Nothing(sequence));
  history.push_back(AStore(7, a_));
  Answer(stream.get(), repair, history);
  EXPECT_EQ(News(stream.get()).state, FeedState::kLive);
  EXPECT_EQ(Overlap(b_), 4u);
}

TEST_F(PublishedFeedsTest, ATimeOutThatChangesNoBlockIsReportedToo) {
  const auto stream = OpenWithReplay();
  EXPECT_EQ(OnlyReport().state, FeedState::kRecovering);
  clock_.Advance(seconds(6));
  feeds_.Tick();
  EXPECT_EQ(News(stream.get()).state, FeedState::kDegraded);
  EXPECT_EQ(OnlyReport().state, FeedState::kDegraded) << "others are told what the publisher is";
  EXPECT_FALSE(OnlyReport().detail.empty());
  EXPECT_EQ(OnlyReport().counters.replays_failed, 1u);
}

TEST_F(PublishedFeedsTest, DuplicatesAreSkippedAndALowerSequenceIsARestart) {
  const auto stream = OpenWithoutReplay();
  stream->OnLive(AStore(0, a_, 1));
  stream->OnLive(AStore(1, b_, 2));
  stream->OnLive(AStore(1, b_, 2));
  EXPECT_EQ(News(stream.get()).skipped, 1u);
  EXPECT_EQ(Overlap(a_), 4u);
  stream->OnLive(AStore(0, b_, 3));
  EXPECT_EQ(Overlap(a_), 0u);
  EXPECT_EQ(Overlap(b_), 4u);
  clock_.Advance(seconds(1));
  feeds_.Tick();
  EXPECT_EQ(OnlyReport().counters.restarts, 1u);
}

TEST_F(PublishedFeedsTest, ABrokenStreamLeavesTheBlocksAndTheNextOneGoesOn) {
  auto stream = OpenWithReplay();
  Answer(stream.get(), News(stream.get()), {});
  stream->OnLive(AStore(0, a_));
  stream.reset();
  EXPECT_EQ(OnlyReport().state, FeedState::kConnecting);
  EXPECT_EQ(Overlap(a_), 4u);
  EXPECT_TRUE(feeds_.InitialRecoveryDone());

  stream = OpenWithReplay();
  const PublishStatus status = News(stream.get());
  ASSERT_TRUE(status.replay);
  EXPECT_EQ(status.replay->from_sequence, 0u);
  Answer(stream.get(), status, {AStore(0, a_), AStore(1, b_)});
  EXPECT_EQ(Overlap(a_) + Overlap(b_), 8u);
  EXPECT_EQ(OnlyReport().counters.reconnects, 1u);
  EXPECT_EQ(OnlyReport().counters.restarts, 0u);
}

TEST_F(PublishedFeedsTest, AReconnectOfAnotherEngineIsARestart) {
  auto stream = OpenWithReplay();
  Answer(stream.get(), News(stream.get()), {});
  stream->OnLive(AStore(0, a_, 1));
  stream = nullptr;
  stream = OpenWithReplay();
  PublishStatus status = News(stream.get());
  Answer(stream.get(), status, {AStore(0, b_, 2)});  // the same sequence, another time
  status = News(stream.get());
  ASSERT_TRUE(status.replay) << "its history from the beginning";
  Answer(stream.get(), status, {AStore(0, b_, 2)});
  EXPECT_EQ(Overlap(a_), 0u);
  EXPECT_EQ(Overlap(b_), 4u);
}

TEST_F(PublishedFeedsTest, WithoutReplayAReconnectDropsTheBlocks) {
  auto stream = OpenWithoutReplay();
  stream->OnLive(AStore(0, a_));
  stream = nullptr;
  stream = OpenWithoutReplay();
  EXPECT_EQ(Overlap(a_), 0u);
  stream->OnLive(AStore(5, b_));
  EXPECT_EQ(Overlap(b_), 4u);
  EXPECT_EQ(News(stream.get()).state, FeedState::kDegraded);
}

TEST_F(PublishedFeedsTest, ASecondStreamTakesOver) {
  const auto first = OpenWithReplay();
  Answer(first.get(), News(first.get()), {});
  first->OnLive(AStore(0, a_));
  const auto second = OpenWithReplay();
  EXPECT_EQ(wakes_, 1);
  EXPECT_EQ(first->Ended().code(), absl::StatusCode::kAborted);
  EXPECT_EQ(ErrorReasonOf(first->Ended()), ErrorReason::kFeedConflict);
  EXPECT_TRUE(second->Ended().ok());
  EXPECT_FALSE(first->TakeStatus());
  Answer(second.get(), News(second.get()), {AStore(0, a_)});
  first->OnLive(AStore(1, b_));
  first->Close();
  EXPECT_EQ(Overlap(b_), 0u) << "the first one has no say any more";
  EXPECT_EQ(OnlyReport().state, FeedState::kLive);
  EXPECT_EQ(Overlap(a_), 4u);
}

TEST_F(PublishedFeedsTest, AStreamWithOtherPropertiesBeginsAnew) {
  auto stream = OpenWithReplay();
  Answer(stream.get(), News(stream.get()), {AStore(0, a_)});
  stream->OnLive(AStore(1, a_));  // a second copy
  auto other = Open({.target = TargetOf(1), .counting = StoreCounting::kSet});
  EXPECT_EQ(ErrorReasonOf(stream->Ended()), ErrorReason::kFeedConflict);
  EXPECT_EQ(Overlap(a_), 0u);
  other->OnLive(AStore(0, a_));
  other->OnLive(AStore(1, a_));
  auto removal = std::make_shared<DecodedBatch>();
  for (const EngineHash hash : EngineHashesOf(a_)) {
    removal->raw.hashes.push_back(static_cast<uint64_t>(hash));
  }
  RawEvent& event = removal->raw.events.emplace_back();
  event.kind = RawKind::kRemoved;
  event.hashes = {0, 4};
  other->OnLive({.mark = {2, 1}, .decoded = removal});
  EXPECT_EQ(Overlap(a_), 0u) << "a set: one removal is enough";
  clock_.Advance(seconds(1));
  feeds_.Tick();
  EXPECT_EQ(monitor_.Totals().batches_applied, 5u) << "totals outlive a feed";
}

TEST_F(PublishedFeedsTest, WhoMayNotPublishIsTold) {
  EXPECT_EQ(ErrorReasonOf(OpenError({.target = TargetOf(2)})), ErrorReason::kUnknownWorker);
  EXPECT_EQ(OpenError({.target = TargetOf(2)}).code(), absl::StatusCode::kNotFound);
  EXPECT_EQ(ErrorReasonOf(OpenError({.target = TargetOf(1, 1)})), ErrorReason::kInvalidRequest);
  for (const uint64_t incarnation : {4, 6}) {
    EXPECT_EQ(
        ErrorReasonOf(OpenError({.target = TargetOf(1), .incarnation = Incarnation{incarnation}})),
        ErrorReason::kIncarnationConflict);
  }
  EXPECT_TRUE(OpenError({.target = TargetOf(1), .incarnation = Incarnation{5}}).ok());
  WorkerSpec with_socket = AWorker(3, 1);
  with_socket.dp_size = 2;
  with_socket.events[1].live = "tcp://127.0.0.1:9";
  ASSERT_TRUE(registry_.Register(with_socket).ok());
  EXPECT_EQ(OpenError({.target = TargetOf(3, 1)}).code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_EQ(ErrorReasonOf(OpenError({.target = TargetOf(3, 1)})), ErrorReason::kFeedConflict);
  EXPECT_TRUE(OpenError({.target = TargetOf(3, 0)}).ok());
}

TEST_F(PublishedFeedsTest, AWorkerThatLeavesEndsItsStreamAndIsForgotten) {
  const auto stream = OpenWithoutReplay();
  stream->OnLive(AStore(0, a_));
  ASSERT_TRUE(registry_.Remove(WorkerId{1}).ok());
  EXPECT_EQ(ErrorReasonOf(stream->Ended()), ErrorReason::kUnknownWorker);
  EXPECT_TRUE(monitor_.Reports().empty());
  EXPECT_EQ(wakes_, 0) << "not under the registry's lock";
  feeds_.Tick();
  EXPECT_EQ(wakes_, 1);
  stream->OnLive(AStore(1, b_));
  feeds_.Tick();
  EXPECT_TRUE(monitor_.Reports().empty());
  EXPECT_EQ(ErrorReasonOf(OpenError({.target = TargetOf(1)})), ErrorReason::kUnknownWorker);
}

TEST_F(PublishedFeedsTest, AnotherLifeOfTheWorkerNeedsAnotherStream) {
  const auto stream = OpenWithoutReplay();
  stream->OnLive(AStore(0, a_));
  WorkerSpec moved = AWorker(1, 5);
  moved.address = "http://elsewhere";
  ASSERT_TRUE(registry_.Register(moved).ok());
  EXPECT_TRUE(stream->Ended().ok()) << "nothing that feeds are built on";
  EXPECT_EQ(Overlap(a_), 4u);
  ASSERT_TRUE(registry_.Register(AWorker(1, 6)).ok());
  EXPECT_EQ(stream->Ended().code(), absl::StatusCode::kAborted);
  EXPECT_EQ(ErrorReasonOf(stream->Ended()), ErrorReason::kFeedConflict);
  const auto next = OpenWithoutReplay();
  next->OnLive(AStore(0, b_));
  EXPECT_EQ(Overlap(a_), 0u);
  EXPECT_EQ(Overlap(b_), 4u);
}

TEST_F(PublishedFeedsTest, AnEndpointForTheRankEndsItsStreamAndTakesItsBlocks) {
  const auto stream = OpenWithoutReplay();
  stream->OnLive(AStore(0, a_));
  WorkerPatch patch;
  patch.events.emplace()[0].live = "tcp://127.0.0.1:9";
  ASSERT_TRUE(registry_.Update(WorkerId{1}, patch).ok());
  EXPECT_EQ(ErrorReasonOf(stream->Ended()), ErrorReason::kFeedConflict);
  EXPECT_EQ(Overlap(a_), 0u);
}

// Else the blocks that it takes out of the index at the end could be the stream's.
TEST_F(PublishedFeedsTest, AStreamWaitsUntilTheFormerSocketIsGivenUp) {
  monitor_.Update({.target = TargetOf(1), .state = FeedState::kLive, .detail = "", .counters = {}});
  const absl::Status refused = OpenError({.target = TargetOf(1)});
  EXPECT_EQ(refused.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_EQ(ErrorReasonOf(refused), ErrorReason::kFeedConflict);
  monitor_.Update({.target = TargetOf(1), .state = FeedState::kNone, .detail = "", .counters = {}});
  EXPECT_NE(OpenWithoutReplay(), nullptr);
}

TEST_F(PublishedFeedsTest, ItsReportIsShownInsteadOfTheSocketsNone) {
  const auto stream = OpenWithoutReplay();
  monitor_.Update({.target = TargetOf(1), .state = FeedState::kNone, .detail = "", .counters = {}});
  EXPECT_EQ(OnlyReport().state, FeedState::kLive);
  monitor_.Remove(TargetOf(1));
  EXPECT_EQ(OnlyReport().state, FeedState::kLive);
}

TEST_F(PublishedFeedsTest, StoppingEndsEveryStreamAndKeepsTheBlocks) {
  const auto stream = OpenWithoutReplay();
  stream->OnLive(AStore(0, a_));
  feeds_.Stop();
  EXPECT_EQ(wakes_, 1);
  EXPECT_EQ(ErrorReasonOf(stream->Ended()), ErrorReason::kShuttingDown);
  EXPECT_EQ(ErrorReasonOf(OpenError({.target = TargetOf(1)})), ErrorReason::kShuttingDown);
  EXPECT_EQ(Overlap(a_), 4u);
}

TEST_F(PublishedFeedsTest, BadMessagesAndRefusedBatchesAreCountedAndTheStreamGoesOn) {
  const auto stream = OpenWithoutReplay();
  stream->OnLive(AStore(0, a_));
  stream->OnBadMessage();
  auto refused = std::make_shared<DecodedBatch>();
  refused->refused = SkipReason::kOversized;
  stream->OnLive({.mark = {1, 1}, .decoded = refused});
  auto mismatch = AStore(2, b_, 1, /*by_hash=*/true);
  auto shorter = std::make_shared<DecodedBatch>(*mismatch.decoded);
  shorter->raw.events[0].local_hashes.count = 3;
  stream->OnLive({.mark = {2, 1}, .decoded = shorter});
  stream->OnLive(AStore(3, b_));
  const PublishStatus status = News(stream.get());
  EXPECT_EQ(status.acknowledged_sequence, 3u);
  EXPECT_EQ(status.skipped, 3u);
  EXPECT_EQ(status.state, FeedState::kDegraded) << "a whole batch is missing";
  EXPECT_EQ(Overlap(b_), 4u);
  clock_.Advance(seconds(1));
  feeds_.Tick();
  const SkipCounts skipped = monitor_.Totals().skipped;
  EXPECT_EQ(skipped[static_cast<size_t>(SkipReason::kBadFraming)], 1u);
  EXPECT_EQ(skipped[static_cast<size_t>(SkipReason::kOversized)], 1u);
  EXPECT_EQ(skipped[static_cast<size_t>(SkipReason::kLengthMismatch)], 1u);
}

}  // namespace
}  // namespace kvrouter
