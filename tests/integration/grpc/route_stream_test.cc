// RouteStream over a real socket, with a real Router behind it.
#include "adapters/grpc/route_stream.h"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <memory>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "integration/grpc/server_fixture.h"
#include "kvrouter/v1/router.grpc.pb.h"
#include "support/eventually.h"

namespace kvrouter {
namespace {

using Stream = grpc::ClientReaderWriter<v1::StreamRequest, v1::StreamResponse>;

class RouteStreamTest : public GrpcServerFixture {
 protected:
  // A stream with its context.
  struct Call {
    explicit Call(v1::Router::Stub* stub) {
      context.set_deadline(std::chrono::system_clock::now() + std::chrono::seconds(60));
      stream = stub->RouteStream(&context);
    }
    v1::StreamResponse Ask(const v1::StreamRequest& request) {
      v1::StreamResponse response;
      EXPECT_TRUE(stream->Write(request));
      EXPECT_TRUE(stream->Read(&response));
      return response;
    }
    grpc::Status EndCleanly() {
      stream->WritesDone();
      v1::StreamResponse response;
      while (stream->Read(&response)) {
      }
      return stream->Finish();
    }
    grpc::ClientContext context;
    std::unique_ptr<Stream> stream;
  };

  void SetUp() override {
    GrpcServerFixture::SetUp();
    stub_ = v1::Router::NewStub(Channel());
    for (uint64_t id = 1; id <= 2; ++id) {
      WorkerSpec spec;
      spec.id = WorkerId{id};
      spec.address = "http://10.0.0.1:8000";
      spec.block_size_tokens = 16;
      ASSERT_TRUE(registry_.Register(spec).ok());
    }
  }

  static v1::StreamRequest RouteMessage(const std::string& id, uint64_t correlation_id = 0) {
    v1::StreamRequest message;
    message.set_correlation_id(correlation_id);
    message.mutable_route()->set_request_id(id);
    for (uint32_t i = 0; i < 64; ++i) message.mutable_route()->mutable_token_ids()->add_ids(i);
    return message;
  }
  static v1::StreamRequest FreeMessage(const std::string& id) {
    v1::StreamRequest message;
    message.mutable_free()->set_request_id(id);
    return message;
  }

  uint64_t Bookings() const {
    uint64_t bookings = 0;
    for (const PartitionSnapshot& partition : router_.Snapshot()) bookings += partition.bookings;
    return bookings;
  }

  std::unique_ptr<v1::Router::Stub> stub_;
};

TEST_F(RouteStreamTest, ARequestLivesOnAStream) {
  Call call(stub_.get());
  const v1::StreamResponse routed = call.Ask(RouteMessage("r", 7));
  EXPECT_EQ(routed.correlation_id(), 7u);
  EXPECT_TRUE(routed.route().booked());
  EXPECT_EQ(routed.route().request_id(), "r");
  EXPECT_EQ(routed.route().candidates_size(), 2);
  v1::StreamRequest message;
  message.set_correlation_id(8);
  message.mutable_prefill_complete()->set_request_id("r");
  EXPECT_TRUE(call.Ask(message).has_prefill_complete());
  message.mutable_output_block()->set_request_id("r");
  EXPECT_TRUE(call.Ask(message).has_output_block());
  message.mutable_keep_alive()->set_request_id("r");
  const v1::StreamResponse kept = call.Ask(message);
  EXPECT_TRUE(kept.has_keep_alive());
  EXPECT_EQ(kept.correlation_id(), 8u);
  EXPECT_EQ(Bookings(), 1u);
  EXPECT_TRUE(call.Ask(FreeMessage("r")).free().released());
  EXPECT_FALSE(call.Ask(FreeMessage("r")).free().released());
  EXPECT_EQ(Bookings(), 0u);
  EXPECT_TRUE(call.EndCleanly().ok());
}

TEST_F(RouteStreamTest, ErrorsAreAnswersAndTheStreamGoesOn) {
  Call call(stub_.get());
  v1::StreamRequest empty;
  empty.set_correlation_id(1);
  const v1::StreamResponse nothing = call.Ask(empty);
  EXPECT_EQ(nothing.correlation_id(), 1u);
  EXPECT_EQ(nothing.error().code(), grpc::StatusCode::INVALID_ARGUMENT);
  v1::StreamRequest unknown;
  unknown.mutable_keep_alive()->set_request_id("never");
  EXPECT_EQ(call.Ask(unknown).error().detail().reason(), v1::ERROR_REASON_UNKNOWN_REQUEST);
  v1::StreamRequest no_prompt;
  no_prompt.mutable_route()->set_request_id("r");
  EXPECT_EQ(call.Ask(no_prompt).error().code(), grpc::StatusCode::INVALID_ARGUMENT);
  EXPECT_EQ(call.Ask(FreeMessage("")).error().code(), grpc::StatusCode::INVALID_ARGUMENT);
  const v1::StreamResponse first = call.Ask(RouteMessage("r"));
  const v1::StreamResponse second = call.Ask(RouteMessage("r"));
  EXPECT_EQ(second.error().code(), grpc::StatusCode::ALREADY_EXISTS);
  EXPECT_EQ(second.error().detail().original_decision().target().worker_id(),
            first.route().target().worker_id());
  EXPECT_EQ(Bookings(), 1u);
  EXPECT_TRUE(call.EndCleanly().ok());
}

TEST_F(RouteStreamTest, AnswersComeInOrderWhenManyMessagesAreUnderWay) {
  Call call(stub_.get());
  constexpr uint64_t kMessages = 500;
  std::thread writer([&] {
    for (uint64_t i = 0; i < kMessages; ++i) {
      EXPECT_TRUE(call.stream->Write(RouteMessage("r" + std::to_string(i), i)));
    }
    call.stream->WritesDone();
  });
  v1::StreamResponse response;
  for (uint64_t i = 0; i < kMessages; ++i) {
    ASSERT_TRUE(call.stream->Read(&response)) << i;
    EXPECT_EQ(response.correlation_id(), i);
    EXPECT_EQ(response.route().request_id(), "r" + std::to_string(i));
  }
  EXPECT_FALSE(call.stream->Read(&response));
  writer.join();
  EXPECT_TRUE(call.stream->Finish().ok());
  EXPECT_EQ(Bookings(), kMessages) << "a clean half-close keeps them";
}

TEST_F(RouteStreamTest, ABrokenStreamGivesBackItsBookingsAndNobodyElses) {
  Call other(stub_.get());
  other.Ask(RouteMessage("other"));
  {
    Call call(stub_.get());
    for (int i = 0; i < 20; ++i) call.Ask(RouteMessage("r" + std::to_string(i)));
    EXPECT_EQ(Bookings(), 21u);
    call.context.TryCancel();
    call.stream->Finish();
  }
  EXPECT_TRUE(Eventually([this] { return Bookings() == 1; })) << Bookings();
  EXPECT_EQ(service_.LiveRequests(), 1u);
  EXPECT_TRUE(other.Ask(FreeMessage("other")).free().released());
  EXPECT_TRUE(other.EndCleanly().ok());
}

TEST_F(RouteStreamTest, AHalfCloseKeepsBookingsWhichAnyOtherCallMayFree) {
  Call call(stub_.get());
  call.Ask(RouteMessage("r"));
  EXPECT_TRUE(call.EndCleanly().ok());
  EXPECT_EQ(Bookings(), 1u);
  Call later(stub_.get());
  EXPECT_TRUE(later.Ask(FreeMessage("r")).free().released());
  EXPECT_TRUE(later.EndCleanly().ok());
}

TEST_F(RouteStreamTest, AnIdFreedAndBookedAnewByAnotherIsNotGivenBack) {
  auto call = std::make_unique<Call>(stub_.get());
  call->Ask(RouteMessage("r"));
  Call other(stub_.get());
  EXPECT_TRUE(other.Ask(FreeMessage("r")).free().released());
  EXPECT_TRUE(other.Ask(RouteMessage("r")).route().booked());
  call->Ask(RouteMessage("mine"));
  call->context.TryCancel();
  call->stream->Finish();
  EXPECT_TRUE(Eventually([this] { return service_.KeepAlive("mine") != LifecycleResult::kDone; }));
  EXPECT_EQ(service_.KeepAlive("r"), LifecycleResult::kDone);
  EXPECT_EQ(Bookings(), 1u);
  EXPECT_TRUE(other.EndCleanly().ok());
}

TEST_F(RouteStreamTest, ACallerThatDoesNotReadIsNotReadFrom) {
  constexpr uint64_t kMessages = 40'000;
  Call call(stub_.get());
  v1::StreamRequest advice = RouteMessage("");
  advice.mutable_route()->set_advise_only(true);
  std::thread writer([&] {
    for (uint64_t i = 0; i < kMessages; ++i) {
      advice.set_correlation_id(i);
      ASSERT_TRUE(call.stream->Write(advice));
    }
    call.stream->WritesDone();
  });
  uint64_t before = 0;
  EXPECT_TRUE(Eventually([&] {
    const uint64_t now = service_.Counters().advice;
    const bool stands_still = now > 0 && now == before;
    before = now;
    std::this_thread::sleep_for(std::chrono::milliseconds(500));
    return stands_still;
  }));
  EXPECT_LT(service_.Counters().advice, kMessages / 2);
  v1::StreamResponse response;
  for (uint64_t i = 0; i < kMessages; ++i) {
    ASSERT_TRUE(call.stream->Read(&response));
    ASSERT_EQ(response.correlation_id(), i);
  }
  EXPECT_FALSE(call.stream->Read(&response));
  writer.join();
  EXPECT_TRUE(call.stream->Finish().ok());
  EXPECT_EQ(service_.Counters().advice, kMessages);
}

TEST_F(RouteStreamTest, ManyStreamsThatEndInAllWaysLeaveOnlyWhatCleanOnesKept) {
  constexpr uint64_t kSeed = 11;
  std::atomic<uint64_t> kept{0};
  std::vector<std::thread> threads;
  for (uint64_t t = 0; t < 4; ++t) {
    threads.emplace_back([&, t] {
      std::mt19937_64 random(kSeed + t);
      for (int s = 0; s < 25; ++s) {
        Call call(stub_.get());
        uint64_t live = 0;
        for (int i = 0; i < 10; ++i) {
          const std::string id =
              std::to_string(t) + "-" + std::to_string(s) + "-" + std::to_string(i);
          call.Ask(RouteMessage(id));
          ++live;
          if (random() % 3 == 0 && call.Ask(FreeMessage(id)).free().released()) --live;
        }
        if (random() % 2 == 0) {
          EXPECT_TRUE(call.EndCleanly().ok());
          kept += live;
        } else {
          if (random() % 2 == 0)
            call.stream->Write(RouteMessage("late"));  // its answer is not awaited
          call.context.TryCancel();
          call.stream->Finish();
        }
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_TRUE(Eventually([&] { return Bookings() == kept.load(); }))
      << Bookings() << " live, " << kept.load() << " kept, seed " << kSeed;
  EXPECT_GT(kept.load(), 0u);
}

TEST_F(RouteStreamTest, AStoppedServerEndsItsStreams) {
  Call call(stub_.get());
  call.Ask(RouteMessage("r"));
  server_.Stop(std::chrono::milliseconds(50));
  v1::StreamResponse response;
  EXPECT_FALSE(call.stream->Read(&response));
  EXPECT_FALSE(call.stream->Finish().ok());
  EXPECT_EQ(Bookings(), 0u) << "a cut stream is a broken one";
}

}  // namespace
}  // namespace kvrouter
