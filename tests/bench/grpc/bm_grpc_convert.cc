// The parts of a Route call that are ours, without gRPC: parse the request, convert it, decide,
// convert the answer, serialise it. What bm_grpc_route shows beyond these is gRPC and the network.
#include <benchmark/benchmark.h>
#include <fmt/format.h>
#include <google/protobuf/arena.h>

#include <string>
#include <utility>

#include "adapters/grpc/answer_convert.h"
#include "adapters/grpc/request_convert.h"
#include "base/check.h"
#include "bench_fleet.h"
#include "bench_prompts.h"

namespace kvrouter::bench {
namespace {

constexpr int kWorkers = 8;

std::string BytesOf(Form form) {
  v1::RouteRequest request = RequestOf(form);
  request.set_request_id("b-00000000");
  return request.SerializeAsString();
}

void BM_ParseRequest(benchmark::State& state) {
  const std::string bytes = BytesOf(kForms[state.range(0)]);
  for (auto _ : state) {
    v1::RouteRequest request;
    KVR_CHECK(request.ParseFromString(bytes), "not parsed");
    benchmark::DoNotOptimize(request);
  }
}

void BM_ConvertRequest(benchmark::State& state) {
  const v1::RouteRequest request = RequestOf(kForms[state.range(0)]);
  for (auto _ : state) {
    auto input = FromProto(request);
    benchmark::DoNotOptimize(input);
  }
}

void BM_Decide(benchmark::State& state) {
  Fleet fleet(kWorkers);
  const v1::RouteRequest message = RequestOf(kForms[state.range(0)]);
  uint64_t n = 0;
  for (auto _ : state) {
    auto input = FromProto(message);
    input->request.request_id = fmt::format("b-{:08x}", ++n);
    std::string id;
    const auto decision = fleet.service.Route(std::move(input->request), &id);
    KVR_CHECK(decision.ok(), "not routed");
    fleet.service.Free(id);
  }
}

RouteDecision ADecision(Form form) {
  Fleet fleet(kWorkers);
  const v1::RouteRequest message = RequestOf(form);
  auto decision = fleet.service.Route(FromProto(message)->request);
  KVR_CHECK(decision.ok(), "not routed");
  return *std::move(decision);
}

// The answer's memory is new for each call, comes from an arena of the call, or is kept from call
// to call.
enum class Memory { kHeap, kArena, kKept };

void AnswerToBytes(benchmark::State& state, Memory memory) {
  const RouteDecision decision = ADecision(Form::kHashes2Kb);
  std::string bytes;
  v1::RouteResponse kept;
  for (auto _ : state) {
    char block[4096];
    google::protobuf::Arena arena(block, sizeof block);
    v1::RouteResponse own;
    v1::RouteResponse* answer = &own;
    if (memory == Memory::kArena) {
      answer = google::protobuf::Arena::CreateMessage<v1::RouteResponse>(&arena);
    } else if (memory == Memory::kKept) {
      answer = &kept;
      kept.Clear();
    }
    ToProto("b-00000000", decision, answer);
    answer->SerializeToString(&bytes);
    benchmark::DoNotOptimize(bytes);
  }
  state.counters["bytes"] = static_cast<double>(bytes.size());
}
void BM_AnswerOnHeap(benchmark::State& state) { AnswerToBytes(state, Memory::kHeap); }
void BM_AnswerOnArena(benchmark::State& state) { AnswerToBytes(state, Memory::kArena); }
void BM_AnswerKept(benchmark::State& state) { AnswerToBytes(state, Memory::kKept); }

BENCHMARK(BM_ParseRequest)->ArgName("tokens")->Arg(0)->Arg(1);
BENCHMARK(BM_ConvertRequest)->ArgName("tokens")->Arg(0)->Arg(1);
BENCHMARK(BM_Decide)->ArgName("tokens")->Arg(0)->Arg(1);
BENCHMARK(BM_AnswerOnHeap);
BENCHMARK(BM_AnswerOnArena);
BENCHMARK(BM_AnswerKept);

}  // namespace
}  // namespace kvrouter::bench

BENCHMARK_MAIN();
