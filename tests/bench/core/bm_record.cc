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

#include <algorithm>
#include <cstdio>
#include <ctime>
#include <numeric>
#include <string>
#include <utility>
#include <vector>

#include "adapters/decision_log/decision_log.h"
#include "base/check.h"
#include "kvrouter/block_hash.h"
#include "kvrouter/router.h"

namespace kvrouter {
namespace {

constexpr uint32_t kBlockTokens = 16;
constexpr size_t kPromptBlocks = 128;

double ThreadCpuMicros() {
  timespec now{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) * 1e6 + static_cast<double>(now.tv_nsec) * 1e-3;
}

double Median(std::vector<double>* values) {
  const auto middle = values->begin() + static_cast<ptrdiff_t>(values->size() / 2);
  std::nth_element(values->begin(), middle, values->end());
  return *middle;
}

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

// Workers that hold different lengths of one prompt.
class Way {
 public:
  Way(uint64_t workers, bool with_shadow, DecisionRecorder* recorder)
      : router_(ConfigOf(with_shadow), nullptr, nullptr, recorder) {
    std::vector<TokenId> tokens(kPromptBlocks * kBlockTokens);
    std::iota(tokens.begin(), tokens.end(), 1);
    AppendLocalBlockHashes(tokens, kBlockTokens, BlockSeed({}), &local_);
    AppendSequenceHashes(local_, &sequence_);
    for (uint64_t id = 1; id <= workers; ++id) AddWorker(id, kPromptBlocks * id / (2 * workers));
  }

  void Batch() {
    constexpr int kRequests = 200;
    const double start = ThreadCpuMicros();
    for (int i = 0; i < kRequests; ++i) RouteAndFinish();
    micros_.push_back((ThreadCpuMicros() - start) / kRequests);
  }
  double MedianMicros() { return Median(&micros_); }

 private:
  static RouterConfig ConfigOf(bool with_shadow) {
    RouterConfig config;
    if (!with_shadow) return config;
    config.shadow = ShadowPolicy{.weights = {}, .router_temperature = 0};
    config.shadow->weights.overlap_score_credit = 0.5;
    return config;
  }

  void AddWorker(uint64_t id, size_t held_blocks) {
    WorkerSpec spec;
    spec.id = WorkerId{id};
    spec.incarnation = Incarnation{1};
    spec.address = fmt::format("http://10.0.0.{}:8000", id);
    spec.block_size_tokens = kBlockTokens;
    KVR_CHECK(router_.UpsertWorker(spec).ok(), "worker refused");
    Stored stored;
    for (size_t i = 0; i < held_blocks; ++i)
      stored.blocks.push_back({.engine_hash = EngineHash{i + 1}, .local_hash = local_[i]});
    KvEvent event;
    event.target.worker = spec.id;
    event.incarnation = spec.incarnation;
    event.data = std::move(stored);
    KVR_CHECK(router_.Apply(event).status == ApplyStatus::kOk, "blocks refused");
  }

  void RouteAndFinish() {
    RouteRequest request;
    request.request_id = "request-of-usual-length-0123456789abcdef";
    request.prompt = HashPrompt{.local_hashes = local_,
                                .sequence_hashes = sequence_,
                                .isl_tokens = kPromptBlocks * kBlockTokens};
    const auto submission = router_.Submit(request, {});
    KVR_CHECK(submission.ok(), "not routed");
    router_.Finish(std::get<RouteDecision>(*submission).booking, {});
  }

  std::vector<LocalBlockHash> local_;
  std::vector<SequenceHash> sequence_;
  Router router_;
  std::vector<double> micros_;
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
