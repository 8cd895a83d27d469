#ifndef KVROUTER_TESTS_BENCH_CORE_BENCH_ROUTER_H_
#define KVROUTER_TESTS_BENCH_CORE_BENCH_ROUTER_H_

#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <ctime>
#include <numeric>
#include <string>
#include <vector>

#include "base/check.h"
#include "kvrouter/block_hash.h"
#include "kvrouter/router.h"

namespace kvrouter::bench {

inline constexpr uint32_t kBlockTokens = 16;

// One prompt, named in every way.
struct BenchPrompt {
  explicit BenchPrompt(size_t isl_tokens, TokenId first = 1) : tokens(isl_tokens) {
    std::iota(tokens.begin(), tokens.end(), first);
    AppendLocalBlockHashes(tokens, kBlockTokens, BlockSeed({}), &local);
    AppendSequenceHashes(local, &sequence);
  }
  HashPrompt AsHashes() const {
    return {.local_hashes = local, .sequence_hashes = sequence, .isl_tokens = tokens.size()};
  }

  std::vector<TokenId> tokens;
  std::vector<LocalBlockHash> local;
  std::vector<SequenceHash> sequence;
};

inline WorkerSpec BenchWorker(uint64_t id) {
  WorkerSpec spec;
  spec.id = WorkerId{id};
  spec.incarnation = Incarnation{1};
  spec.address = fmt::format("http://10.0.0.{}:8000", id);
  spec.block_size_tokens = kBlockTokens;
  return spec;
}

// The target's engine holds the prompt's first blocks.
inline void HoldPrompt(const BenchPrompt& prompt, size_t blocks, const Target& target,
                       Incarnation incarnation, Router* router) {
  Stored stored;
  for (size_t i = 0; i < blocks; ++i)
    stored.blocks.push_back({.engine_hash = EngineHash{i + 1}, .local_hash = prompt.local[i]});
  KvEvent event;
  event.target = target;
  event.incarnation = incarnation;
  event.data = std::move(stored);
  KVR_CHECK(router->Apply(event).status == ApplyStatus::kOk, "blocks refused");
}

// Workers 1 to `workers` of `ranks` ranks each, which hold different lengths of the prompt, up to a
// half of it.
inline void AddHolders(const BenchPrompt& prompt, uint64_t workers, uint32_t ranks,
                       Router* router) {
  for (uint64_t id = 1; id <= workers; ++id) {
    WorkerSpec spec = BenchWorker(id);
    spec.dp_size = ranks;
    KVR_CHECK(router->UpsertWorker(spec).ok(), "worker refused");
    for (uint32_t rank = 0; rank < ranks; ++rank) {
      HoldPrompt(prompt, prompt.local.size() * id / (2 * workers),
                 {.worker = spec.id, .dp_rank = rank}, spec.incarnation, router);
    }
  }
}

inline double ThreadCpuMicros() {
  timespec now{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) * 1e6 + static_cast<double>(now.tv_nsec) * 1e-3;
}

// What some way of doing it took, batch by batch, in CPU time of the thread. Ways that are compared
// take turns, so that whatever else the machine does hits all alike.
class Batches {
 public:
  template <typename Request>
  void Batch(int requests, const Request& request) {
    const double start = ThreadCpuMicros();
    for (int i = 0; i < requests; ++i) request();
    micros_per_request_.push_back((ThreadCpuMicros() - start) / requests);
  }

  double MedianMicros() const {
    std::vector<double> values = micros_per_request_;
    const auto middle = values.begin() + static_cast<ptrdiff_t>(values.size() / 2);
    std::nth_element(values.begin(), middle, values.end());
    return *middle;
  }

 private:
  std::vector<double> micros_per_request_;
};

}  // namespace kvrouter::bench

#endif  // KVROUTER_TESTS_BENCH_CORE_BENCH_ROUTER_H_
