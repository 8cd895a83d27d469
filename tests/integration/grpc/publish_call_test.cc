// KvEvents.Publish over a real socket.
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "integration/grpc/server_fixture.h"
#include "kvrouter/v1/kv_events.grpc.pb.h"
#include "support/core_builders.h"
#include "support/eventually.h"

namespace kvrouter {
namespace {

using namespace testing;  // NOLINT: the builders

void SetStore(v1::EventBatch* batch, uint64_t sequence, const std::vector<TokenId>& tokens) {
  batch->set_sequence(sequence);
  batch->set_timestamp_seconds(1000.5 + static_cast<double>(sequence));
  v1::BlocksStored* stored = batch->add_events()->mutable_stored();
  stored->set_block_size_tokens(kBlockSize);
  for (const EngineHash hash : EngineHashesOf(tokens)) {
    stored->add_engine_hashes(static_cast<uint64_t>(hash));
  }
  stored->mutable_token_ids()->Add(tokens.begin(), tokens.end());
}

class PublishCallTest : public ::testing::Test {
 protected:
  struct Publisher {
    explicit Publisher(v1::KvEvents::Stub* stub) {
      context.set_deadline(std::chrono::system_clock::now() + std::chrono::seconds(60));
      stream = stub->Publish(&context);
    }
    bool Start(uint64_t worker_id, bool can_replay = false) {
      v1::PublishRequest request;
      request.mutable_start()->set_worker_id(worker_id);
      request.mutable_start()->set_can_replay(can_replay);
      return stream->Write(request);
    }
    bool Live(uint64_t sequence, const std::vector<TokenId>& tokens) {
      v1::PublishRequest request;
      SetStore(request.mutable_live(), sequence, tokens);
      return stream->Write(request);
    }
    // Reads until the answer is as wanted; false if the stream ends before.
    bool ReadUntil(const std::function<bool(const v1::PublishResponse&)>& wanted) {
      while (stream->Read(&response)) {
        if (wanted(response)) return true;
      }
      return false;
    }
    bool ReadUntilAcknowledged(uint64_t sequence) {
      return ReadUntil([&](const v1::PublishResponse& r) {
        return r.has_acknowledged_sequence() && r.acknowledged_sequence() >= sequence;
      });
    }
    grpc::Status Finish() {
      stream->WritesDone();
      while (stream->Read(&response)) {
      }
      return stream->Finish();
    }
    ErrorReason Reason() const { return ReasonOf(context); }

    grpc::ClientContext context;
    std::unique_ptr<grpc::ClientReaderWriter<v1::PublishRequest, v1::PublishResponse>> stream;
    v1::PublishResponse response;
  };

  void SetUp() override {
    registry_.AddListener(&published_);
    ASSERT_TRUE(registry_.Register(AWorker(1, 5)).ok());
    ASSERT_TRUE(server_.Start().ok());
    grpc::ChannelArguments arguments;
    arguments.SetInt(GRPC_ARG_ENABLE_HTTP_PROXY, 0);
    stub_ = v1::KvEvents::NewStub(grpc::CreateCustomChannel(
        server_.Address(), grpc::InsecureChannelCredentials(), arguments));
    ticker_ = std::jthread([this](const std::stop_token& stop) {
      while (!stop.stop_requested()) {
        published_.Tick();
        std::this_thread::sleep_for(std::chrono::milliseconds(5));
      }
    });
  }
  void TearDown() override {
    server_.Stop(std::chrono::milliseconds(100));
    ticker_ = {};
  }

  uint32_t Overlap(const std::vector<TokenId>& tokens) const {
    return OverlapOf(router_, tokens, TargetOf(1));
  }

  Router router_{RouterConfig(), nullptr};
  WorkerRegistry registry_{&router_};
  RoutingService service_{ServiceConfig(), &router_, &SteadyClock()};
  FeedMonitor monitor_;
  PublishedFeeds published_{
      {.replay_timeout = std::chrono::milliseconds(300)}, &router_, &monitor_, &SteadyClock()};
  GrpcServer server_{GrpcServerConfig(),
                     {.routing = &service_,
                      .workers = &registry_,
                      .feeds = &monitor_,
                      .router = &router_,
                      .published = &published_}};
  std::unique_ptr<v1::KvEvents::Stub> stub_;
  std::jthread ticker_;
  const std::vector<TokenId> a_ = TokensFrom(0, 64);
  const std::vector<TokenId> b_ = TokensFrom(1'000, 64);
};

TEST_F(PublishCallTest, BatchesAreAppliedAndAcknowledgedWhileTheStreamRuns) {
  Publisher publisher(stub_.get());
  ASSERT_TRUE(publisher.Start(1));
  ASSERT_TRUE(publisher.ReadUntil([](const auto& r) { return r.state() == "live"; }));
  EXPECT_FALSE(publisher.response.has_acknowledged_sequence());
  ASSERT_TRUE(publisher.Live(0, a_));
  ASSERT_TRUE(publisher.ReadUntilAcknowledged(0));
  EXPECT_EQ(Overlap(a_), 4u);
  ASSERT_TRUE(publisher.Live(1, b_));
  ASSERT_TRUE(publisher.ReadUntilAcknowledged(1));
  EXPECT_EQ(Overlap(b_), 4u);
  EXPECT_TRUE(publisher.Finish().ok());
  EXPECT_EQ(Overlap(a_), 4u) << "the end of a stream takes no blocks";
}

TEST_F(PublishCallTest, AHistoryIsReplayedAndAGapAskedForAgain) {
  Publisher publisher(stub_.get());
  ASSERT_TRUE(publisher.Start(1, /*can_replay=*/true));
  const auto asked = [](const v1::PublishResponse& r) { return r.has_replay_from(); };
  const auto replay = [&](const std::vector<uint64_t>& sequences) {
    const uint64_t id = publisher.response.replay_from().replay_id();
    v1::PublishRequest request;
    for (const uint64_t sequence : sequences) {
      request.mutable_replayed()->set_replay_id(id);
      SetStore(request.mutable_replayed()->mutable_batch(), sequence, sequence == 0 ? a_ : b_);
      ASSERT_TRUE(publisher.stream->Write(request));
      request.Clear();
    }
    request.mutable_replay_end()->set_replay_id(id);
    ASSERT_TRUE(publisher.stream->Write(request));
  };
  ASSERT_TRUE(publisher.ReadUntil(asked));
  EXPECT_EQ(publisher.response.replay_from().sequence(), 0u);
  replay({0});
  ASSERT_TRUE(publisher.ReadUntil([](const auto& r) { return r.state() == "live"; }));
  ASSERT_TRUE(publisher.Live(2, TokensFrom(5'000, 64)));
  ASSERT_TRUE(publisher.ReadUntil(asked));
  EXPECT_EQ(publisher.response.replay_from().sequence(), 0u);
  EXPECT_EQ(publisher.response.state(), "recovering");
  replay({0, 1});
  ASSERT_TRUE(publisher.ReadUntilAcknowledged(2));
  EXPECT_EQ(Overlap(a_) + Overlap(b_), 8u);
  // And one that is not answered: told by time alone.
  ASSERT_TRUE(publisher.Live(9, b_));
  ASSERT_TRUE(publisher.ReadUntil([](const auto& r) { return r.state() == "degraded"; }));
  EXPECT_NE(publisher.response.detail(), "");
}

TEST_F(PublishCallTest, BadEventsAreCountedByReasonAndTheOthersApplied) {
  Publisher publisher(stub_.get());
  ASSERT_TRUE(publisher.Start(1));
  v1::PublishRequest request;
  v1::EventBatch* batch = request.mutable_live();
  batch->add_events();  // no kind
  SetStore(batch, 0, a_);
  v1::BlocksStored* both = batch->add_events()->mutable_stored();
  both->set_block_size_tokens(kBlockSize);
  both->add_engine_hashes(1);
  both->add_token_ids(1);
  both->add_local_block_hashes(1);
  v1::BlocksStored* many_items = batch->add_events()->mutable_stored();
  many_items->add_block_items();
  v1::BlocksStored* elsewhere = batch->add_events()->mutable_stored();
  elsewhere->add_engine_hashes(3);
  elsewhere->set_medium("punched cards");
  ASSERT_TRUE(publisher.stream->Write(request));
  ASSERT_TRUE(publisher.stream->Write(v1::PublishRequest()));  // no message
  request.Clear();
  SetStore(request.mutable_live(), UINT64_MAX, b_);
  ASSERT_TRUE(publisher.stream->Write(request));
  ASSERT_TRUE(publisher.Live(1, b_));
  ASSERT_TRUE(publisher.ReadUntilAcknowledged(1));
  EXPECT_EQ(publisher.response.skipped(), 6u);
  EXPECT_EQ(publisher.response.state(), "live");
  EXPECT_EQ(Overlap(a_) + Overlap(b_), 8u);
  ASSERT_TRUE(Eventually([&] { return monitor_.Totals().batches_applied == 2; }));
  const SkipCounts skipped = monitor_.Totals().skipped;
  EXPECT_EQ(skipped[static_cast<size_t>(SkipReason::kUnknownTag)], 1u);
  EXPECT_EQ(skipped[static_cast<size_t>(SkipReason::kBadEvent)], 2u);
  EXPECT_EQ(skipped[static_cast<size_t>(SkipReason::kUnknownMedium)], 1u);
  EXPECT_EQ(skipped[static_cast<size_t>(SkipReason::kBadFraming)], 2u);
}

TEST_F(PublishCallTest, ASecondStreamTakesOverFromOneThatIsIdle) {
  Publisher first(stub_.get());
  ASSERT_TRUE(first.Start(1));
  ASSERT_TRUE(first.ReadUntil([](const auto& r) { return r.state() == "live"; }));
  Publisher second(stub_.get());
  ASSERT_TRUE(second.Start(1));
  ASSERT_TRUE(second.ReadUntil([](const auto& r) { return r.state() == "live"; }));
  // The first one hears of it though it neither sends nor closes.
  EXPECT_FALSE(first.ReadUntil([](const auto&) { return false; }));
  EXPECT_EQ(first.stream->Finish().error_code(), grpc::StatusCode::ABORTED);
  EXPECT_EQ(first.Reason(), ErrorReason::kFeedConflict);
  ASSERT_TRUE(second.Live(0, a_));
  ASSERT_TRUE(second.ReadUntilAcknowledged(0));
  EXPECT_TRUE(second.Finish().ok());
}

TEST_F(PublishCallTest, ABrokenStreamIsSeenAndTheNextOneGoesOn) {
  {
    Publisher publisher(stub_.get());
    ASSERT_TRUE(publisher.Start(1));
    ASSERT_TRUE(publisher.Live(0, a_));
    ASSERT_TRUE(publisher.ReadUntilAcknowledged(0));
    publisher.context.TryCancel();
    EXPECT_FALSE(publisher.ReadUntil([](const auto&) { return false; }));
    publisher.stream->Finish();
  }
  ASSERT_TRUE(Eventually([&] {
    const auto reports = monitor_.Reports();
    return reports.size() == 1 && reports[0].state == FeedState::kConnecting;
  }));
  EXPECT_EQ(Overlap(a_), 4u);
  Publisher publisher(stub_.get());
  ASSERT_TRUE(publisher.Start(1));
  ASSERT_TRUE(publisher.Live(1, b_));
  ASSERT_TRUE(publisher.ReadUntilAcknowledged(1));
  EXPECT_EQ(publisher.response.state(), "degraded")
      << "without replay: what came before is given up";
}

TEST_F(PublishCallTest, ErrorsNameTheirReason) {
  const auto fails = [&](const v1::PublishRequest& request, grpc::StatusCode code,
                         ErrorReason reason) {
    Publisher publisher(stub_.get());
    publisher.stream->Write(request);
    EXPECT_FALSE(publisher.ReadUntil([](const auto&) { return false; }));
    EXPECT_EQ(publisher.stream->Finish().error_code(), code);
    EXPECT_EQ(publisher.Reason(), reason);
  };
  v1::PublishRequest request;
  request.mutable_start()->set_worker_id(9);
  fails(request, grpc::StatusCode::NOT_FOUND, ErrorReason::kUnknownWorker);
  request.mutable_start()->set_worker_id(1);
  request.mutable_start()->set_incarnation(4);
  fails(request, grpc::StatusCode::FAILED_PRECONDITION, ErrorReason::kIncarnationConflict);
  request.mutable_start()->set_incarnation(5);
  request.mutable_start()->set_dp_rank(1);
  fails(request, grpc::StatusCode::INVALID_ARGUMENT, ErrorReason::kInvalidRequest);
  request.mutable_start()->set_dp_rank(0);
  request.mutable_start()->set_store_counting(static_cast<v1::StoreCounting>(7));
  fails(request, grpc::StatusCode::INVALID_ARGUMENT, ErrorReason::kInvalidRequest);
  request.Clear();
  SetStore(request.mutable_live(), 0, a_);
  fails(request, grpc::StatusCode::INVALID_ARGUMENT, ErrorReason::kInvalidRequest);

  Publisher twice(stub_.get());
  ASSERT_TRUE(twice.Start(1));
  ASSERT_TRUE(twice.Start(1));
  EXPECT_FALSE(twice.ReadUntil([](const auto&) { return false; }));
  EXPECT_EQ(twice.stream->Finish().error_code(), grpc::StatusCode::INVALID_ARGUMENT);
  const auto refused = published_.Refused();
  EXPECT_EQ(refused[static_cast<size_t>(ErrorReason::kInvalidRequest)], 4u);
  EXPECT_EQ(refused[static_cast<size_t>(ErrorReason::kUnknownWorker)], 1u);
}

TEST_F(PublishCallTest, RemovingTheWorkerAndStoppingTheServerEndIdleStreams) {
  ASSERT_TRUE(registry_.Register(AWorker(2, 1)).ok());
  Publisher removed(stub_.get());
  ASSERT_TRUE(removed.Start(2));
  ASSERT_TRUE(removed.ReadUntil([](const auto& r) { return r.state() == "live"; }));
  ASSERT_TRUE(registry_.Remove(WorkerId{2}).ok());
  EXPECT_FALSE(removed.ReadUntil([](const auto&) { return false; }));
  EXPECT_EQ(removed.stream->Finish().error_code(), grpc::StatusCode::NOT_FOUND);
  EXPECT_EQ(removed.Reason(), ErrorReason::kUnknownWorker);

  Publisher stopped(stub_.get());
  ASSERT_TRUE(stopped.Start(1));
  ASSERT_TRUE(stopped.ReadUntil([](const auto& r) { return r.state() == "live"; }));
  std::jthread stop([this] { server_.Stop(std::chrono::seconds(30)); });
  EXPECT_FALSE(stopped.ReadUntil([](const auto&) { return false; }));
  EXPECT_EQ(stopped.stream->Finish().error_code(), grpc::StatusCode::UNAVAILABLE);
  EXPECT_EQ(stopped.Reason(), ErrorReason::kShuttingDown);
}

// A caller that never reads gets on, and is told the latest state when it does.
TEST_F(PublishCallTest, AnswersDoNotPileUp) {
  Publisher publisher(stub_.get());
  ASSERT_TRUE(publisher.Start(1));
  constexpr uint64_t kBatches = 20'000;
  v1::PublishRequest request;
  request.mutable_live()->set_timestamp_seconds(1);
  for (uint64_t sequence = 0; sequence < kBatches; ++sequence) {
    request.mutable_live()->set_sequence(sequence);
    ASSERT_TRUE(publisher.stream->Write(request));
  }
  ASSERT_TRUE(Eventually([&] { return monitor_.Totals().batches_applied == kBatches; }));
  uint64_t answers = 0;
  ASSERT_TRUE(publisher.ReadUntil([&](const v1::PublishResponse& r) {
    ++answers;
    return r.acknowledged_sequence() == kBatches - 1;
  }));
  EXPECT_TRUE(publisher.Finish().ok());
  RecordProperty("answers", static_cast<int>(answers));
}

}  // namespace
}  // namespace kvrouter
