#include "ctl/bench/bench_options.h"

#include <fmt/format.h>

namespace kvrouter::ctl {
namespace {

template <typename T>
absl::Status InRange(const char* option, T value, T least, T most) {
  // Written so that NaN is refused too.
  if (value >= least && value <= most) return absl::OkStatus();
  return absl::InvalidArgumentError(
      fmt::format("{} must be {}..{}, got {}", option, least, most, value));
}

}  // namespace

absl::Status Check(const BenchOptions& options) {
  if (options.tokens && options.hashes) {
    return absl::InvalidArgumentError("--tokens or --hashes, not both");
  }
  const char* const length = options.hashes ? "--hashes" : "--tokens";
  const uint64_t prompt_tokens = PromptTokens(options);
  for (const absl::Status& status :
       {InRange("--concurrency", options.concurrency, 1u, kMaxBenchConcurrency),
        InRange("--requests", options.requests.value_or(1), uint64_t{1}, uint64_t{1} << 40),
        InRange("--seconds", options.seconds.value_or(1), 0.001, 1e6),
        InRange(length, prompt_tokens, uint64_t{1}, kMaxBenchPromptTokens),
        InRange("--shared", options.shared_fraction, 0.0, 1.0),
        InRange("--prefixes", options.shared_prefixes, 1u, 1'000'000u),
        InRange("--rate", options.rate_per_s, 0.0, 1e6)}) {
    if (!status.ok()) return status;
  }
  const double shared_tokens = options.shared_fraction * static_cast<double>(prompt_tokens) *
                               static_cast<double>(options.shared_prefixes);
  if (shared_tokens > static_cast<double>(kMaxBenchSharedTokens)) {
    return absl::InvalidArgumentError(fmt::format(
        "--prefixes {} of {:.0f} tokens each are more than {} tokens together",
        options.shared_prefixes, shared_tokens / options.shared_prefixes, kMaxBenchSharedTokens));
  }
  return absl::OkStatus();
}

}  // namespace kvrouter::ctl
