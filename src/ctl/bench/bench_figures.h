#ifndef KVROUTER_CTL_BENCH_BENCH_FIGURES_H_
#define KVROUTER_CTL_BENCH_BENCH_FIGURES_H_

#include <cstdint>
#include <map>
#include <string>
#include <utility>

#include "ctl/bench/bench_options.h"
#include "ctl/bench/latency_histogram.h"

namespace kvrouter::ctl {

// What a run, or one lane of it, has seen. Thread-compatible.
struct BenchTally {
  LatencyHistogram latency;  // of answered requests; open loop: from the intended time on
  LatencyHistogram late;     // open loop: from the intended time to the sending
  std::map<std::pair<std::string, std::string>, uint64_t> errors;  // by code and reason
  uint64_t answered = 0;
  uint64_t booked = 0;
  uint64_t freed = 0;
  uint64_t overlap_blocks = 0;  // as the answers said
  uint64_t isl_blocks = 0;

  void CountError(const std::string& code, const std::string& reason) { ++errors[{code, reason}]; }
  uint64_t Failed() const;
  void Merge(const BenchTally& other);
};

struct BenchRun {
  BenchTally tally;
  double elapsed_s = 0;
  uint64_t not_freed = 0;  // bookings that may be left: their Free failed, twice
  bool stopped = false;    // by a signal
  bool unreachable = false;
};

// What goes to standard output. Pure.
std::string BenchText(const BenchOptions& options, const BenchRun& run);
std::string BenchJson(const BenchOptions& options, const BenchRun& run);

// OK, or what went wrong, in one line.
absl::Status Verdict(const BenchRun& run);

}  // namespace kvrouter::ctl

#endif  // KVROUTER_CTL_BENCH_BENCH_FIGURES_H_
