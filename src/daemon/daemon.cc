#include "daemon/daemon.h"

#include <fmt/format.h>
#include <pthread.h>
#include <spdlog/spdlog.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <stop_token>
#include <utility>

#include "base/clock.h"
#include "base/status_macros.h"
#include "daemon/config_file.h"
#include "daemon/state_log.h"
#include "daemon/warm_start_log.h"

namespace kvrouter {
namespace {

using std::chrono::milliseconds;

// Readiness, and whether a waiting request can go or has to (workers change, deadlines pass), are
// looked at this often.
constexpr milliseconds kTimerStep{100};
constexpr milliseconds kStateLogPeriod{500};
constexpr milliseconds kHttpStopGrace{500};

bool UsesEvents(const DaemonConfig& config) {
  return OverlapSourceOf(config.router) == OverlapSource::kEvents;
}

// What workers say of their loads is of use without events, too.
EventPlaneConfig PlaneOf(const DaemonConfig& config) {
  EventPlaneConfig plane = config.event_plane;
  plane.kv_events = UsesEvents(config);
  return plane;
}

}  // namespace

// What the timer thread waits on, and what only it touches.
struct Daemon::Timers {
  Mutex mu;
  CondVar wake;
  StateLog state_log;
  WarmStartLog warm_start_log;
  std::string last_reason = "starting";
  std::string last_log_failure;
  uint64_t forgotten_blocks = 0;        // for the bounds of a rank
  uint64_t whole_forgotten_blocks = 0;  // for the bound of all
};

Daemon::Daemon(DaemonConfig config, ConfigReloader* reloader)
    : config_(std::move(config)),
      reloader_(reloader),
      metrics_(config_.metrics),
      decision_log_(config_.decision_log),
      plan_log_(&metrics_),
      migration_log_(&metrics_),
      router_(config_.router, &plan_log_, &metrics_,
              decision_log_.Enabled() ? &decision_log_ : nullptr),
      service_(config_.service, &router_, &SteadyClock(), &migration_log_),
      workers_(&router_),
      sources_(&workers_, &journal_),
      workers_file_(config_.workers_file, ReadWorkersFile, &sources_, &journal_),
      kubernetes_(config_.kubernetes, &sources_, &journal_),
      selection_workers_(&workers_),
      select_cache_(config_.select_cache),
      replay_turns_(config_.replay_turns),
      signs_(UsesEvents(config_)),
      engine_loads_(
          config_.introspection.LoadStaleAfter(),
          // What is unknown speaks against nobody: 0.
          [this](Target target, std::optional<double> used_blocks) {
            router_.ReportLoad({.target = target, .kv_used_blocks = used_blocks.value_or(0)});
          }),
      introspection_(config_.introspection, {.registry = &workers_,
                                             .feeds = &feeds_,
                                             .sources = &sources_,
                                             .board = &signs_,
                                             .journal = &journal_,
                                             .loads = &engine_loads_}),
      published_({.uses_events = UsesEvents(config_),
                  .store_counting = config_.zmq.store_counting,
                  .replay_timeout = config_.zmq.replay_timeout,
                  .recovery_limit = config_.zmq.recovery_limit,
                  .max_batches_during_replay = config_.zmq.max_live_batches_during_replay},
                 &router_, &feeds_, &SteadyClock(), &replay_turns_),
      peers_(config_.peers, &SteadyClock()),
      zmq_(config_.zmq, &router_, &feeds_, &SteadyClock(), &replay_turns_, &saved_, &peers_),
      snapshots_(
          config_.snapshot,
          [this](MonotonicTime deadline, const std::function<bool(const SavedFeed&)>& take) {
            return zmq_.SaveFeeds(deadline, take);
          },
          &saved_, &SteadyClock()),
      event_plane_(
          PlaneOf(config_), config_.metrics.dynamo_namespace,
          {.timeout = config_.zmq.replay_timeout, .store_counting = config_.zmq.store_counting},
          &replay_turns_, &peers_, &router_, &feeds_, &loads_, &SteadyClock()),
      dispatch_(config_.dispatch, {.routing = &service_,
                                   .workers = &workers_,
                                   .clock = &SteadyClock(),
                                   .metrics = metrics_.Dispatch()}),
      route_text_(dispatch_.RouteText()),
      grpc_(config_.grpc, {.routing = &service_,
                           .workers = &workers_,
                           .feeds = &feeds_,
                           .router = &router_,
                           .published = &published_,
                           .signs = &signs_,
                           .route_text = dispatch_.RouteText()}),
      selection_({.routing = &service_,
                  .workers = &selection_workers_,
                  .signs = &signs_,
                  .feeds = &feeds_,
                  .cache = &select_cache_,
                  .router = &router_,
                  .clock = &SteadyClock(),
                  .readiness = [this] { return DescribeReadiness(); }}),
      http_(config_.http),
      indexer_({.workers = &workers_,
                .routing = &service_,
                .router = &router_,
                .feeds = &feeds_,
                .metrics_text = [this] { return metrics_.Text(); }}),
      readiness_rule_(config_.ready_bound, config_.min_initial_workers),
      timers_state_(std::make_unique<Timers>()) {
  metrics_.SetSources({.router = &router_,
                       .service = &service_,
                       .feeds = &feeds_,
                       .workers = &workers_,
                       .published = &published_,
                       .loads = &loads_,
                       .engine_loads = &engine_loads_,
                       .clock = &SteadyClock(),
                       .discovery = [this] { return ReadDiscovery(); },
                       .warm_start = [this] { return ReadWarmStart(); },
                       .record = [this] { return ReadRecord(); },
                       .dispatch = [this] { return dispatch_.State(); },
                       .http = [this] { return CurrentHttpFigures(); },
                       .ready = [this] { return CurrentReadiness().ready; }});
  workers_.AddListener(&published_);  // first: of a rank that gets a socket its blocks go
  if (PlaneIntake* const plane = event_plane_.Listener()) {
    workers_.AllowReplayAlone();
    workers_.AddListener(plane);
    published_.SetListener(plane);
  }
  // Who does not hear of workers opens no socket to them.
  if (UsesEvents(config_)) workers_.AddListener(&zmq_);
  workers_.AddListener(&dispatch_);
  AddOpsRoutes(&http_, [this] { return metrics_.Text(); });
  AddStatusRoutes(&http_, [this] { return CurrentStatus(); });
  selection_.AddRoutes(&http_);
  route_text_.AddRoutes(&http_);
  if (config_.indexer_listen.empty()) return;
  HttpServerConfig indexer = config_.http;
  indexer.listen = config_.indexer_listen;
  indexer_http_ = std::make_unique<HttpServer>(indexer);
  indexer_.AddRoutes(indexer_http_.get());
}

Daemon::~Daemon() { Stop(); }

absl::Status Daemon::Start() {
  KVR_RETURN_IF_ERROR(decision_log_.Start());
  LoadSnapshot();                          // before anybody can register a worker
  KVR_RETURN_IF_ERROR(dispatch_.Start());  // before the doors that call it, too
  KVR_RETURN_IF_ERROR(http_.Start());
  if (indexer_http_) KVR_RETURN_IF_ERROR(indexer_http_->Start());
  KVR_RETURN_IF_ERROR(grpc_.Start());
  KVR_RETURN_IF_ERROR(peers_.Start());
  KVR_RETURN_IF_ERROR(zmq_.Start());
  KVR_RETURN_IF_ERROR(event_plane_.Start());
  KVR_RETURN_IF_ERROR(RegisterWorkers());
  KVR_RETURN_IF_ERROR(snapshots_.Start());
  KVR_RETURN_IF_ERROR(WriteAddressesFile());
  running_ = true;
  spdlog::info("event=listening version={} overlap_source={} http={} grpc={}{}{}",
               config_.metrics.version, OverlapSourceName(OverlapSourceOf(config_.router)),
               HttpAddress(), GrpcAddress(),
               indexer_http_ ? fmt::format(" indexer={}", IndexerAddress()) : "",
               OpenAiAddress().empty() ? "" : fmt::format(" openai={}", OpenAiAddress()));
  timers_ = std::jthread([this](const std::stop_token& stop) { RunTimers(stop); });
  if (reloader_ != nullptr)
    reloader_->Start([this](const DaemonConfig& config) { return Reconfigure(config); });
  return absl::OkStatus();
}

void Daemon::Stop() {
  if (stopping_.exchange(true)) return;
  if (running_) spdlog::info("event=stopping live_requests={}", service_.LiveRequests());
  if (reloader_ != nullptr) reloader_->Stop();
  grpc_.SetServing(false);
  // Before all else that requests need: they may still have legs to book and to send.
  dispatch_.Stop();
  timers_.request_stop();  // it tells gRPC whether we are ready
  if (timers_.joinable()) timers_.join();
  // Feeds do not depend on the doors, so their last snapshot is written while calls finish.
  if (running_ && config_.snapshot.final_bound.count() > 0) snapshots_.BeginFinal();
  grpc_.SetServing(false);
  service_.StopIntake();
  grpc_.Stop(config_.shutdown_grace);
  if (indexer_http_) indexer_http_->Stop(kHttpStopGrace);
  http_.Stop(kHttpStopGrace);
  decision_log_.Stop();  // nobody decides any more
  LogDecisionLog();
  workers_file_.Stop();
  introspection_.Stop();  // after the doors, like the next: a name service that hangs may keep it
  kubernetes_.Stop();
  snapshots_.Stop();
  peers_.Stop();  // before the feeds that it answers
  LogWarmStart();
  event_plane_.Stop();
  zmq_.Stop();
  if (addresses_written_) std::remove(config_.addresses_file.c_str());
  if (running_) spdlog::info("event=stopped");
}

absl::Status Daemon::RegisterWorkers() {
  std::vector<DeclaredWorker> declared;
  for (const WorkerSpec& spec : config_.workers) declared.push_back({.spec = spec, .life = ""});
  KVR_RETURN_IF_ERROR(sources_.Replace(WorkerSource::kConfig, declared));
  journal_.Count(WorkerSource::kConfig, SourceOutcome::kApplied);
  journal_.SetCurrent(WorkerSource::kConfig, true);
  if (!config_.workers_file.path.empty()) KVR_RETURN_IF_ERROR(workers_file_.Start());
  if (config_.kubernetes.Enabled()) KVR_RETURN_IF_ERROR(kubernetes_.Start());
  introspection_.Start();
  return absl::OkStatus();
}

absl::Status Daemon::Reconfigure(const DaemonConfig& config) {
  KVR_RETURN_IF_ERROR(dispatch_.CheckChange(config.dispatch));
  KVR_RETURN_IF_ERROR(router_.Reconfigure(config.router).status());
  dispatch_.Change(config.dispatch);
  service_.PumpWaiting();  // who waits may be able to go
  spdlog::set_level(spdlog::level::from_str(config.log_level));
  return absl::OkStatus();
}

void Daemon::LogDecisionLog() {
  const std::string failure = decision_log_.Read().failure;
  if (failure == timers_state_->last_log_failure) return;
  timers_state_->last_log_failure = failure;
  if (failure.empty()) {
    spdlog::info("event=decision_log_writes_again");
  } else {
    spdlog::warn("event=decision_log_failed detail={}", LogValue(failure));
  }
}

void Daemon::LoadSnapshot() {
  if (!snapshots_.Enabled()) return;
  const absl::Status status = snapshots_.Load();
  const StateLog::Line line =
      SnapshotLoadLine(config_.snapshot.path, status, saved_.Read(), snapshots_.Read());
  spdlog::log(line.warning ? spdlog::level::warn : spdlog::level::info, "{}", line.text);
  workers_.RememberLives(saved_.Incarnations());
}

void Daemon::TendSavedFeeds(MonotonicTime now) {
  if (now - created_at_ >= config_.snapshot.worker_wait) saved_.GiveUp();
}

void Daemon::LogWarmStart() {
  for (const StateLog::Line& line :
       timers_state_->warm_start_log.Changes(saved_.Read(), snapshots_.Read(), peers_.Read())) {
    spdlog::log(line.warning ? spdlog::level::warn : spdlog::level::info, "{}", line.text);
  }
}

// Whole or not at all: whoever waits for the file may read it the moment it appears.
absl::Status Daemon::WriteAddressesFile() {
  if (config_.addresses_file.empty()) return absl::OkStatus();
  const std::string temporary = config_.addresses_file + ".tmp";
  {
    std::ofstream file(temporary, std::ios::trunc);
    file << "http=" << HttpAddress() << "\ngrpc=" << GrpcAddress() << "\n";
    if (indexer_http_) file << "indexer=" << IndexerAddress() << "\n";
    if (!OpenAiAddress().empty()) file << "openai=" << OpenAiAddress() << "\n";
    file.close();
    if (!file) {
      return absl::UnavailableError(
          fmt::format("addresses_file: cannot write {}: {}", temporary, std::strerror(errno)));
    }
  }
  if (std::rename(temporary.c_str(), config_.addresses_file.c_str()) != 0) {
    return absl::UnavailableError(fmt::format("addresses_file: cannot write {}: {}",
                                              config_.addresses_file, std::strerror(errno)));
  }
  addresses_written_ = true;
  return absl::OkStatus();
}

Readiness Daemon::CurrentReadiness() {
  // The workers first: when a worker is listed, its feed is known to the source, so that "recovery
  // done" speaks of it too.
  ReadinessRule::Inputs inputs{.starting = !running_.load(), .stopping = stopping_.load()};
  const std::vector<WorkerSpec> workers = workers_.List();
  for (const WorkerSpec& worker : workers) inputs.schedulable_workers += worker.draining ? 0 : 1;
  inputs.recovery_done = zmq_.InitialRecoveryDone() && published_.InitialRecoveryDone() &&
                         event_plane_.InitialRecoveryDone();
  const MonotonicTime now = SteadyClock().Now();
  Readiness readiness;
  {
    MutexLock lock(readiness_mu_);
    readiness = readiness_rule_.Evaluate(inputs, now);
  }
  return readiness;
}

Readiness Daemon::DescribeReadiness() {
  Readiness readiness = CurrentReadiness();
  readiness.openai_door = dispatch_.Describe(workers_.List(), stopping_.load());
  return readiness;
}

void Daemon::PublishReadiness() {
  const Readiness readiness = CurrentReadiness();
  grpc_.SetServing(readiness.ready);
  if (ready_.exchange(readiness.ready) == readiness.ready &&
      readiness.reason == timers_state_->last_reason)
    return;
  timers_state_->last_reason = readiness.reason;
  if (readiness.ready) {
    spdlog::info("event=ready schedulable_workers={}", readiness.schedulable_workers);
  } else {
    spdlog::info("event=not_ready reason={}", LogValue(readiness.reason));
  }
}

void Daemon::LogStateChanges() {
  for (const StateLog::Line& line :
       timers_state_->state_log.Changes(workers_.List(), feeds_.Reports())) {
    spdlog::log(line.warning ? spdlog::level::warn : spdlog::level::info, "{}", line.text);
  }
}

void Daemon::LogForgotten() {
  uint64_t by_rank = 0;
  uint64_t by_all = 0;
  for (const PartitionSnapshot& partition : router_.Snapshot()) {
    by_rank += partition.device_forgotten_total + partition.lower_tier_forgotten_total;
    by_all += partition.whole_forgotten_total;
  }
  const auto tell = [](uint64_t now, uint64_t* told, std::string_view why) {
    const uint64_t before = std::exchange(*told, now);
    if (now > before)
      spdlog::warn("event=blocks_forgotten blocks={} detail=\"{}\"", now - before, why);
  };
  tell(by_rank, &timers_state_->forgotten_blocks,
       "a rank announced more than max_device_blocks or max_lower_tier_blocks");
  tell(by_all, &timers_state_->whole_forgotten_blocks,
       "all ranks together hold more than max_index_blocks: the largest went");
}

void Daemon::LogDiscovery() {
  for (const DiscoveryJournal::Line& line : journal_.Take()) {
    std::string text = "event=" + line.event;
    for (const auto& [key, value] : line.fields)
      text += fmt::format(" {}={}", key, LogValue(value));
    spdlog::log(line.warning ? spdlog::level::warn : spdlog::level::info, "{}", text);
  }
}

void Daemon::RunTimers(const std::stop_token& stop) {
  pthread_setname_np(pthread_self(), "kvr-timers");
  const Clock& clock = SteadyClock();
  const std::stop_callback wake(stop, [this] { timers_state_->wake.NotifyAll(); });
  MonotonicTime next_tick = clock.Now() + config_.router.scheduler.expiry_check_period;
  MonotonicTime next_log = clock.Now();
  const milliseconds step = std::min(kTimerStep, config_.router.scheduler.expiry_check_period);
  while (!stop.stop_requested()) {
    const MonotonicTime now = clock.Now();
    published_.Tick();
    router_.ForgetRouted(now);
    router_.BoundIndex();
    engine_loads_.Expire(now);
    service_.PumpWaiting();
    PublishReadiness();
    sources_.Retry();
    if (now >= next_log) {
      LogDiscovery();
      TendSavedFeeds(now);
      LogWarmStart();
      LogDecisionLog();
      LogStateChanges();
      next_log = now + kStateLogPeriod;
    }
    if (now >= next_tick) {
      service_.Tick();
      select_cache_.Expire(now);
      LogForgotten();  // looks at every target: not more often
      next_tick = now + config_.router.scheduler.expiry_check_period;
    }
    MutexLock lock(timers_state_->mu);
    if (!stop.stop_requested()) timers_state_->wake.WaitFor(timers_state_->mu, step);
  }
}

}  // namespace kvrouter
