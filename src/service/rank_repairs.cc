#include "service/rank_repairs.h"

#include <fmt/format.h>
#include <pthread.h>

#include <algorithm>
#include <optional>
#include <stop_token>
#include <string>
#include <system_error>
#include <utility>

#include "kvrouter/error.h"

namespace kvrouter {

RankRepairs::RankRepairs(std::vector<const RankHistory*> histories, size_t threads, Done done)
    : histories_(std::move(histories)), thread_count_(threads), done_(std::move(done)) {}

RankRepairs::~RankRepairs() { Stop(); }

bool RankRepairs::Possible(const WorkerSpec& spec, uint32_t dp_rank) const {
  return std::any_of(histories_.begin(), histories_.end(),
                     [&](const RankHistory* history) { return history->Knows(spec, dp_rank); });
}

bool RankRepairs::Proves(const WorkerSpec& spec, uint32_t dp_rank) const {
  return std::any_of(histories_.begin(), histories_.end(), [&](const RankHistory* history) {
    return history->Proves() && history->Knows(spec, dp_rank);
  });
}

absl::Status RankRepairs::Start() {
  if (histories_.empty()) return absl::OkStatus();
  try {
    for (size_t i = 0; i < thread_count_; ++i) {
      threads_.emplace_back([this](const std::stop_token& stop) { Run(stop); });
      pthread_setname_np(threads_.back().native_handle(), fmt::format("kvr-repair-{}", i).c_str());
    }
  } catch (const std::system_error& error) {
    Stop();
    return MakeError(absl::StatusCode::kResourceExhausted, ErrorReason::kLimitReached,
                     fmt::format("repair thread: {}", error.what()));
  }
  return absl::OkStatus();
}

void RankRepairs::Stop() {
  for (std::jthread& thread : threads_) thread.request_stop();
  {
    MutexLock lock(mu_);
    waiting_.clear();
    for (const JobPtr& job : running_) job->cancelled = true;
    wake_.NotifyAll();
  }
  threads_.clear();
}

size_t RankRepairs::FreeThreads() const {
  MutexLock lock(mu_);
  const size_t busy = waiting_.size() + running_.size();
  return threads_.size() - std::min(busy, threads_.size());
}

void RankRepairs::Begin(Repair repair) {
  auto job = std::make_shared<Job>();
  job->repair = std::move(repair);
  MutexLock lock(mu_);
  waiting_.push_back(std::move(job));
  wake_.NotifyOne();
}

void RankRepairs::CancelUnless(const std::function<bool(Target target, uint64_t ticket)>& wanted) {
  MutexLock lock(mu_);
  const auto cancel = [&wanted](const JobPtr& job) {
    if (!wanted(job->repair.target(), job->repair.ticket)) job->cancelled = true;
  };
  std::for_each(waiting_.begin(), waiting_.end(), cancel);
  std::for_each(running_.begin(), running_.end(), cancel);
}

void RankRepairs::Run(const std::stop_token& stop) {
  while (true) {
    std::list<JobPtr>::iterator mine;
    JobPtr job;
    {
      MutexLock lock(mu_);
      while (waiting_.empty() && !stop.stop_requested()) wake_.Wait(mu_);
      if (stop.stop_requested()) return;
      job = std::move(waiting_.front());
      waiting_.pop_front();
      mine = running_.insert(running_.end(), job);
    }
    absl::StatusOr<RankPicture> picture = Fetch(*job);
    {
      MutexLock lock(mu_);
      running_.erase(mine);
    }
    if (!stop.stop_requested()) done_(job->repair.target(), job->repair.ticket, std::move(picture));
  }
}

absl::StatusOr<RankPicture> RankRepairs::Fetch(const Job& job) const {
  const auto cancelled = [&job] { return job.cancelled.load(std::memory_order_relaxed); };
  std::string failures;
  std::optional<RankPicture> partial;
  for (const RankHistory* history : histories_) {
    if (cancelled()) break;
    if (!history->Knows(job.repair.spec, job.repair.dp_rank)) continue;
    auto picture = history->Fetch(job.repair.spec, job.repair.dp_rank, cancelled);
    if (picture.ok() && picture->missing.empty()) return picture;
    if (!picture.ok()) {
      failures += failures.empty() ? "" : "; ";
      failures += std::string(picture.status().message());
    } else if (!partial) {
      partial = *std::move(picture);
    }
  }
  if (partial) return *std::move(partial);
  return absl::UnavailableError(failures.empty() ? "nobody wants it any more" : failures);
}

}  // namespace kvrouter
