#include "core/schedule/outlier_ejection.h"

#include <fmt/format.h>

#include <algorithm>
#include <string_view>

#include "base/status_macros.h"
#include "kvrouter/error.h"

namespace kvrouter {
namespace {

absl::Status BadField(std::string_view field, std::string_view range, std::string_view value) {
  return MakeError(absl::StatusCode::kInvalidArgument, ErrorReason::kInvalidRequest,
                   fmt::format("outlier_ejection.{} must be {}, got {}", field, range, value));
}

}  // namespace

absl::Status Validate(const OutlierEjection::Options& options) {
  using std::chrono::milliseconds;
  if (options.fast_failure <= milliseconds::zero()) {
    return BadField("fast_failure", "> 0", fmt::format("{} ms", options.fast_failure.count()));
  }
  if (options.base_time <= milliseconds::zero()) {
    return BadField("base_time", "> 0", fmt::format("{} s", options.base_time.count()));
  }
  if (options.max_time < options.base_time) {
    return BadField("max_time", fmt::format(">= base_time ({} s)", options.base_time.count()),
                    fmt::format("{} s", options.max_time.count()));
  }
  if (!(options.max_ejected_share >= 0 && options.max_ejected_share <= 1)) {
    return BadField("max_ejected_share", "in 0..1", fmt::format("{}", options.max_ejected_share));
  }
  return absl::OkStatus();
}

void OutlierEjection::ReportSuccess(Target target, MonotonicTime now) {
  const auto it = records_.find(target);
  if (it == records_.end()) return;
  Record& record = it->second;
  record.failures_in_row = 0;
  // What was dispatched before the target was taken out does not bring it back early.
  if (record.until && *record.until > now) return;
  record.until.reset();
  record.on_trial = false;
  if (++record.successes_in_row >= std::max<uint32_t>(options_.consecutive_failures, 1)) {
    records_.erase(it);
  }
}

OutlierEjection::Effect OutlierEjection::ReportFailure(Target target,
                                                       std::chrono::nanoseconds after,
                                                       uint64_t targets, MonotonicTime now) {
  if (options_.consecutive_failures == 0 || after > options_.fast_failure) return Effect::kNone;
  Record& record = records_[target];
  record.successes_in_row = 0;
  if (record.until && *record.until > now) return Effect::kNone;  // out already
  ++record.failures_in_row;
  const bool enough = record.on_trial || record.failures_in_row >= options_.consecutive_failures;
  return enough ? Eject(&record, targets, now) : Effect::kNone;
}

OutlierEjection::Effect OutlierEjection::Eject(Record* record, uint64_t targets,
                                               MonotonicTime now) {
  const auto allowed = std::min<uint64_t>(
      static_cast<uint64_t>(options_.max_ejected_share * static_cast<double>(targets)),
      targets - std::min<uint64_t>(targets, 1));
  if (EjectedCount(now) >= allowed) {
    ++refused_total_;
    return Effect::kRefused;
  }
  constexpr uint32_t kMaxDoublings = 20;
  const auto time = options_.base_time * (int64_t{1} << std::min(record->ejections, kMaxDoublings));
  record->until = now + std::min<std::chrono::seconds>(time, options_.max_time);
  record->on_trial = true;
  record->failures_in_row = 0;
  ++record->ejections;
  ++ejections_total_;
  return Effect::kEjected;
}

bool OutlierEjection::IsEjected(Target target, MonotonicTime now) const {
  const auto it = records_.find(target);
  return it != records_.end() && it->second.until && *it->second.until > now;
}

OutlierEjection::Status OutlierEjection::StatusOf(Target target, MonotonicTime now) const {
  const auto it = records_.find(target);
  if (it == records_.end()) return {};
  const Record& record = it->second;
  const bool ejected = record.until && *record.until > now;
  return {.ejected = ejected,
          .on_trial = record.on_trial && !ejected,
          .until = ejected ? *record.until : MonotonicTime{},
          .ejections = record.ejections,
          .failures_in_row = record.failures_in_row};
}

uint64_t OutlierEjection::EjectedCount(MonotonicTime now) const {
  return static_cast<uint64_t>(std::count_if(
      records_.begin(), records_.end(),
      [&](const auto& entry) { return entry.second.until && *entry.second.until > now; }));
}

}  // namespace kvrouter
