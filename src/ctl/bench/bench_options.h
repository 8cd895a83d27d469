#ifndef KVROUTER_CTL_BENCH_BENCH_OPTIONS_H_
#define KVROUTER_CTL_BENCH_BENCH_OPTIONS_H_

#include <cstdint>
#include <optional>
#include <string>

#include "absl/status/status.h"

namespace kvrouter::ctl {

enum class BenchCall : uint8_t { kRoute, kStream };

struct BenchOptions {
  BenchCall call = BenchCall::kRoute;
  uint32_t concurrency = 8;               // requests in flight at most; for kStream as many streams
  std::optional<uint64_t> requests = {};  // stop after so many
  std::optional<double> seconds = {};     // or after so long; neither: 10 s
  std::optional<uint64_t> tokens = {};    // prompts of this length, as token ids
  std::optional<uint64_t> hashes =
      {};                         // or as block hashes, length in tokens too; neither: 2048 ids
  double shared_fraction = 0.5;   // of each prompt, from its start
  uint32_t shared_prefixes = 16;  // how many different starts there are
  double rate_per_s = 0;          // open loop; 0: closed loop
  uint64_t seed = 1;
  std::string model_name = {};
  std::string routing_group = {};
  bool advise = false;
};

inline constexpr uint32_t kMaxBenchConcurrency = 256;
inline constexpr uint64_t kMaxBenchPromptTokens = 16'000'000;  // a message holds 64 MiB
// Of the shared starts together, which are kept in memory.
inline constexpr uint64_t kMaxBenchSharedTokens = 64'000'000;

// One line that names option, value and limit.
absl::Status Check(const BenchOptions& options);

inline uint64_t PromptTokens(const BenchOptions& options) {
  return options.hashes ? *options.hashes : options.tokens.value_or(2048);
}

}  // namespace kvrouter::ctl

#endif  // KVROUTER_CTL_BENCH_BENCH_OPTIONS_H_
