#include "adapters/zmq/event_thread.h"

#include <fmt/format.h>
#include <pthread.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <chrono>
#include <system_error>
#include <utility>

#include "kvrouter/error.h"
#include "service/worker_registry.h"

namespace kvrouter {
namespace {

constexpr std::chrono::milliseconds kPollTimeout{50};
constexpr MonotonicTime kTickPeriod = std::chrono::milliseconds(50);

}  // namespace

EventThread::EventThread(std::string name, const FeedConnection::Env& env, const Clock* clock)
    : name_(std::move(name)),
      env_(env),
      clock_(clock),
      wake_fd_(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {}

EventThread::~EventThread() {
  Stop();
  if (wake_fd_ >= 0) close(wake_fd_);
}

absl::Status EventThread::Start() {
  if (wake_fd_ < 0) {
    return MakeError(absl::StatusCode::kResourceExhausted, ErrorReason::kLimitReached,
                     fmt::format("event thread {}: no descriptor for waking it", name_));
  }
  try {
    thread_ = std::jthread([this] { Run(); });
  } catch (const std::system_error& error) {
    return MakeError(absl::StatusCode::kResourceExhausted, ErrorReason::kLimitReached,
                     fmt::format("event thread {}: {}", name_, error.what()));
  }
  pthread_setname_np(thread_.native_handle(), name_.c_str());
  return absl::OkStatus();
}

void EventThread::Stop() {
  stop_.store(true, std::memory_order_relaxed);
  if (!thread_.joinable()) return;
  Wake();
  thread_.join();
}

void EventThread::Wake() {
  const uint64_t one = 1;
  // Fails only when the counter is at its maximum, and then the thread is awake anyway.
  if (wake_fd_ >= 0) (void)!write(wake_fd_, &one, sizeof(one));
}

void EventThread::Post(WorkerId worker, std::optional<WorkerSpec> wish) {
  {
    MutexLock lock(mu_);
    Wish& pending = wishes_[worker];
    if (!wish || (pending.spec && !SameFeedBasis(*pending.spec, *wish))) pending.reset = true;
    pending.spec = std::move(wish);
    ++posted_;
  }
  Wake();
}

bool EventThread::InitialRecoveryDone() const {
  MutexLock lock(mu_);
  return settled_ == posted_;
}

void EventThread::Run() {
  while (!stop_.load(std::memory_order_relaxed)) {
    try {
      Turn();
    } catch (const zmq::error_t& error) {
      if (error.num() == ETERM) break;
    }
  }
  workers_.clear();  // sockets are closed by the thread that owns them
}

void EventThread::Turn() {
  poll_items_.clear();
  poll_items_.push_back({.socket = nullptr, .fd = wake_fd_, .events = ZMQ_POLLIN, .revents = 0});
  ForEachConnection([&](FeedConnection& connection) { connection.AppendPollItems(&poll_items_); });
  zmq::poll(poll_items_, kPollTimeout);
  const MonotonicTime now = clock_->Now();
  size_t next = 1;
  if (poll_items_[0].revents == 0) {
    ForEachConnection([&](FeedConnection& connection) {
      const size_t count = connection.PollItemCount();
      if (stop_.load(std::memory_order_relaxed)) return;
      connection.OnPolled(poll_items_.data() + next, now);
      next += count;
    });
  } else {
    HandleWishes();  // what was polled may be gone; the next turn polls anew
    HandlePeerAnswers();
    AnswerSaveRequest();
  }
  Tend(now);
}

void EventThread::HandleWishes() {
  uint64_t count = 0;
  (void)!read(wake_fd_, &count, sizeof(count));
  std::map<WorkerId, Wish> wishes;
  {
    MutexLock lock(mu_);
    wishes.swap(wishes_);
    handled_ = posted_;
  }
  for (const auto& [id, wish] : wishes) {
    if (wish.spec) {
      ApplyWish(*wish.spec, wish.reset);
    } else {
      Forget(id);
    }
  }
}

void EventThread::AskPeers() {
  for (auto& [id, worker] : workers_) {
    for (auto& [rank, connection] : worker.connections) {
      if (!connection->WantsPeerBlocks()) continue;
      const uint64_t request = ++peer_requests_;
      connection->BeginPeerRequest(request);
      env_.peers->Request(
          worker.spec, rank,
          [this, target = Target{id, rank}, request](absl::StatusOr<PeerRankBlocks> answer) {
            {
              MutexLock lock(mu_);
              peer_answers_.push_back({target, request, std::move(answer)});
            }
            Wake();
          });
    }
  }
}

void EventThread::HandlePeerAnswers() {
  std::vector<PeerAnswer> answers;
  {
    MutexLock lock(mu_);
    answers.swap(peer_answers_);
  }
  for (const PeerAnswer& peer : answers) {
    const auto worker = workers_.find(peer.target.worker);
    if (worker == workers_.end()) continue;
    const auto connection = worker->second.connections.find(peer.target.dp_rank);
    if (connection != worker->second.connections.end())
      connection->second->OnPeerAnswer(peer.request, peer.answer);
  }
}

EventThread::Saved EventThread::SaveNext(std::optional<Target> after, MonotonicTime deadline) {
  SaveRequest request{.after = after, .result = {}};
  MutexLock lock(mu_);
  save_request_ = &request;
  Wake();
  while (!request.result.answered) {
    const MonotonicTime left = deadline - clock_->Now();
    if (left <= MonotonicTime::zero() || stop_.load(std::memory_order_relaxed)) break;
    saved_.WaitFor(mu_, left);
  }
  save_request_ = nullptr;
  return std::move(request.result);
}

void EventThread::AnswerSaveRequest() {
  std::optional<Target> after;
  {
    MutexLock lock(mu_);
    if (save_request_ == nullptr) return;
    after = save_request_->after;
  }
  Saved saved{.answered = true, .feed = SaveFirstBehind(after)};
  MutexLock lock(mu_);
  // Who asked may have given up, and another may ask for another one by now.
  if (save_request_ == nullptr || save_request_->after != after) return;
  save_request_->result = std::move(saved);
  saved_.NotifyAll();
}

std::optional<SavedFeed> EventThread::SaveFirstBehind(const std::optional<Target>& after) const {
  for (auto worker = after ? workers_.lower_bound(after->worker) : workers_.begin();
       worker != workers_.end(); ++worker) {
    const WorkerSpec& spec = worker->second.spec;
    for (const auto& [rank, connection] : worker->second.connections) {
      if (after && Target{spec.id, rank} <= *after) continue;
      std::optional<SavedProgress> progress = connection->Save();
      if (progress) return SavedFeed{.spec = spec, .rank = rank, .progress = *std::move(progress)};
    }
  }
  return std::nullopt;
}

void EventThread::ApplyWish(const WorkerSpec& spec, bool reset) {
  const auto known = workers_.find(spec.id);
  if (known != workers_.end() && (reset || !SameFeedBasis(known->second.spec, spec)))
    Forget(spec.id);
  Worker& worker = workers_[spec.id];
  worker.spec = spec;
  for (uint32_t i = 0; i < spec.dp_size; ++i) {
    const uint32_t rank = spec.dp_start_rank + i;
    const Target target{spec.id, rank};
    const auto wanted = spec.events.find(rank);
    const EventEndpoints endpoints =
        wanted == spec.events.end() ? EventEndpoints{} : wanted->second;
    const auto current = worker.connections.find(rank);
    if (current != worker.connections.end()) {
      if (current->second->endpoints() == endpoints) continue;
      current->second->DropBlocks();
      current->second->ReportLast();
      worker.connections.erase(current);
      env_.monitor->Remove(target);
    }
    if (endpoints.live.empty()) {
      env_.monitor->Update(
          {.target = target, .state = FeedState::kNone, .detail = "", .counters = {}});
      continue;
    }
    const ZmqEventSourceConfig& config = *env_.config;
    worker.connections[rank] = std::make_unique<FeedConnection>(
        env_,
        EngineFeedConfig{.target = target,
                         .incarnation = spec.incarnation,
                         .dp_start_rank = spec.dp_start_rank,
                         .dp_size = spec.dp_size,
                         .block_size_tokens = spec.block_size_tokens,
                         .is_eagle = spec.is_eagle,
                         .image_token_id = spec.image_token_id,
                         .counting = config.store_counting,
                         .has_replay = !endpoints.replay.empty(),
                         .replay_timeout = config.replay_timeout,
                         .recovery_limit = config.recovery_limit,
                         .max_buffered_batches = config.max_live_batches_during_replay,
                         .jitter_seed = env_.jitter_seed},
        endpoints);
    if (env_.saved == nullptr) continue;
    if (auto saved = env_.saved->Claim(spec, rank))
      worker.connections[rank]->Restore(*std::move(saved));
  }
}

void EventThread::Forget(WorkerId id) {
  const auto known = workers_.find(id);
  if (known == workers_.end()) return;
  const WorkerSpec& spec = known->second.spec;
  for (auto& [rank, connection] : known->second.connections) {
    // Same life, or one that came back under the same number: the index still holds what the feed
    // put there. Another life, or none: the core drops this as stale.
    connection->DropBlocks();
    connection->ReportLast();
  }
  for (uint32_t i = 0; i < spec.dp_size; ++i) env_.monitor->Remove({id, spec.dp_start_rank + i});
  workers_.erase(known);
}

// What time brings: time-outs, replays that waited for their turn, reports.
void EventThread::Tend(MonotonicTime now) {
  if (now - last_tick_ >= kTickPeriod) {
    last_tick_ = now;
    ForEachConnection([&](FeedConnection& connection) { connection.OnTick(now); });
  }
  if (env_.peers != nullptr) AskPeers();
  bool recovering = false;
  ForEachConnection([&](FeedConnection& connection) {
    connection.StartReplay(now);
    connection.Report(now);
    recovering = recovering || !connection.InitialRecoveryDone();
  });
  if (recovering) return;
  MutexLock lock(mu_);
  settled_ = handled_;
}

template <typename Visit>
void EventThread::ForEachConnection(const Visit& visit) {
  for (auto& [id, worker] : workers_) {
    for (auto& [rank, connection] : worker.connections) visit(*connection);
  }
}

}  // namespace kvrouter
