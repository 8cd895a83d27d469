#include "daemon/readiness.h"

#include <fmt/format.h>

#include <string>

namespace kvrouter {

Readiness ReadinessRule::Evaluate(const Inputs& inputs, MonotonicTime now) {
  Readiness readiness{
      .ready = false, .schedulable_workers = inputs.schedulable_workers, .reason = ""};
  had_initial_workers_ = had_initial_workers_ || inputs.schedulable_workers >= min_initial_workers_;
  if (inputs.schedulable_workers > 0 && !inputs.starting) {
    if (!first_worker_at_) first_worker_at_ = now;
    recovered_ = recovered_ || inputs.recovery_done || now - *first_worker_at_ >= recovery_bound_;
  }
  if (inputs.stopping) {
    readiness.reason = "shutting down";
  } else if (inputs.starting) {
    readiness.reason = "starting";
  } else if (inputs.schedulable_workers == 0) {
    readiness.reason = "no schedulable worker";
  } else if (!had_initial_workers_) {
    readiness.reason = fmt::format("{} of {} initial workers are schedulable",
                                   inputs.schedulable_workers, min_initial_workers_);
  } else if (!recovered_) {
    readiness.reason = "initial recovery of the event feeds is running";
  } else {
    readiness.ready = true;
  }
  return readiness;
}

}  // namespace kvrouter
