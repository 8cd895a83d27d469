#include "ctl/bench/bench_command.h"

#include <fmt/format.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "base/status_macros.h"
#include "client/daemon_call.h"
#include "client/router_client.h"
#include "ctl/bench/bench_figures.h"
#include "ctl/bench/bench_lane.h"
#include "ctl/bench/bench_schedule.h"
#include "ctl/bench/prompt_maker.h"

namespace kvrouter::ctl {
namespace {

constexpr timespec kWatchPeriod{.tv_sec = 0, .tv_nsec = 50'000'000};
// A second signal sooner than this is the first one over again: timeout(1) signals twice.
constexpr std::chrono::seconds kImpatience{1};

sigset_t StopSignals() {
  sigset_t signals;
  sigemptyset(&signals);
  sigaddset(&signals, SIGINT);
  sigaddset(&signals, SIGTERM);
  return signals;
}

std::string NameOrDefault(const std::string& name) { return name.empty() ? "default" : name; }

// A run against nobody would only count errors: said at once, in one line.
absl::StatusOr<uint32_t> BlockSizeOfPartition(const Connection& connection,
                                              const BenchOptions& options) {
  client::RouterClient client(connection.grpc, connection.timeout);
  KVR_ASSIGN_OR_RETURN(const v1::ListResponse list, client.ListWorkers());
  const std::string model = NameOrDefault(options.model_name);
  const std::string group = NameOrDefault(options.routing_group);
  for (const v1::Worker& worker : list.workers()) {
    const v1::WorkerSpec& spec = worker.spec();
    if (spec.model_name() == model && spec.routing_group() == group && !worker.draining()) {
      return spec.block_size_tokens();
    }
  }
  return absl::NotFoundError(
      fmt::format("nobody to route to: the daemon at {} has no worker of model {} in routing group "
                  "{} that is not draining",
                  connection.grpc, model, group));
}

// Ends the schedule at the first signal and the program at the second; cancels what is overdue.
std::jthread Watch(const std::vector<std::unique_ptr<BenchLane>>& lanes, BenchSchedule* schedule,
                   std::atomic<bool>* stopped) {
  return std::jthread([&lanes, schedule, stopped](const std::stop_token& run_ended) {
    const sigset_t signals = StopSignals();
    BenchSchedule::Clock::time_point first{};
    while (!run_ended.stop_requested()) {
      if (sigtimedwait(&signals, nullptr, &kWatchPeriod) > 0) {
        const auto now = BenchSchedule::Clock::now();
        if (!stopped->exchange(true)) {
          first = now;
        } else if (now - first > kImpatience) {
          _exit(130);  // bookings under way are left to expire
        }
        schedule->Stop();
      }
      for (const auto& lane : lanes) lane->CancelOverdue();
    }
  });
}

BenchRun Collect(const Connection& connection, const BenchOptions& options,
                 const std::vector<std::unique_ptr<BenchLane>>& lanes) {
  BenchRun run;
  std::vector<std::string> not_freed;
  for (const auto& lane : lanes) {
    run.tally.Merge(lane->tally());
    run.unreachable = run.unreachable || lane->unreachable();
    not_freed.insert(not_freed.end(), lane->not_freed().begin(), lane->not_freed().end());
  }
  if (options.advise || not_freed.empty()) return run;
  const auto stub = v1::Router::NewStub(client::Connect(connection.grpc, /*own=*/true));
  for (const std::string& request_id : not_freed) {
    // A daemon that is gone is not asked for each of them.
    const bool ask = !run.unreachable || run.not_freed == 0;
    if (!ask || FreeBooking(stub.get(), request_id, connection.timeout) != absl::StatusCode::kOk) {
      ++run.not_freed;
    }
  }
  return run;
}

BenchRun Load(const Connection& connection, const BenchOptions& options,
              const PromptMaker& prompts) {
  const auto start = BenchSchedule::Clock::now();
  BenchSchedule schedule(options, start);
  // Another run against the same daemon must not meet this one's request ids.
  const BenchLane::Shared shared{
      .options = &options,
      .prompts = &prompts,
      .schedule = &schedule,
      .run_id = fmt::format("bench-{}-{:x}", getpid(), start.time_since_epoch().count()),
      .timeout = connection.timeout};
  const auto channel = client::Connect(connection.grpc);
  std::vector<std::unique_ptr<BenchLane>> lanes;
  for (uint32_t i = 0; i < options.concurrency; ++i) {
    lanes.push_back(std::make_unique<BenchLane>(shared, channel));
  }
  std::atomic<bool> stopped{false};
  {
    const std::jthread watcher = Watch(lanes, &schedule, &stopped);
    std::vector<std::jthread> threads;
    for (const auto& lane : lanes) threads.emplace_back([&lane] { lane->Run(); });
  }  // the lanes are joined before the watcher
  const std::chrono::duration<double> elapsed = BenchSchedule::Clock::now() - start;
  BenchRun run = Collect(connection, options, lanes);
  run.elapsed_s = elapsed.count();
  run.stopped = stopped.load();
  return run;
}

}  // namespace

absl::Status RunBench(const Connection& connection, const BenchOptions& options) {
  KVR_RETURN_IF_ERROR(Check(options));
  // gRPC's threads inherit the mask, so that only the watcher sees these signals.
  const sigset_t signals = StopSignals();
  pthread_sigmask(SIG_BLOCK, &signals, nullptr);
  KVR_ASSIGN_OR_RETURN(const uint32_t block_size_tokens, BlockSizeOfPartition(connection, options));
  const PromptMaker prompts(options, block_size_tokens);
  const BenchRun run = Load(connection, options, prompts);
  const std::string text = connection.json ? BenchJson(options, run) : BenchText(options, run);
  std::fwrite(text.data(), 1, text.size(), stdout);
  std::fflush(stdout);
  return Verdict(run);
}

}  // namespace kvrouter::ctl
