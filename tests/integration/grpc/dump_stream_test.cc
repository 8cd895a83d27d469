// Router.Dump over a real socket.
#include <gtest/gtest.h>

#include <chrono>
#include <memory>
#include <thread>
#include <vector>

#include "integration/grpc/server_fixture.h"
#include "kvrouter/v1/router.grpc.pb.h"
#include "support/core_builders.h"

namespace kvrouter {
namespace {

using namespace testing;  // NOLINT: the builders

class DumpStreamTest : public GrpcServerFixture {
 protected:
  struct Dump {
    explicit Dump(v1::Router::Stub* stub, const v1::DumpRequest& request = {}) {
      context.set_deadline(std::chrono::system_clock::now() + std::chrono::seconds(60));
      reader = stub->Dump(&context, request);
    }
    // Whether a message came; then it is in `response`.
    bool Read() { return reader->Read(&response); }
    grpc::Status Finish() { return reader->Finish(); }
    ErrorReason Reason() const { return ReasonOf(context); }

    grpc::ClientContext context;
    std::unique_ptr<grpc::ClientReader<v1::DumpResponse>> reader;
    v1::DumpResponse response;
  };

  void SetUp() override {
    GrpcServerFixture::SetUp();
    grpc::ChannelArguments arguments;
    // Otherwise gRPC lets a connection that turns out to be fast buffer whole dumps on our side.
    arguments.SetInt(GRPC_ARG_HTTP2_BDP_PROBE, 0);
    stub_ = v1::Router::NewStub(Channel(arguments));
  }

  std::unique_ptr<v1::Router::Stub> stub_;
};

TEST_F(DumpStreamTest, ItHoldsEveryTargetsBlocksAndEndsWithTheCounts) {
  ASSERT_TRUE(router_.UpsertWorker(AWorker(1, 5)).ok());
  ASSERT_TRUE(router_.UpsertWorker(AWorker(2, 6)).ok());
  const auto tokens = TokensFrom(0, 16 * 600);
  router_.Apply(StoredEvent(tokens, TargetOf(1), 5));
  router_.Apply(StoredEvent(tokens, TargetOf(2), 6));
  router_.Apply(AnEvent(TargetOf(2), Removed{{EngineHashesOf(tokens)[500]}}, 6));

  Router copy(RouterConfig(), nullptr);
  ASSERT_TRUE(copy.UpsertWorker(AWorker(1, 5)).ok());
  ASSERT_TRUE(copy.UpsertWorker(AWorker(2, 6)).ok());
  Dump dump(stub_.get());
  uint64_t next_id = 0;
  v1::DumpCounts counts;
  while (dump.Read()) {
    EXPECT_FALSE(counts.IsInitialized() && counts.events() > 0) << "nothing follows the counts";
    for (const v1::DumpedEvent& event : dump.response.events()) {
      EXPECT_EQ(event.event_id(), next_id++);
      EXPECT_EQ(event.stored().block_size_tokens(), 16u);
      EXPECT_EQ(event.stored().medium(), "GPU");
      Stored stored;
      if (event.stored().has_parent_hash()) {
        stored.parent = EngineHash{event.stored().parent_hash()};
      }
      ASSERT_EQ(event.stored().engine_hashes_size(), event.stored().local_block_hashes_size());
      for (int i = 0; i < event.stored().engine_hashes_size(); ++i) {
        stored.blocks.push_back({EngineHash{event.stored().engine_hashes(i)},
                                 LocalBlockHash{event.stored().local_block_hashes(i)}});
      }
      const Target target{WorkerId{event.target().worker_id()}, event.target().dp_rank()};
      EXPECT_EQ(copy.Apply(AnEvent(target, stored, event.incarnation())).status, ApplyStatus::kOk);
    }
    if (dump.response.has_counts()) counts = dump.response.counts();
  }
  EXPECT_TRUE(dump.Finish().ok());
  EXPECT_EQ(counts.events(), next_id);
  EXPECT_EQ(counts.blocks(), 600u + 500u);
  EXPECT_EQ(counts.omitted_blocks(), 99u);
  for (const Target target : {TargetOf(1), TargetOf(2)}) {
    EXPECT_EQ(OverlapOf(copy, tokens, target), OverlapOf(router_, tokens, target));
  }
}

TEST_F(DumpStreamTest, AnEmptyPartitionIsJustCountsAndAnUnknownOneAnError) {
  ASSERT_TRUE(router_.UpsertWorker(AWorker(1, 5)).ok());
  Dump empty(stub_.get());
  ASSERT_TRUE(empty.Read());
  EXPECT_TRUE(empty.response.has_counts());
  EXPECT_EQ(empty.response.events_size(), 0);
  EXPECT_FALSE(empty.Read());
  EXPECT_TRUE(empty.Finish().ok());

  v1::DumpRequest request;
  request.set_model_name("other");
  Dump unknown(stub_.get(), request);
  EXPECT_FALSE(unknown.Read());
  EXPECT_EQ(unknown.Finish().error_code(), grpc::StatusCode::NOT_FOUND);
  EXPECT_EQ(unknown.Reason(), ErrorReason::kUnknownPartition);
}

// Far more than the sockets and gRPC buffer, so that the dumps are stuck half-way.
TEST_F(DumpStreamTest, ReadersThatDoNotReadHoldUpNothingButAFifthDump) {
  ASSERT_TRUE(router_.UpsertWorker(AWorker(1, 5)).ok());
  const auto tokens = TokensFrom(0, 16 * 500'000);
  router_.Apply(StoredEvent(tokens, TargetOf(1), 5));
  std::vector<std::unique_ptr<Dump>> stuck;
  for (int i = 0; i < 4; ++i) {
    stuck.push_back(std::make_unique<Dump>(stub_.get()));
    ASSERT_TRUE(stuck.back()->Read());
  }
  Dump fifth(stub_.get());
  EXPECT_FALSE(fifth.Read());
  EXPECT_EQ(fifth.Finish().error_code(), grpc::StatusCode::RESOURCE_EXHAUSTED);
  EXPECT_EQ(fifth.Reason(), ErrorReason::kLimitReached);
  EXPECT_EQ(service_.Counters().refused[static_cast<size_t>(ErrorReason::kLimitReached)], 1u);

  // No lock is held: events and lookups go on.
  auto hashes = EngineHashesOf(tokens);
  hashes.erase(hashes.begin(), hashes.begin() + 8);
  EXPECT_EQ(router_.Apply(AnEvent(TargetOf(1), Removed{std::move(hashes)}, 5)).status,
            ApplyStatus::kOk);
  EXPECT_EQ(OverlapOf(router_, tokens, TargetOf(1)), 8u);

  stuck[0]->context.TryCancel();  // its slot is free soon after
  const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(30);
  for (;;) {
    Dump again(stub_.get());
    if (again.Read()) {
      while (again.Read()) {
      }
      EXPECT_TRUE(again.Finish().ok());
      break;
    }
    EXPECT_EQ(again.Finish().error_code(), grpc::StatusCode::RESOURCE_EXHAUSTED);
    ASSERT_LT(std::chrono::steady_clock::now(), end) << "the cancelled dump kept its slot";
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  }
  // The stuck ones, read after all: what vanished meanwhile is left out.
  uint64_t events = 1;
  while (stuck[1]->Read()) events += stuck[1]->response.events_size() > 0;
  EXPECT_TRUE(stuck[1]->Finish().ok());
  EXPECT_LT(events, 500'000u / 256);
}

TEST_F(DumpStreamTest, AServerThatStopsEndsARunningDump) {
  ASSERT_TRUE(router_.UpsertWorker(AWorker(1, 5)).ok());
  router_.Apply(StoredEvent(TokensFrom(0, 16 * 500'000), TargetOf(1), 5));
  Dump dump(stub_.get());
  ASSERT_TRUE(dump.Read());
  server_.Stop(std::chrono::milliseconds(50));
  while (dump.Read()) {
  }
  EXPECT_FALSE(dump.Finish().ok());
}

}  // namespace
}  // namespace kvrouter
