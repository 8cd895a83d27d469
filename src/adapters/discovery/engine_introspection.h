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
#include "adapters/discovery/worker_sign_rule.h"
#include "adapters/discovery/worker_sources.h"
#include "base/clock.h"
#include "base/mutex.h"
#include "service/feed_monitor.h"
#include "service/worker_registry.h"
#include "service/worker_signs.h"

namespace kvrouter {

struct IntrospectionConfig {
  bool enabled = false;
  std::chrono::milliseconds period{5000};   // per engine
  std::chrono::milliseconds timeout{1000};  // per question
};

// Asks the engines what they are (GET /health, /v1/models, /metrics at the workers' addresses), weighs
// it against what is declared, puts the signs on the board, and tells the sources what was not declared.
//
// Off the path of requests and events: a few threads of its own, one engine at a time each, one
// connection at a time. Engines that let us wait are asked ever less often, down to every kMaxPeriods, and
// only by some of the threads, one of which asks only those known to answer at once; so however many let
// us wait, the others' turn comes. Times are jittered, so
// that the routers of a fleet do not ask all at once.
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
  };
  EngineIntrospection(IntrospectionConfig config, Parts parts);
  ~EngineIntrospection();

  void Start();  // nothing unless enabled
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
    MonotonicTime due{};
    int periods = 1;  // to the next question
    bool asked = false;
    bool slow = false;  // when it was last asked
    bool busy = false;
  };
  struct Task {
    WorkerId id{};
    uint64_t generation = 0;
    Origin origin;
  };

  void Run(const std::stop_token& stop, size_t thread);
  void RefreshLocked(MonotonicTime now) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  void KeepOrAddLocked(WorkerId id, const std::string& address, std::optional<WorkerSpec> worker,
                       std::map<WorkerId, Engine>* now) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  static bool IsFor(const Engine& engine, size_t thread);
  std::optional<Task> TakeDueLocked(MonotonicTime now, size_t thread)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  EngineFacts Ask(const Origin& origin, size_t thread);
  // Null: another record by now, or none.
  Engine* StillThereLocked(const Task& task) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  void Conclude(const Task& task, const EngineFacts& facts, std::chrono::nanoseconds took);
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
