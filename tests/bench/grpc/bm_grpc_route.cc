// What a decision costs behind gRPC. Client and server share this process, so CPU figures hold
// both; the claim is the ratio to BM_GrpcEmptyCall, a call that does nothing, in the same run.
// Benchmark's Time is per call of one closed-loop client.
#include <benchmark/benchmark.h>
#include <grpcpp/grpcpp.h>

#include <cstdint>
#include <memory>
#include <string>

#include "adapters/grpc/grpc_server.h"
#include "base/check.h"
#include "base/clock.h"
#include "kvrouter/v1/router.grpc.pb.h"

namespace kvrouter {
namespace {

constexpr int kWorkers = 8;
constexpr uint32_t kBlockTokens = 16;
constexpr uint64_t kWarmBlocks = 800;

// One daemon's worth of doors for all benchmarks: 8 workers, each holding the first 800 blocks of
// the prompt.
struct Daemon {
  Router router{RouterConfig(), nullptr};
  WorkerRegistry registry{&router};
  RoutingService service{ServiceConfig(), &router, &SteadyClock()};
  GrpcServer server{
      GrpcServerConfig(),
      {.routing = &service, .workers = &registry, .feeds = nullptr, .router = &router}};
  std::unique_ptr<v1::Router::Stub> stub;

  Daemon() {
    for (uint64_t id = 1; id <= kWorkers; ++id) AddWorker(WorkerId{id});
    KVR_CHECK(server.Start().ok(), "no server");
    stub = v1::Router::NewStub(
        grpc::CreateChannel(server.Address(), grpc::InsecureChannelCredentials()));
  }

  void AddWorker(WorkerId id) {
    WorkerSpec spec;
    spec.id = id;
    spec.address = "http://127.0.0.1:1";
    spec.block_size_tokens = kBlockTokens;
    const auto stored = registry.Register(spec);
    KVR_CHECK(stored.ok(), "worker refused");
    Stored blocks;
    for (uint64_t i = 1; i <= kWarmBlocks; ++i)
      blocks.blocks.push_back({EngineHash{i}, LocalBlockHash{i}});
    KvEvent event;
    event.target.worker = id;
    event.incarnation = stored->incarnation;
    event.data = std::move(blocks);
    KVR_CHECK(router.Apply(event).status == ApplyStatus::kOk, "blocks refused");
  }
};

Daemon& TheDaemon() {
  static Daemon daemon;
  return daemon;
}

void BM_GrpcEmptyCall(benchmark::State& state) {
  Daemon& daemon = TheDaemon();
  v1::FreeRequest request;
  request.set_request_id("nobody");
  for (auto _ : state) {
    grpc::ClientContext context;
    v1::FreeResponse response;
    KVR_CHECK(daemon.stub->Free(&context, request, &response).ok(), "call failed");
  }
}

void Route(benchmark::State& state, v1::RouteRequest request) {
  Daemon& daemon = TheDaemon();
  request.set_advise_only(true);
  uint64_t overlap_blocks = 0;
  for (auto _ : state) {
    grpc::ClientContext context;
    v1::RouteResponse response;
    KVR_CHECK(daemon.stub->Route(&context, request, &response).ok(), "call failed");
    overlap_blocks = response.overlap_blocks();
  }
  state.counters["overlap_blocks"] = static_cast<double>(overlap_blocks);
}

void BM_GrpcRouteHashes(benchmark::State& state) {
  v1::RouteRequest request;
  for (int64_t i = 1; i <= state.range(0); ++i) {
    request.mutable_hashes()->add_local_block_hashes(static_cast<uint64_t>(i));
  }
  request.mutable_hashes()->set_isl_tokens(static_cast<uint64_t>(state.range(0)) * kBlockTokens);
  Route(state, std::move(request));
}

void BM_GrpcRouteTokens(benchmark::State& state) {
  v1::RouteRequest request;
  request.mutable_token_ids()->mutable_ids()->Resize(static_cast<int>(state.range(0)), 7);
  Route(state, std::move(request));
}

BENCHMARK(BM_GrpcEmptyCall)->MeasureProcessCPUTime()->UseRealTime();
BENCHMARK(BM_GrpcRouteHashes)->Arg(16)->Arg(800)->MeasureProcessCPUTime()->UseRealTime();
BENCHMARK(BM_GrpcRouteTokens)->Arg(4096)->Arg(100'000)->MeasureProcessCPUTime()->UseRealTime();

}  // namespace
}  // namespace kvrouter

BENCHMARK_MAIN();
