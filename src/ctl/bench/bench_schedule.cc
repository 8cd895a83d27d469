#include "ctl/bench/bench_schedule.h"

namespace kvrouter::ctl {
namespace {

constexpr double kDefaultSeconds = 10;

BenchSchedule::Clock::time_point EndOf(const BenchOptions& options,
                                       BenchSchedule::Clock::time_point start) {
  if (!options.seconds && options.requests) return BenchSchedule::Clock::time_point::max();
  const std::chrono::duration<double> time(options.seconds.value_or(kDefaultSeconds));
  return start + std::chrono::duration_cast<BenchSchedule::Clock::duration>(time);
}

}  // namespace

BenchSchedule::BenchSchedule(const BenchOptions& options, Clock::time_point start)
    : requests_(options.requests),
      rate_per_s_(options.rate_per_s),
      start_(start),
      end_(EndOf(options, start)) {}

std::optional<BenchSchedule::Turn> BenchSchedule::Next() {
  const uint64_t n = next_.fetch_add(1, std::memory_order_relaxed);
  if (requests_ && n >= *requests_) return std::nullopt;
  const Clock::time_point now = Clock::now();
  Clock::time_point due = now;
  if (rate_per_s_ > 0) {
    const std::chrono::duration<double> after(static_cast<double>(n) / rate_per_s_);
    due = start_ + std::chrono::duration_cast<Clock::duration>(after);
  }
  if (due >= end_ || !WaitUntil(due)) return std::nullopt;
  return Turn{.n = n, .due = due};
}

bool BenchSchedule::WaitUntil(Clock::time_point due) {
  MutexLock lock(mu_);
  while (!stopped_) {
    const Clock::duration left = due - Clock::now();
    if (left <= Clock::duration::zero()) return true;
    stop_.WaitFor(mu_, left);
  }
  return false;
}

void BenchSchedule::Stop() {
  MutexLock lock(mu_);
  stopped_ = true;
  stop_.NotifyAll();
}

}  // namespace kvrouter::ctl
