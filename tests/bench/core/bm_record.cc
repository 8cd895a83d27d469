// What it costs the thread that decides to have another policy tried beside each decision, and to
// have each decision written down: Submit and Finish on the Router alone in three ways,
//
//   plain     neither
//   shadow    with a shadow policy of other weights
//   recorded  with the decision log: its record is made and queued; another thread writes
//
// on three routers that take turns, a batch each, so that whatever else the machine does hits all
// alike. Counters are medians over the batches, in CPU time of the thread.
#include <benchmark/benchmark.h>
#include <fmt/format.h>
#include <unistd.h>

#include <cstdio>
#include <numeric>
#include <string>
#include <utility>
#include <vector>

#include "adapters/decision_log/decision_log.h"
#include "base/check.h"
#include "bench_router.h"
#include "kvrouter/router.h"

namespace kvrouter {
namespace {

// A log that the machine forgets.
class LogOnDisk {
 public:
  LogOnDisk() : log_({.path = path_, .max_file_bytes = uint64_t{64} << 20, .files = 1}) {
    KVR_CHECK(log_.Start().ok(), "no log at {}", path_);
  }
  ~LogOnDisk() {
    log_.Stop();
    std::remove(path_.c_str());
  }
  DecisionLog* log() { return &log_; }

 private:
  const std::string path_ = fmt::format("/tmp/kvrouter-bm-record-{}", getpid());
  DecisionLog log_;
};

class Way {
 public:
  Way(uint64_t workers, bool with_shadow, DecisionRecorder* recorder)
      : router_(ConfigOf(with_shadow), nullptr, nullptr, recorder) {
    bench::AddHolders(prompt_, workers, /*ranks=*/1, &router_);
  }

  void Batch() {
    batches_.Batch(200, [this] { RouteAndFinish(); });
  }
  double MedianMicros() const { return batches_.MedianMicros(); }

 private:
  static RouterConfig ConfigOf(bool with_shadow) {
    RouterConfig config;
    if (!with_shadow) return config;
    config.shadow = ShadowPolicy{.weights = {}, .router_temperature = 0};
    config.shadow->weights.overlap_score_credit = 0.5;
    return config;
  }

  void RouteAndFinish() {
    RouteRequest request;
    request.request_id = "request-of-usual-length-0123456789abcdef";
    request.prompt = prompt_.AsHashes();
    const auto submission = router_.Submit(request, {});
    KVR_CHECK(submission.ok(), "not routed");
    router_.Finish(std::get<RouteDecision>(*submission).booking, {});
  }

  const bench::BenchPrompt prompt_{2048};
  Router router_;
  bench::Batches batches_;
};

void BM_Recorded(benchmark::State& state) {
  const auto workers = static_cast<uint64_t>(state.range(0));
  LogOnDisk disk;
  Way plain(workers, false, nullptr);
  Way shadow(workers, true, nullptr);
  Way recorded(workers, false, disk.log());
  for (auto _ : state) {
    for (Way* way : {&plain, &shadow, &recorded}) way->Batch();
  }
  const DecisionLog::Figures log = disk.log()->Read();
  state.counters["plain_us"] = plain.MedianMicros();
  state.counters["shadow_us"] = shadow.MedianMicros();
  state.counters["recorded_us"] = recorded.MedianMicros();
  state.counters["record_bytes"] =
      log.records == 0 ? 0 : static_cast<double>(log.bytes) / static_cast<double>(log.records);
  state.counters["dropped"] =
      static_cast<double>(std::accumulate(log.dropped.begin(), log.dropped.end(), uint64_t{0}));
}
BENCHMARK(BM_Recorded)->Arg(8)->Arg(64)->Arg(512);

}  // namespace
}  // namespace kvrouter

BENCHMARK_MAIN();
