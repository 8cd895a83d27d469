#ifndef KVROUTER_CTL_BENCH_BENCH_LANE_H_
#define KVROUTER_CTL_BENCH_BENCH_LANE_H_

#include <grpcpp/channel.h>
#include <grpcpp/client_context.h>

#include <chrono>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "base/mutex.h"
#include "ctl/bench/bench_figures.h"
#include "ctl/bench/bench_options.h"
#include "ctl/bench/bench_schedule.h"
#include "ctl/bench/prompt_maker.h"
#include "kvrouter/v1/router.grpc.pb.h"

namespace kvrouter::ctl {

// One request at a time until the schedule ends: ask, note the answer, free the booking. A booking
// whose answer was lost is freed too, by its request id.
//
// Thread safety: Run on one thread, which owns all but CancelOverdue; results are read after it.
class BenchLane {
 public:
  struct Shared {
    const BenchOptions* options = nullptr;
    const PromptMaker* prompts = nullptr;
    BenchSchedule* schedule = nullptr;
    std::string run_id;  // request ids are RUN_ID-N
    std::chrono::milliseconds timeout{};
  };

  BenchLane(const Shared& shared, const std::shared_ptr<grpc::Channel>& channel);
  ~BenchLane();

  void Run();
  // From another thread, now and then: a message on a stream has no deadline of its own, so the
  // stream of one that is overdue is cancelled.
  void CancelOverdue();

  const BenchTally& tally() const { return tally_; }
  const std::vector<std::string>& not_freed() const { return not_freed_; }
  bool unreachable() const { return unreachable_; }

 private:
  class Stream;
  struct Outcome;

  Outcome AskUnary(const v1::RouteRequest& request);
  Outcome AskOnStream(const v1::RouteRequest& request);
  void Note(const Outcome& outcome, const BenchSchedule::Turn& turn,
            BenchSchedule::Clock::time_point sent);
  void Free(const std::string& request_id, bool booked);
  grpc::Status CloseStream();
  // From here on CancelOverdue may cancel the stream; until Unwatch, which tells whether it did.
  void Watch(grpc::ClientContext* context);
  bool Unwatch();

  const Shared shared_;
  const std::unique_ptr<v1::Router::Stub> stub_;
  BenchTally tally_;
  std::vector<std::string> not_freed_;
  bool unreachable_ = false;
  std::unique_ptr<Stream> stream_;  // kStream only; reopened after it broke

  Mutex mu_;
  grpc::ClientContext* busy_context_ ABSL_GUARDED_BY(mu_) =
      nullptr;  // of a stream that is being asked
  BenchSchedule::Clock::time_point busy_since_ ABSL_GUARDED_BY(mu_);
  bool overdue_ ABSL_GUARDED_BY(mu_) = false;
};

// kOk: a booking of this id is gone for sure. kUnavailable: the daemon cannot be reached.
absl::StatusCode FreeBooking(v1::Router::Stub* stub, const std::string& request_id,
                             std::chrono::milliseconds timeout);

}  // namespace kvrouter::ctl

#endif  // KVROUTER_CTL_BENCH_BENCH_LANE_H_
