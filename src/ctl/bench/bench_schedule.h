#ifndef KVROUTER_CTL_BENCH_BENCH_SCHEDULE_H_
#define KVROUTER_CTL_BENCH_BENCH_SCHEDULE_H_

#include <atomic>
#include <chrono>
#include <cstdint>
#include <optional>

#include "base/mutex.h"
#include "ctl/bench/bench_options.h"

namespace kvrouter::ctl {

// Which request a lane sends next, and when. Open loop: request n is due at start + n / rate, no
// matter how the earlier ones fare; if all lanes are busy then, it leaves late and its latency
// counts from when it was due. So a server that stalls cannot hide the requests it held up.
//
// Thread-safe.
class BenchSchedule {
 public:
  using Clock = std::chrono::steady_clock;

  struct Turn {
    uint64_t n = 0;
    Clock::time_point due;  // closed loop: now
  };

  BenchSchedule(const BenchOptions& options, Clock::time_point start);

  // Blocks until the request is due. Nothing when the run is over or was stopped.
  std::optional<Turn> Next();
  void Stop();

 private:
  bool WaitUntil(Clock::time_point due);  // false: stopped

  const std::optional<uint64_t> requests_;
  const double rate_per_s_;
  const Clock::time_point start_;
  const Clock::time_point end_;
  std::atomic<uint64_t> next_{0};

  Mutex mu_;
  CondVar stop_;
  bool stopped_ ABSL_GUARDED_BY(mu_) = false;
};

}  // namespace kvrouter::ctl

#endif  // KVROUTER_CTL_BENCH_BENCH_SCHEDULE_H_
