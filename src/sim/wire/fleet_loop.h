#ifndef KVROUTER_SIM_WIRE_FLEET_LOOP_H_
#define KVROUTER_SIM_WIRE_FLEET_LOOP_H_

#include <atomic>
#include <chrono>
#include <cstddef>
#include <functional>
#include <memory>
#include <thread>
#include <vector>

#include "base/bounded_queue.h"
#include "sim/wire/wire_engine.h"

namespace kvrouter::sim {

// Real time to model time and back; both start at 0 with the clock.
class ScaledClock {
 public:
  explicit ScaledClock(double speedup);

  MonotonicTime ModelNow() const;
  // Real time until the model's `at`; at least 0, at most `limit`.
  std::chrono::nanoseconds RealUntil(MonotonicTime at, std::chrono::nanoseconds limit) const;
  // A real duration, as the model sees it.
  std::chrono::nanoseconds ToModel(std::chrono::nanoseconds real) const;

 private:
  double speedup_;
  std::chrono::steady_clock::time_point start_;
};

// The one thread that drives all engines of a process in real time.
//
// Thread safety: Add, engine, Start and Stop from the owner's thread; Post and Snapshot are
// thread-safe once all engines were added.
class FleetLoop {
 public:
  using Task = std::function<void(WireEngine&, MonotonicTime now)>;

  explicit FleetLoop(double speedup) : clock_(speedup) {}
  ~FleetLoop() { Stop(); }

  const ScaledClock& clock() const { return clock_; }
  void Add(std::unique_ptr<WireEngine> engine) { engines_.push_back(std::move(engine)); }
  WireEngine& engine(size_t i) { return *engines_[i]; }  // before Start
  void Start();
  void Stop();

  // Runs `task` with an engine on the loop's thread, in order. False if too many wait.
  bool Post(size_t engine, Task task);
  EngineSnapshot Snapshot(size_t engine) const { return engines_[engine]->Snapshot(); }

 private:
  struct Command {
    size_t engine;
    Task task;
  };

  void Run();

  ScaledClock clock_;
  BoundedQueue<Command> commands_{65'536};
  std::vector<std::unique_ptr<WireEngine>> engines_;  // fixed once started
  std::atomic<bool> stopping_{false};
  std::jthread thread_;
};

}  // namespace kvrouter::sim

#endif  // KVROUTER_SIM_WIRE_FLEET_LOOP_H_
