#ifndef KVROUTER_CTL_BENCH_PROMPT_MAKER_H_
#define KVROUTER_CTL_BENCH_PROMPT_MAKER_H_

#include <cstdint>
#include <vector>

#include "ctl/bench/bench_options.h"
#include "kvrouter/v1/router.pb.h"

namespace kvrouter::ctl {

// The requests of a run: prompt `n` depends on the seed and n alone, whoever asks in whatever
// order. Each starts with one of the shared prefixes and goes on with values nobody else has.
// Thread-safe: const after construction.
class PromptMaker {
 public:
  // `block_size_tokens`: of the partition; used with --hashes only. REQUIRES: Check(options).ok().
  PromptMaker(const BenchOptions& options, uint32_t block_size_tokens);

  // Without a request id.
  v1::RouteRequest Make(uint64_t n) const;

 private:
  const BenchOptions options_;
  const uint64_t prompt_tokens_;
  const uint64_t items_;  // token ids, or hashes of full blocks
  const uint64_t shared_items_;
  std::vector<std::vector<uint64_t>> prefixes_;
};

}  // namespace kvrouter::ctl

#endif  // KVROUTER_CTL_BENCH_PROMPT_MAKER_H_
