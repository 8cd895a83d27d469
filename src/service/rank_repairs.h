#ifndef KVROUTER_SERVICE_RANK_REPAIRS_H_
#define KVROUTER_SERVICE_RANK_REPAIRS_H_

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <list>
#include <memory>
#include <thread>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/mutex.h"
#include "feed/plane_feed.h"
#include "service/rank_history.h"

namespace kvrouter {

// The few threads that ask histories for ranks, each one rank at a time: the bound on repairs at
// once. Histories are asked in their order until one gives the whole picture; failing that the
// first partial one counts.
//
// Thread safety: Begin, FreeThreads and CancelUnless from one thread; `done` is called on others.
// Start and Stop once.
class RankRepairs {
 public:
  using Repair = PlaneFeed::Repair;
  using Done = std::function<void(Target target, uint64_t ticket, absl::StatusOr<RankPicture>)>;

  // The histories outlive this object.
  RankRepairs(std::vector<const RankHistory*> histories, size_t threads, Done done);
  ~RankRepairs();  // stops

  bool Possible(const WorkerSpec& spec, uint32_t dp_rank) const;

  // Whether one of those who can be asked gives proof.
  bool Proves(const WorkerSpec& spec, uint32_t dp_rank) const;

  absl::Status Start();
  // Cancels what runs; `done` is not called after it.
  void Stop();

  // Threads without a repair. REQUIRES for Begin: at least one.
  size_t FreeThreads() const;
  void Begin(Repair repair);
  // Those that nobody wants any more end soon, with an error.
  void CancelUnless(const std::function<bool(Target target, uint64_t ticket)>& wanted);

 private:
  struct Job {
    Repair repair;
    std::atomic<bool> cancelled{false};
  };
  using JobPtr = std::shared_ptr<Job>;

  void Run(const std::stop_token& stop);
  absl::StatusOr<RankPicture> Fetch(const Job& job) const;

  const std::vector<const RankHistory*> histories_;
  const size_t thread_count_;
  const Done done_;

  mutable Mutex mu_;
  CondVar wake_;
  std::deque<JobPtr> waiting_ ABSL_GUARDED_BY(mu_);
  std::list<JobPtr> running_ ABSL_GUARDED_BY(mu_);

  std::vector<std::jthread> threads_;
};

}  // namespace kvrouter

#endif  // KVROUTER_SERVICE_RANK_REPAIRS_H_
