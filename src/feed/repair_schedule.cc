#include "feed/repair_schedule.h"

#include <algorithm>

namespace kvrouter {

void RepairSchedule::OnTick(std::optional<MonotonicTime> wanted, MonotonicTime now) {
  if (!wanted) {
    Drop();
    if (attempts_ > 0 && now - last_start_ >= config_.retry_max) attempts_ = 0;
    return;
  }
  if (running_) return;
  MonotonicTime wait = *wanted;
  if (attempts_ > 0) {
    const int64_t doublings = std::min<int64_t>(attempts_ - 1, 20);
    const MonotonicTime backoff =
        std::min(config_.retry_min * (int64_t{1} << doublings), config_.retry_max);
    wait = std::max(wait, last_start_ + backoff - now);
  }
  const MonotonicTime due = now + Stretched(wait);
  due_ = due_ ? std::min(*due_, due) : due;
}

void RepairSchedule::Start(uint64_t ticket, MonotonicTime now) {
  due_.reset();
  running_ = ticket;
  spoiled_ = false;
  last_start_ = now;
  ++attempts_;
}

bool RepairSchedule::Finish(uint64_t ticket) {
  if (running_ != ticket) return false;
  running_.reset();
  return !spoiled_;
}

void RepairSchedule::Drop() {
  due_.reset();
  running_.reset();
}

MonotonicTime RepairSchedule::Stretched(MonotonicTime wait) const {
  constexpr uint64_t kMixer = 0x9E3779B97F4A7C15;
  const auto percent = static_cast<int64_t>(((spread_ + attempts_) * kMixer >> 32) % 51);
  return wait + wait * percent / 100;
}

}  // namespace kvrouter
