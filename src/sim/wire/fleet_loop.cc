#include "sim/wire/fleet_loop.h"

#include <algorithm>
#include <optional>
#include <utility>

namespace kvrouter::sim {
namespace {

using std::chrono::nanoseconds;

// How often the loop looks for clients that left.
constexpr std::chrono::milliseconds kDesertedCheckPeriod{20};

nanoseconds Scale(nanoseconds time, double factor) {
  return nanoseconds(static_cast<int64_t>(static_cast<double>(time.count()) * factor));
}

}  // namespace

ScaledClock::ScaledClock(double speedup)
    : speedup_(speedup), start_(std::chrono::steady_clock::now()) {}

MonotonicTime ScaledClock::ModelNow() const {
  return Scale(std::chrono::steady_clock::now() - start_, speedup_);
}

nanoseconds ScaledClock::RealUntil(MonotonicTime at, nanoseconds limit) const {
  const MonotonicTime now = ModelNow();
  if (at <= now) return nanoseconds{0};
  if (at == MonotonicTime::max()) return limit;
  return std::min(limit, Scale(at - now, 1 / speedup_) + nanoseconds{1});
}

nanoseconds ScaledClock::ToModel(nanoseconds real) const { return Scale(real, speedup_); }

void FleetLoop::Start() {
  thread_ = std::jthread([this] { Run(); });
}

void FleetLoop::Stop() {
  stopping_ = true;
  commands_.Close();
  if (thread_.joinable()) thread_.join();
}

bool FleetLoop::Post(size_t engine, Task task) {
  return commands_.TryPush({engine, std::move(task)});
}

void FleetLoop::Run() {
  auto next_deserted_check = std::chrono::steady_clock::now() + kDesertedCheckPeriod;
  while (!stopping_) {
    MonotonicTime next = MonotonicTime::max();
    for (const auto& engine : engines_) next = std::min(next, engine->NextEventTime());
    std::optional<Command> command = commands_.PopFor(clock_.RealUntil(next, kDesertedCheckPeriod));
    for (; command.has_value(); command = commands_.TryPop()) {
      command->task(*engines_[command->engine], clock_.ModelNow());
    }
    const MonotonicTime now = clock_.ModelNow();
    for (const auto& engine : engines_) {
      if (engine->NextEventTime() <= now) engine->AdvanceTo(now);
    }
    if (std::chrono::steady_clock::now() < next_deserted_check) continue;
    next_deserted_check = std::chrono::steady_clock::now() + kDesertedCheckPeriod;
    for (const auto& engine : engines_) engine->AbortDeserted(now);
  }
}

}  // namespace kvrouter::sim
