#include "adapters/discovery/engine_introspection.h"

#include <fmt/format.h>
#include <pthread.h>

#include <algorithm>
#include <utility>

namespace kvrouter {
namespace {

using std::chrono::milliseconds;

constexpr size_t kMaxHealthBytes = size_t{64} << 10;
constexpr size_t kMaxModelsBytes = size_t{1} << 20;
constexpr size_t kMaxMetricsBytes = size_t{8} << 20;
constexpr milliseconds kLook{100};  // at what is due, and at the worker set
constexpr int kSlowPart = 4;        // an engine that takes this part of a time-out is slow

LearnedFacts Learned(const EngineFacts& facts) {
  return {.block_size_tokens = facts.block_size_tokens.value_or(0),
          .model_name = facts.models.empty() ? std::string() : facts.models.front(),
          .total_kv_blocks = facts.total_kv_blocks.value_or(0)};
}

// Whether what was found of one record's engine holds for the other's.
bool IsSameEngine(const std::optional<WorkerSpec>& a, const std::optional<WorkerSpec>& b) {
  if (!a || !b) return !a && !b;
  return a->incarnation == b->incarnation && a->block_size_tokens == b->block_size_tokens;
}

}  // namespace

EngineIntrospection::EngineIntrospection(IntrospectionConfig config, Parts parts)
    : config_(config), parts_(parts), random_(static_cast<uint64_t>(SteadyClock().Now().count())) {}

EngineIntrospection::~EngineIntrospection() { Stop(); }

void EngineIntrospection::Start() {
  if (!config_.enabled && !AsksForLoad()) return;
  for (size_t i = 0; i < kThreads; ++i)
    threads_.emplace_back([this, i](const std::stop_token& stop) { Run(stop, i); });
}

void EngineIntrospection::Stop() {
  for (std::jthread& thread : threads_) thread.request_stop();
  {
    MutexLock lock(mu_);
    stopping_ = true;
    for (ApiClient* client : asking_) {
      if (client != nullptr) client->Stop();
    }
    wake_.NotifyAll();
  }
  threads_.clear();  // joins
}

void EngineIntrospection::Run(const std::stop_token& stop, size_t thread) {
  pthread_setname_np(pthread_self(), "kvr-introspect");
  const Clock& clock = SteadyClock();
  while (!stop.stop_requested()) {
    std::optional<Task> task;
    {
      MutexLock lock(mu_);
      const MonotonicTime now = clock.Now();
      if (now >= next_refresh_) RefreshLocked(now);
      task = TakeDueLocked(now, thread);
      if (!task) {
        if (!stopping_) wake_.WaitFor(mu_, kLook);
        continue;
      }
    }
    const MonotonicTime begin = clock.Now();
    const Answer answer = Ask(*task, thread);
    if (stop.stop_requested()) return;
    Conclude(*task, answer, clock.Now() - begin);
  }
}

// The workers there are now; what is known of the others goes.
void EngineIntrospection::RefreshLocked(MonotonicTime now) {
  next_refresh_ = now + kLook;
  const std::vector<WorkerSpec> workers = parts_.registry->List();
  std::map<WorkerId, Engine> engines;
  for (const WorkerSpec& worker : workers)
    KeepOrAddLocked(worker.id, worker.address, worker, &engines);
  for (const auto& [id, address] : parts_.sources->Incomplete()) {
    if (config_.enabled && !engines.contains(id))
      KeepOrAddLocked(id, address, std::nullopt, &engines);
  }
  engines_ = std::move(engines);
  parts_.board->Keep(workers);
  if (AsksForLoad()) parts_.loads->Keep(workers);
  event_messages_.clear();
  for (const FeedReport& report : parts_.feeds->Reports())
    event_messages_[report.target.worker] += report.counters.messages;
}

// An address that is no plain origin is opaque to us: such a worker is not asked.
void EngineIntrospection::KeepOrAddLocked(WorkerId id, const std::string& address,
                                          std::optional<WorkerSpec> worker,
                                          std::map<WorkerId, Engine>* now) {
  const auto before = engines_.find(id);
  if (before != engines_.end() && before->second.address == address &&
      IsSameEngine(before->second.worker, worker)) {
    Engine& kept = now->emplace(id, std::move(before->second)).first->second;
    kept.worker = std::move(worker);  // it may be draining now, and the like
    return;
  }
  absl::StatusOr<Origin> origin = ParseOrigin(address);
  if (!origin.ok()) return;
  Engine engine;
  engine.generation = next_generation_++;
  engine.address = address;
  engine.origin = *std::move(origin);
  if (before != engines_.end() && worker && before->second.worker &&
      before->second.worker->incarnation == worker->incarnation)
    engine.signs = before->second.signs;  // as the board still shows them
  engine.worker = std::move(worker);
  now->emplace(id, std::move(engine));
}

// Two threads ask everybody, one not those that let us wait, one only those that certainly do not.
bool EngineIntrospection::IsFor(const Engine& engine, size_t thread) {
  if (thread == 0) return engine.asked && !engine.slow;
  return thread > 1 || !engine.slow;
}

std::optional<EngineIntrospection::Task> EngineIntrospection::TakeDueLocked(MonotonicTime now,
                                                                            size_t thread) {
  Engine* first = nullptr;
  WorkerId first_id{};
  for (auto& [id, engine] : engines_) {
    if (engine.busy || engine.due > now || !IsFor(engine, thread)) continue;
    if (first != nullptr && first->due <= engine.due) continue;
    first = &engine;
    first_id = id;
  }
  if (first == nullptr) return std::nullopt;
  first->busy = true;
  const bool facts = config_.enabled && first->facts_due <= now;
  return Task{first_id, first->generation, first->origin, facts};
}

EngineIntrospection::Answer EngineIntrospection::Ask(const Task& task, size_t thread) {
  ApiClient client({.origin = task.origin, .ca_file = "", .token_file = ""});
  {
    MutexLock lock(mu_);
    if (stopping_) return {};
    asking_[thread] = &client;
  }
  const auto get = [&](const char* path, size_t max_body_bytes) -> std::optional<std::string> {
    std::string body;
    const auto answer = client.Get({.target = path,
                                    .accept = "*/*",
                                    .timeout = config_.timeout,
                                    .max_body_bytes = max_body_bytes},
                                   [&body](std::string_view piece) {
                                     body += piece;
                                     return absl::OkStatus();
                                   });
    if (!answer.ok() || answer->status != 200) return std::nullopt;
    return body;
  };
  Answer answer;
  EngineFacts& facts = answer.facts;
  if (task.facts) {
    facts.answers = get("/health", kMaxHealthBytes).has_value();
    if (facts.answers) {  // else the other answers would only be waited for
      if (const auto models = get("/v1/models", kMaxModelsBytes)) ReadModels(*models, &facts);
    }
  }
  if (facts.answers || !task.facts) answer.metrics = get("/metrics", kMaxMetricsBytes);
  if (task.facts && answer.metrics) ReadEngineMetrics(*answer.metrics, &facts);
  MutexLock lock(mu_);
  asking_[thread] = nullptr;
  return answer;
}

EngineIntrospection::Engine* EngineIntrospection::StillThereLocked(const Task& task) {
  const auto found = engines_.find(task.id);
  const bool same = found != engines_.end() && found->second.generation == task.generation;
  return same ? &found->second : nullptr;
}

void EngineIntrospection::Conclude(const Task& task, const Answer& answer,
                                   std::chrono::nanoseconds took) {
  {
    MutexLock lock(mu_);
    if (StillThereLocked(task) == nullptr) return;
  }
  // First: a record that changes by what is learned is weighed when its engine is asked again.
  if (task.facts) parts_.sources->Learn(task.id, Learned(answer.facts));
  const std::optional<WorkerSpec> record = parts_.registry->Find(task.id);
  const MonotonicTime now = SteadyClock().Now();
  int periods = 1;
  {
    MutexLock lock(mu_);
    Engine* const engine = StillThereLocked(task);
    if (engine == nullptr) return;
    ScheduleLocked(task, now, took, engine);
    periods = engine->periods;
    if (!engine->worker || record != engine->worker) return;
    if (task.facts) {
      const auto messages = event_messages_.find(task.id);
      const WorkerSigns signs =
          engine->rule.Weigh(*engine->worker, answer.facts,
                             messages == event_messages_.end() ? 0 : messages->second, now);
      NoteSignsLocked(*engine->worker, engine->signs, signs);
      engine->signs = signs;
      parts_.board->Put(task.id, engine->worker->incarnation, signs);
    }
  }
  if (AsksForLoad()) PutLoad(*record, answer, periods);
}

void EngineIntrospection::ScheduleLocked(const Task& task, MonotonicTime now,
                                         std::chrono::nanoseconds took, Engine* engine) {
  engine->busy = false;
  engine->asked = true;
  engine->slow =
      took > config_.timeout / kSlowPart;  // to refuse a connection costs nobody anything
  engine->periods = engine->slow ? std::min(kMaxPeriods, engine->periods * 2) : 1;
  if (task.facts) engine->facts_due = now + JitteredLocked(config_.period * engine->periods);
  if (AsksForLoad()) engine->load_due = now + JitteredLocked(config_.load_period * engine->periods);
  if (config_.enabled && AsksForLoad()) {
    engine->due = std::min(engine->facts_due, engine->load_due);
  } else {
    engine->due = AsksForLoad() ? engine->load_due : engine->facts_due;
  }
}

MonotonicTime EngineIntrospection::JitteredLocked(milliseconds wait) {
  const int64_t wait_ms = std::max<int64_t>(1, wait.count());
  return milliseconds(std::uniform_int_distribution<int64_t>(wait_ms - wait_ms / 4,
                                                             wait_ms + wait_ms / 4)(random_));
}

// Who is asked less often is believed for longer: else a busy engine, which is slow to answer,
// would count as idle in between.
void EngineIntrospection::PutLoad(const WorkerSpec& worker, const Answer& answer, int periods) {
  if (!answer.metrics) {
    parts_.loads->Put(worker, {}, EnginePollOutcome::kFailed, SteadyClock().Now());
    return;
  }
  const std::map<uint32_t, EngineLoad> ranks = ReadEngineLoads(*answer.metrics, worker);
  parts_.loads->Put(worker, ranks,
                    ranks.empty() ? EnginePollOutcome::kUnreadable : EnginePollOutcome::kOk,
                    SteadyClock().Now(), config_.LoadStaleAfter(periods));
}

void EngineIntrospection::NoteSignsLocked(const WorkerSpec& worker, const WorkerSigns& before,
                                          const WorkerSigns& now) {
  for (size_t i = 0; i < kWorkerSignCount; ++i) {
    if (now[i] == before[i]) continue;
    parts_.journal->Write(
        {.warning = now[i],
         .event = now[i] ? "worker_sign" : "worker_sign_gone",
         .fields = {{"worker_id", fmt::format("{}", fmt::underlying(worker.id))},
                    {"reason", std::string(WorkerSignName(static_cast<WorkerSign>(i)))},
                    {"address", worker.address}}});
  }
}

}  // namespace kvrouter
