#ifndef KVROUTER_TESTS_BENCH_DISPATCH_BENCH_LOAD_H_
#define KVROUTER_TESTS_BENCH_DISPATCH_BENCH_LOAD_H_

#include <cstdint>
#include <string>
#include <vector>

#include "adapters/engine_http/http_engine_link.h"

namespace kvrouter {

struct BenchLoad {
  std::string url;
  uint32_t requests = 1000;
  uint32_t concurrency = 1;  // a closed loop of each
  uint32_t prompt_tokens = 14000;
  uint32_t max_tokens = 16;
};

struct BenchFigures {
  std::vector<double> ttft_ms;  // sorted; from the call to the first byte of the body
  std::vector<double> total_ms;
  uint64_t failed = 0;
  double seconds = 0;
};

// Token-id prompts that share no first block.
BenchFigures RunLoad(const BenchLoad& load, HttpEngineLink* link);

// Opens `requests` streams that never end and answers how many of them began; they live as long as
// `link`.
uint32_t HoldStreams(const BenchLoad& load, HttpEngineLink* link);

}  // namespace kvrouter

#endif  // KVROUTER_TESTS_BENCH_DISPATCH_BENCH_LOAD_H_
