#ifndef KVROUTER_ADAPTERS_ZMQ_EVENT_THREAD_H_
#define KVROUTER_ADAPTERS_ZMQ_EVENT_THREAD_H_

#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "adapters/zmq/feed_connection.h"
#include "base/clock.h"
#include "base/mutex.h"
#include "feed/saved_feed.h"
#include "kvrouter/worker.h"

namespace kvrouter {

// One thread that owns every socket of the workers given to it.
//
// Wishes reach it through a mailbox that keeps the newest wish per worker, so it is bounded by the
// number of workers, and nothing is ever lost to a full queue. That an older wish ended the
// worker's feeds is kept with the newer one.
//
// Thread safety: Post, InitialRecoveryDone and Stop from any thread.
class EventThread {
 public:
  EventThread(std::string name, const FeedConnection::Env& env, const Clock* clock);
  ~EventThread();  // stops

  // Error when the system has no wake-up descriptor or no thread to give.
  absl::Status Start();
  void Stop();

  // What is wanted of a worker from now on; absent = it is gone.
  void Post(WorkerId worker, std::optional<WorkerSpec> wish);

  bool InitialRecoveryDone() const;

  // Has the thread save the first feed behind `after` (absent: the first of all) that can be
  // continued. Nothing in `feed`: there is none, or the thread did not come to it by `deadline`
  // (then not `answered`). From one other thread at a time.
  struct Saved {
    bool answered = false;
    std::optional<SavedFeed> feed;
  };
  Saved SaveNext(std::optional<Target> after, MonotonicTime deadline);

 private:
  struct SaveRequest {
    std::optional<Target> after;
    Saved result;
  };
  struct Worker {
    WorkerSpec spec;
    std::map<uint32_t, std::unique_ptr<FeedConnection>>
        connections;  // by rank; ranks without endpoint are absent
  };

  struct Wish {
    std::optional<WorkerSpec> spec;  // absent = the worker is gone
    bool reset = false;              // its feeds up to now are void, even if `spec` is as before
  };

  void Run();
  void Turn();
  void Wake();
  void HandleWishes();
  void ApplyWish(const WorkerSpec& spec, bool reset);
  void Forget(WorkerId id);
  void AnswerSaveRequest();
  void AskPeers();
  void HandlePeerAnswers();
  std::optional<SavedFeed> SaveFirstBehind(const std::optional<Target>& after) const;
  void Tend(MonotonicTime now);
  // Calls `visit` for every connection.
  template <typename Visit>
  void ForEachConnection(const Visit& visit);

  const std::string name_;
  const FeedConnection::Env env_;
  const Clock* const clock_;
  const int wake_fd_;  // wishes that came before Start stay readable in it
  std::atomic<bool> stop_{false};

  mutable Mutex mu_;
  std::map<WorkerId, Wish> wishes_ ABSL_GUARDED_BY(mu_);
  uint64_t posted_ ABSL_GUARDED_BY(mu_) = 0;
  struct PeerAnswer {
    Target target;
    uint64_t request = 0;
    absl::StatusOr<PeerRankBlocks> answer;
  };
  std::vector<PeerAnswer> peer_answers_ ABSL_GUARDED_BY(mu_);  // one per connection at most
  CondVar saved_;
  SaveRequest* save_request_ ABSL_GUARDED_BY(mu_) = nullptr;  // of who waits in SaveNext
  uint64_t settled_ ABSL_GUARDED_BY(mu_) = 0;  // wishes whose connections exist and left recovery

  // The thread's own.
  std::map<WorkerId, Worker> workers_;
  std::vector<zmq::pollitem_t> poll_items_;
  MonotonicTime last_tick_{};
  uint64_t handled_ = 0;
  uint64_t peer_requests_ = 0;

  std::jthread thread_;
};

}  // namespace kvrouter

#endif  // KVROUTER_ADAPTERS_ZMQ_EVENT_THREAD_H_
