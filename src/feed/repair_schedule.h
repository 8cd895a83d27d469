#ifndef KVROUTER_FEED_REPAIR_SCHEDULE_H_
#define KVROUTER_FEED_REPAIR_SCHEDULE_H_

#include <cstdint>
#include <optional>

#include "kvrouter/types.h"

namespace kvrouter {

struct RepairScheduleConfig {
  // Each attempt doubles the wait before the next one, up to the maximum. As long without a wish,
  // and they are forgotten.
  MonotonicTime retry_min = std::chrono::milliseconds(200);
  MonotonicTime retry_max = std::chrono::seconds(30);
};

// When one rank asks somebody for its whole picture, and which answer counts.
//
//   idle ── Wish ──> wanted ── Start ──> running ── Finish ──> idle
//
// What happens while an attempt runs may make its answer worthless (Spoil). It is awaited all the
// same, so that a rank never has two attempts at once.
//
// Waits are stretched by up to a half, differently for each `spread`, so that ranks that lost
// something together do not ask together. Thread-compatible.
class RepairSchedule {
 public:
  RepairSchedule(const RepairScheduleConfig& config, uint64_t spread)
      : config_(config), spread_(spread) {}

  // Call a few times per second. `wanted`: in how long at the soonest; absent: all is well, and an
  // attempt that waits or runs is void.
  void OnTick(std::optional<MonotonicTime> wanted, MonotonicTime now);

  bool Due(MonotonicTime now) const { return due_ && !running_ && now >= *due_; }
  // REQUIRES: Due. `ticket` is no other attempt's.
  void Start(uint64_t ticket, MonotonicTime now);

  bool Running() const { return running_.has_value(); }
  bool Running(uint64_t ticket) const { return running_ == ticket; }
  // Its answer will be of use.
  bool RunningWell() const { return running_ && !spoiled_; }
  void Spoil() { spoiled_ = true; }

  // The answer to the attempt is here. False: it is not to be used.
  bool Finish(uint64_t ticket);
  // Nothing is wanted any more.
  void Drop();

 private:
  MonotonicTime Stretched(MonotonicTime wait) const;

  const RepairScheduleConfig config_;
  const uint64_t spread_;
  std::optional<MonotonicTime> due_;
  std::optional<uint64_t> running_;
  bool spoiled_ = false;
  uint32_t attempts_ = 0;
  MonotonicTime last_start_{};
};

}  // namespace kvrouter

#endif  // KVROUTER_FEED_REPAIR_SCHEDULE_H_
