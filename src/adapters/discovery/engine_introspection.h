#ifndef KVROUTER_ADAPTERS_DISCOVERY_ENGINE_INTROSPECTION_H_
#define KVROUTER_ADAPTERS_DISCOVERY_ENGINE_INTROSPECTION_H_

#include <array>
#include <chrono>
#include <cstdint>
#include <map>
#include <optional>
#include <random>
#include <stop_token>
#include <string>
#include <thread>
#include <vector>

#include "adapters/discovery/api_client.h"
#include "adapters/discovery/discovery_journal.h"
#include "adapters/discovery/engine_facts.h"
#include "adapters/discovery/engine_load_facts.h"
#include "adapters/discovery/worker_sign_rule.h"
#include "adapters/discovery/worker_sources.h"
#include "base/clock.h"
#include "base/mutex.h"
#include "service/engine_loads.h"
#include "service/feed_monitor.h"
#include "service/worker_registry.h"
#include "service/worker_signs.h"

namespace kvrouter {

struct IntrospectionConfig {
  bool enabled = false;
  std::chrono::milliseconds period{5000};   // per engine
  std::chrono::milliseconds timeout{1000};  // per question
  // How often each engine is asked for its load, enabled or not; 0: not.
  std::chrono::milliseconds load_period{0};

  // So long the load of an engine is believed that is asked every so many periods: a few answers
  // may be missing, and one may be late.
  std::chrono::milliseconds LoadStaleAfter(int periods = 1) const {
    return 4 * periods * load_period + timeout;
  }
};

// Asks the engines what they are (GET /health, /v1/models, /metrics at the workers' addresses),
// weighs it against what is declared, puts the signs on the board, and tells the sources what was
// not declared. Or how much they have to do (/metrics alone), which goes to the engine loads. Each
// has its own period.
//
// Off the path of requests and events: a few threads of its own, one engine at a time each, one
// connection at a time. Engines that let us wait are asked ever less often, down to every
// kMaxPeriods, and only by some of the threads, one of which asks only those known to answer at
// once; so however many let us wait, the others' turn comes. Times are jittered, so that the
// routers of a fleet do not ask all at once.
//
// Thread safety: Start and Stop from one thread. Lock order: own mutex, then those of the registry,
// the sources and the feeds.
class EngineIntrospection {
 public:
  struct Parts {
    const WorkerRegistry* registry = nullptr;
    const FeedMonitor* feeds = nullptr;
    WorkerSources* sources = nullptr;
    WorkerSignBoard* board = nullptr;
    DiscoveryJournal* journal = nullptr;
    EngineLoads* loads = nullptr;
  };
  EngineIntrospection(IntrospectionConfig config, Parts parts);
  ~EngineIntrospection();

  void Start();  // nothing unless something is to be asked
  void Stop();

 private:
  static constexpr size_t kThreads = 4;
  static constexpr int kMaxPeriods = 8;

  // A worker to ask: registered, or waiting for what its engine has to say.
  struct Engine {
    uint64_t generation = 0;  // another record of the worker, another engine
    std::string address;
    Origin origin;
    std::optional<WorkerSpec> worker;  // absent: not registered
    WorkerSignRule rule;
    WorkerSigns signs{};
    MonotonicTime due{};        // the earlier of these two
    MonotonicTime facts_due{};  // what it is, if that is asked
    MonotonicTime load_due{};   // its load, if that is asked
    int periods = 1;            // to the next question
    bool asked = false;
    bool slow = false;  // when it was last asked
    bool busy = false;
  };
  struct Task {
    WorkerId id{};
    uint64_t generation = 0;
    Origin origin;
    bool facts = false;  // not its load alone
  };
  struct Answer {
    EngineFacts facts;
    std::optional<std::string> metrics;  // as it came
  };

  void Run(const std::stop_token& stop, size_t thread);
  void RefreshLocked(MonotonicTime now) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  void KeepOrAddLocked(WorkerId id, const std::string& address, std::optional<WorkerSpec> worker,
                       std::map<WorkerId, Engine>* now) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  static bool IsFor(const Engine& engine, size_t thread);
  std::optional<Task> TakeDueLocked(MonotonicTime now, size_t thread)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  Answer Ask(const Task& task, size_t thread);
  // Null: another record by now, or none.
  Engine* StillThereLocked(const Task& task) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  void Conclude(const Task& task, const Answer& answer, std::chrono::nanoseconds took);
  // When it is asked again.
  void ScheduleLocked(const Task& task, MonotonicTime now, std::chrono::nanoseconds took,
                      Engine* engine) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  MonotonicTime JitteredLocked(std::chrono::milliseconds wait) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  void PutLoad(const WorkerSpec& worker, const Answer& answer, int periods);
  bool AsksForLoad() const { return config_.load_period.count() > 0; }
  void NoteSignsLocked(const WorkerSpec& worker, const WorkerSigns& before, const WorkerSigns& now)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);

  const IntrospectionConfig config_;
  const Parts parts_;
  Mutex mu_;
  CondVar wake_;
  std::map<WorkerId, Engine> engines_ ABSL_GUARDED_BY(mu_);
  std::map<WorkerId, uint64_t> event_messages_ ABSL_GUARDED_BY(mu_);
  MonotonicTime next_refresh_ ABSL_GUARDED_BY(mu_){};
  uint64_t next_generation_ ABSL_GUARDED_BY(mu_) = 1;
  std::array<ApiClient*, kThreads> asking_ ABSL_GUARDED_BY(mu_) = {};
  std::mt19937_64 random_ ABSL_GUARDED_BY(mu_);
  bool stopping_ ABSL_GUARDED_BY(mu_) = false;
  std::vector<std::jthread> threads_;
};

}  // namespace kvrouter

#endif  // KVROUTER_ADAPTERS_DISCOVERY_ENGINE_INTROSPECTION_H_
