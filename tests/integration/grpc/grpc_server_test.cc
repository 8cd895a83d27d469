// The gRPC doors over a real socket, with a real Router behind them.
#include "adapters/grpc/grpc_server.h"

#include <gmock/gmock.h>
#include <grpcpp/generic/generic_stub.h>
#include <grpcpp/grpcpp.h>
#include <grpcpp/health_check_service_interface.h>
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <map>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "base/clock.h"
#include "kvrouter/v1/router.grpc.pb.h"
#include "kvrouter/v1/workers.grpc.pb.h"

namespace kvrouter {
namespace {

using std::chrono::milliseconds;
using testing::HasSubstr;

constexpr uint64_t kBigId = 7587890043311737930u;  // not exact as a double

// Holds up decisions between booking and answer, on demand.
class HoldingSink : public DecisionSink {
 public:
  void OnDecision(const RouteRequest&, const RouteDecision&) override {
    decided_ = true;
    decided_.notify_all();
    held_.wait(true);
  }
  void Hold() {
    decided_ = false;
    held_ = true;
  }
  void AwaitDecision() { decided_.wait(false); }
  void LetGo() {
    held_ = false;
    held_.notify_all();
  }

 private:
  std::atomic<bool> held_{false};
  std::atomic<bool> decided_{false};
};

class GrpcServerTest : public testing::Test {
 protected:
  void SetUp() override {
    ASSERT_TRUE(server_.Start().ok());
    grpc::ChannelArguments arguments;
    arguments.SetMaxReceiveMessageSize(-1);
    channel_ =
        grpc::CreateCustomChannel(server_.Address(), grpc::InsecureChannelCredentials(), arguments);
    router_stub_ = v1::Router::NewStub(channel_);
    workers_stub_ = v1::Workers::NewStub(channel_);
  }

  static std::unique_ptr<grpc::ClientContext> Context() {
    auto context = std::make_unique<grpc::ClientContext>();
    context->set_deadline(std::chrono::system_clock::now() + std::chrono::seconds(30));
    return context;
  }

  void RegisterWorkers(int count) {
    for (int id = 1; id <= count; ++id) {
      WorkerSpec spec;
      spec.id = WorkerId{static_cast<uint64_t>(id)};
      spec.address = "http://10.0.0." + std::to_string(id) + ":8000";
      spec.block_size_tokens = 16;
      ASSERT_TRUE(registry_.Register(spec).ok());
    }
  }

  static v1::RouteRequest ARequest(const std::string& id, uint32_t first_token = 0) {
    v1::RouteRequest request;
    request.set_request_id(id);
    for (uint32_t i = 0; i < 64; ++i) request.mutable_token_ids()->add_ids(first_token + i);
    return request;
  }

  grpc::Status Route(const v1::RouteRequest& request, v1::RouteResponse* response,
                     v1::ErrorDetail* detail = nullptr) {
    const auto context = Context();
    const grpc::Status status = router_stub_->Route(context.get(), request, response);
    const auto& trailers = context->GetServerTrailingMetadata();
    const auto found = trailers.find("kvrouter-error-bin");
    if (detail != nullptr && found != trailers.end()) {
      EXPECT_TRUE(
          detail->ParseFromArray(found->second.data(), static_cast<int>(found->second.size())));
    }
    return status;
  }

  bool Free(const std::string& id) {
    v1::FreeRequest request;
    v1::FreeResponse response;
    request.set_request_id(id);
    EXPECT_TRUE(router_stub_->Free(Context().get(), request, &response).ok());
    return response.released();
  }

  void ExpectNoLoad() {
    for (const PartitionSnapshot& partition : router_.Snapshot()) {
      EXPECT_EQ(partition.bookings, 0u);
      for (const TargetLoad& load : partition.loads) {
        EXPECT_EQ(load.active_requests, 0u);
        EXPECT_EQ(load.active_prefill_tokens, 0u);
        EXPECT_EQ(load.active_decode_blocks, 0.0);
      }
    }
  }

  HoldingSink sink_;
  Router router_{RouterConfig(), &sink_};
  WorkerRegistry registry_{&router_};
  RoutingService service_{ServiceConfig(), &router_, &SteadyClock()};
  FeedMonitor feeds_;
  GrpcServer server_{
      GrpcServerConfig(),
      {.routing = &service_, .workers = &registry_, .feeds = &feeds_, .router = &router_}};
  std::shared_ptr<grpc::Channel> channel_;
  std::unique_ptr<v1::Router::Stub> router_stub_;
  std::unique_ptr<v1::Workers::Stub> workers_stub_;
};

TEST_F(GrpcServerTest, ARequestLivesFromRouteToFree) {
  RegisterWorkers(1);
  v1::RouteResponse response;
  ASSERT_TRUE(Route(ARequest("r"), &response).ok());
  EXPECT_EQ(response.request_id(), "r");
  EXPECT_EQ(response.target().worker_id(), 1u);
  EXPECT_EQ(response.address(), "http://10.0.0.1:8000");
  EXPECT_GT(response.incarnation(), 0u);
  EXPECT_EQ(response.plan(), v1::PLAN_LOCAL);
  EXPECT_EQ(response.reason(), v1::DECISION_REASON_ONLY_CANDIDATE);
  EXPECT_TRUE(response.booked());
  EXPECT_EQ(response.isl_blocks(), 4u);
  EXPECT_EQ(response.isl_tokens(), 64u);
  EXPECT_EQ(response.block_size_tokens(), 16u);
  ASSERT_EQ(response.candidates_size(), 1);

  v1::LoadsResponse loads;
  ASSERT_TRUE(router_stub_->Loads(Context().get(), {}, &loads).ok());
  ASSERT_EQ(loads.partitions_size(), 1);
  EXPECT_EQ(loads.partitions(0).bookings(), 1u);
  EXPECT_EQ(loads.partitions(0).targets(0).active_prefill_tokens(), 64u);

  v1::PrefillCompleteRequest prefill;
  v1::PrefillCompleteResponse prefill_done;
  prefill.set_request_id("r");
  EXPECT_TRUE(router_stub_->PrefillComplete(Context().get(), prefill, &prefill_done).ok());
  v1::OutputBlockRequest output;
  v1::OutputBlockResponse output_done;
  output.set_request_id("r");
  output.set_output_tokens(20);
  EXPECT_TRUE(router_stub_->OutputBlock(Context().get(), output, &output_done).ok());
  output.clear_output_tokens();
  EXPECT_TRUE(router_stub_->OutputBlock(Context().get(), output, &output_done).ok());
  v1::KeepAliveRequest alive;
  v1::KeepAliveResponse alive_done;
  alive.set_request_id("r");
  EXPECT_TRUE(router_stub_->KeepAlive(Context().get(), alive, &alive_done).ok());
  EXPECT_TRUE(Free("r"));
  EXPECT_FALSE(Free("r"));
  ExpectNoLoad();
}

TEST_F(GrpcServerTest, LostReplyIsFoundAgainUnderTheSameId) {
  RegisterWorkers(4);
  v1::RouteResponse first, second;
  ASSERT_TRUE(Route(ARequest("r"), &first).ok());
  v1::ErrorDetail detail;
  const grpc::Status status = Route(ARequest("r"), &second, &detail);
  EXPECT_EQ(status.error_code(), grpc::StatusCode::ALREADY_EXISTS);
  EXPECT_EQ(detail.reason(), v1::ERROR_REASON_DUPLICATE_REQUEST);
  first.clear_candidates();
  EXPECT_EQ(detail.original_decision().DebugString(), first.DebugString());
}

TEST_F(GrpcServerTest, AdviceIsReportedAsSuchAndBooksNothing) {
  RegisterWorkers(2);
  v1::RouteRequest request = ARequest("");
  request.set_advise_only(true);
  v1::RouteResponse response;
  ASSERT_TRUE(Route(request, &response).ok());
  EXPECT_FALSE(response.booked());
  EXPECT_FALSE(response.request_id().empty());
  ExpectNoLoad();
}

// B27 over the wire: decisions that run at the same time must see each other.
TEST_F(GrpcServerTest, B27_BurstSpreadsOverEqualWorkers) {
  constexpr int kWorkers = 8, kThreads = 8, kPerThread = 8;
  RegisterWorkers(kWorkers);
  std::vector<std::map<uint64_t, int>> counts(kThreads);
  {
    std::vector<std::jthread> threads;
    for (int t = 0; t < kThreads; ++t) {
      threads.emplace_back([&, t] {
        for (int i = 0; i < kPerThread; ++i) {
          const int n = t * kPerThread + i;
          v1::RouteResponse response;
          EXPECT_TRUE(
              Route(ARequest("r" + std::to_string(n), static_cast<uint32_t>(n) * 1000), &response)
                  .ok());
          ++counts[t][response.target().worker_id()];
        }
      });
    }
  }
  std::map<uint64_t, int> total;
  for (const auto& count : counts) {
    for (const auto& [worker, n] : count) total[worker] += n;
  }
  for (uint64_t worker = 1; worker <= kWorkers; ++worker) {
    EXPECT_EQ(total[worker], kThreads * kPerThread / kWorkers) << "worker " << worker;
  }
}

// B36 over the wire; the service's own test does a million rounds.
TEST_F(GrpcServerTest, B36_ErrorPathsAndDoubleFreesLeaveNoLoad) {
  RegisterWorkers(4);
  constexpr int kRounds = 10'000;
  for (int i = 0; i < kRounds; ++i) {
    const std::string id = "r" + std::to_string(i);
    v1::RouteResponse response;
    switch (i % 3) {
      case 0:  // freed before the prefill completed
        ASSERT_TRUE(Route(ARequest(id), &response).ok());
        ASSERT_TRUE(Free(id));
        break;
      case 1: {  // freed twice
        ASSERT_TRUE(Route(ARequest(id), &response).ok());
        v1::PrefillCompleteRequest prefill;
        v1::PrefillCompleteResponse done;
        prefill.set_request_id(id);
        ASSERT_TRUE(router_stub_->PrefillComplete(Context().get(), prefill, &done).ok());
        ASSERT_TRUE(Free(id));
        ASSERT_FALSE(Free(id));
        break;
      }
      default:
        ASSERT_FALSE(Free(id)) << "never routed";
    }
  }
  ExpectNoLoad();
  EXPECT_EQ(service_.LiveRequests(), 0u);
  EXPECT_EQ(service_.Counters().requests_started, service_.Counters().requests_finished);
}

TEST_F(GrpcServerTest, ReadinessAndLivenessAreTwoHealthNames) {
  const auto check = [&](const std::string& name) {
    // The health messages are not generated here: field 1 of both is all there is.
    grpc::GenericStub stub(channel_);
    const std::string wire =
        name.empty() ? "" : std::string("\x0a") + static_cast<char>(name.size()) + name;
    const grpc::Slice slice(wire);
    const grpc::ByteBuffer request(&slice, 1);
    grpc::ByteBuffer response;
    const auto context = Context();
    std::atomic<bool> done{false};
    grpc::Status result;
    stub.UnaryCall(context.get(), "/grpc.health.v1.Health/Check", {}, &request, &response,
                   [&](grpc::Status status) {
                     result = std::move(status);
                     done = true;
                     done.notify_all();
                   });
    done.wait(false);
    if (!result.ok()) return std::string("code " + std::to_string(result.error_code()));
    std::vector<grpc::Slice> slices;
    EXPECT_TRUE(response.Dump(&slices).ok());
    std::string bytes;
    for (const grpc::Slice& s : slices)
      bytes.append(reinterpret_cast<const char*>(s.begin()), s.size());
    return bytes == std::string("\x08\x01") ? std::string("serving") : std::string("not serving");
  };
  EXPECT_EQ(check(""), "serving");
  EXPECT_EQ(check("kvrouter.v1.Router"), "not serving");
  server_.SetServing(true);
  EXPECT_EQ(check("kvrouter.v1.Router"), "serving");
  server_.SetServing(false);
  EXPECT_EQ(check("kvrouter.v1.Router"), "not serving");
  EXPECT_EQ(check("nobody"), "code 5");
}

TEST_F(GrpcServerTest, TakenPortIsOneClearError) {
  GrpcServerConfig config;
  config.listen = server_.Address();
  GrpcServer second(
      config, {.routing = &service_, .workers = &registry_, .feeds = nullptr, .router = &router_});
  const absl::Status status = second.Start();
  EXPECT_EQ(status.code(), absl::StatusCode::kUnavailable);
  EXPECT_EQ(std::string(status.message().data(), status.message().size()),
            "cannot listen on " + server_.Address() + ": Address already in use");
}

TEST_F(GrpcServerTest, BadListenAddressesAreErrors) {
  for (const char* bad : {"nonsense", "127.0.0.1:99999", "192.0.2.1:0", "no-such-host.invalid:0"}) {
    GrpcServerConfig config;
    config.listen = bad;
    GrpcServer server(
        config,
        {.routing = &service_, .workers = &registry_, .feeds = nullptr, .router = &router_});
    const absl::Status status = server.Start();
    EXPECT_FALSE(status.ok()) << bad;
    EXPECT_THAT(std::string(status.message().data(), status.message().size()), HasSubstr(bad));
  }
}

TEST_F(GrpcServerTest, MillionAndAHalfTokensFitInOneRoute) {
  RegisterWorkers(1);
  v1::RouteRequest request;
  request.set_request_id("long");
  request.mutable_token_ids()->mutable_ids()->Resize(1'500'000, 7);
  v1::RouteResponse response;
  const grpc::Status status = Route(request, &response);
  ASSERT_TRUE(status.ok()) << status.error_message();
  EXPECT_EQ(response.isl_tokens(), 1'500'000u);
  EXPECT_EQ(response.isl_blocks(), 93'750u);
  EXPECT_TRUE(Free("long"));
}

TEST_F(GrpcServerTest, MessageOverTheLimitIsResourceExhausted) {
  GrpcServerConfig config;
  config.max_message_bytes = 4096;
  GrpcServer small(
      config, {.routing = &service_, .workers = &registry_, .feeds = nullptr, .router = &router_});
  ASSERT_TRUE(small.Start().ok());
  const auto stub =
      v1::Router::NewStub(grpc::CreateChannel(small.Address(), grpc::InsecureChannelCredentials()));
  v1::RouteRequest request;
  request.mutable_token_ids()->mutable_ids()->Resize(2000, 7);
  v1::RouteResponse response;
  EXPECT_EQ(stub->Route(Context().get(), request, &response).error_code(),
            grpc::StatusCode::RESOURCE_EXHAUSTED);
  ExpectNoLoad();
}

// Whoever gives up before the answer is there leaves no booking behind that nobody will ever free.
// The decision is held up until the caller has left; how soon the server hears of that is up to the
// kernel, so the hold grows until it does.
TEST_F(GrpcServerTest, CallCancelledBeforeItsAnswerKeepsNoBooking) {
  RegisterWorkers(1);
  uint64_t attempts = 0;
  for (milliseconds hold(10); hold < std::chrono::seconds(3); hold *= 2) {
    ++attempts;
    sink_.Hold();
    const auto context = Context();
    const v1::RouteRequest request = ARequest("gone");
    v1::RouteResponse response;
    std::atomic<bool> done{false};
    router_stub_->async()->Route(context.get(), &request, &response, [&](grpc::Status status) {
      EXPECT_EQ(status.error_code(), grpc::StatusCode::CANCELLED);
      done = true;
      done.notify_all();
    });
    sink_.AwaitDecision();
    context->TryCancel();
    done.wait(false);
    std::this_thread::sleep_for(hold);
    sink_.LetGo();
    const auto deadline = std::chrono::steady_clock::now() + std::chrono::milliseconds(500);
    while (std::chrono::steady_clock::now() < deadline) {
      const ServiceCounters counters = service_.Counters();
      if (counters.requests_started > 0 &&
          counters.requests_finished == counters.requests_started) {
        ExpectNoLoad();
        return;
      }
      std::this_thread::sleep_for(milliseconds(1));
    }
    Free("gone");
  }
  FAIL() << "the booking of a cancelled call was never given back";
}

TEST_F(GrpcServerTest, StopCutsOpenStreamsAfterTheGrace) {
  // A health Watch never ends by itself.
  grpc::GenericStub stub(channel_);
  const auto context = Context();
  grpc::CompletionQueue queue;
  const auto call = stub.PrepareCall(context.get(), "/grpc.health.v1.Health/Watch", &queue);
  call->StartCall(reinterpret_cast<void*>(1));
  void* tag = nullptr;
  bool ok = false;
  ASSERT_TRUE(queue.Next(&tag, &ok) && ok);
  const grpc::ByteBuffer empty(nullptr, 0);
  call->WriteLast(empty, {}, reinterpret_cast<void*>(2));
  ASSERT_TRUE(queue.Next(&tag, &ok) && ok);
  grpc::ByteBuffer first;
  call->Read(&first, reinterpret_cast<void*>(3));
  ASSERT_TRUE(queue.Next(&tag, &ok) && ok) << "the first status of the watch";

  const auto begin = std::chrono::steady_clock::now();
  server_.Stop(milliseconds(300));
  EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(5));
  context->TryCancel();
  queue.Shutdown();
  while (queue.Next(&tag, &ok)) {
  }
}

TEST_F(GrpcServerTest, StopIsIdempotentAndFreesThePort) {
  const std::string address = server_.Address();
  server_.Stop(milliseconds(100));
  server_.Stop(milliseconds(100));
  GrpcServerConfig config;
  config.listen = address;
  GrpcServer next(
      config, {.routing = &service_, .workers = &registry_, .feeds = nullptr, .router = &router_});
  EXPECT_TRUE(next.Start().ok());
}

TEST_F(GrpcServerTest, WorkerIdsAreExact) {
  v1::RegisterRequest request;
  request.mutable_worker()->set_worker_id(kBigId);
  request.mutable_worker()->set_address("http://h:1");
  request.mutable_worker()->set_block_size_tokens(16);
  v1::Worker worker;
  ASSERT_TRUE(workers_stub_->Register(Context().get(), request, &worker).ok());
  EXPECT_EQ(worker.spec().worker_id(), kBigId);
  v1::RouteResponse response;
  ASSERT_TRUE(Route(ARequest("r"), &response).ok());
  EXPECT_EQ(response.target().worker_id(), kBigId);
}

TEST_F(GrpcServerTest, ExplainTellsWhyOfAPastDecisionAndOfAdviceNow) {
  RegisterWorkers(3);
  v1::RouteRequest request = ARequest("r");
  request.add_excluded()->set_worker_id(2);
  v1::RouteResponse routed;
  ASSERT_TRUE(Route(request, &routed).ok());
  v1::ExplainRequest by_id;
  by_id.set_request_id("r");
  v1::ExplainResponse past;
  ASSERT_TRUE(router_stub_->Explain(Context().get(), by_id, &past).ok());
  EXPECT_EQ(past.decision().SerializeAsString(), routed.SerializeAsString())
      << "the answer of Route and its explanation are one structure";
  EXPECT_TRUE(past.live());
  EXPECT_GE(past.age_seconds(), 0);
  ASSERT_EQ(past.decision().candidates_size(), 2);
  ASSERT_EQ(past.decision().filtered_targets_size(), 1);
  EXPECT_EQ(past.decision().filtered_targets(0).target().worker_id(), 2u);
  EXPECT_EQ(past.decision().filtered_targets(0).reason(), v1::FILTER_REASON_EXCLUDED);
  EXPECT_EQ(past.decision().filtered().excluded(), 1u);
  EXPECT_EQ(past.decision().weights().overlap_score_credit(), 1);

  ASSERT_TRUE(Free("r"));
  v1::ExplainRequest now;
  *now.mutable_request() = ARequest("asked");
  v1::ExplainResponse advice;
  ASSERT_TRUE(router_stub_->Explain(Context().get(), now, &advice).ok());
  EXPECT_FALSE(advice.decision().booked());
  EXPECT_EQ(advice.decision().request_id(), "asked");
  EXPECT_EQ(advice.decision().candidates_size(), 3);
  ExpectNoLoad();
}

TEST_F(GrpcServerTest, MessagesThatAreNoRequestsAreCountedAsRefused) {
  constexpr auto kInvalid = static_cast<size_t>(ErrorReason::kInvalidRequest);
  v1::RouteRequest no_prompt;
  no_prompt.set_request_id("r");
  v1::RouteResponse response;
  EXPECT_EQ(Route(no_prompt, &response).error_code(), grpc::StatusCode::INVALID_ARGUMENT);
  EXPECT_EQ(service_.Counters().refused[kInvalid], 1u);
  v1::ExplainRequest explain;
  *explain.mutable_request() = no_prompt;
  v1::ExplainResponse explained;
  EXPECT_FALSE(router_stub_->Explain(Context().get(), explain, &explained).ok());
  EXPECT_EQ(service_.Counters().refused[kInvalid], 2u);
  v1::Worker worker;
  EXPECT_FALSE(workers_stub_->Register(Context().get(), v1::RegisterRequest(), &worker).ok());
  EXPECT_EQ(registry_.Refused()[kInvalid], 1u);
}

TEST_F(GrpcServerTest, ExplainKnowsNothingOfIdsItNeverSawAndWantsOneOrTheOther) {
  RegisterWorkers(1);
  v1::ExplainRequest request;
  v1::ExplainResponse response;
  EXPECT_EQ(router_stub_->Explain(Context().get(), request, &response).error_code(),
            grpc::StatusCode::INVALID_ARGUMENT);
  request.set_request_id("");
  EXPECT_EQ(router_stub_->Explain(Context().get(), request, &response).error_code(),
            grpc::StatusCode::INVALID_ARGUMENT);
  request.set_request_id("never");
  EXPECT_EQ(router_stub_->Explain(Context().get(), request, &response).error_code(),
            grpc::StatusCode::NOT_FOUND);
  request.mutable_request()->set_request_id("no prompt");
  EXPECT_EQ(router_stub_->Explain(Context().get(), request, &response).error_code(),
            grpc::StatusCode::INVALID_ARGUMENT);
}

}  // namespace
}  // namespace kvrouter
