// Many threads submit, wait, leave and free at once, over workers that come and go: each request is
// answered once, and nothing is left.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <array>
#include <chrono>
#include <memory>
#include <optional>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "base/clock.h"
#include "base/mutex.h"
#include "kvrouter/router.h"
#include "service/routing_service.h"
#include "service/worker_registry.h"

namespace kvrouter {
namespace {

constexpr uint64_t kWorkers = 4;

RouterConfig QueueingConfig() {
  RouterConfig config;
  config.scheduler.queue.busy.tokens = 100;
  config.scheduler.queue.overlap_refresh_after = std::chrono::milliseconds(1);
  config.scheduler.overload.active_prefill_tokens = 100'000;
  return config;
}

WorkerSpec AWorker(uint64_t id) {
  WorkerSpec spec;
  spec.id = WorkerId{id};
  spec.address = fmt::format("http://10.0.0.{}:8000", id);
  spec.block_size_tokens = 16;
  return spec;
}

// One request, shared by the thread that asks and the one that answers.
struct Call {
  std::string id;
  TicketId ticket{};
  Mutex mu;
  int answers ABSL_GUARDED_BY(mu) = 0;
  bool booked ABSL_GUARDED_BY(mu) = false;

  void Answer(const RoutingService::Answer& answer) {
    MutexLock lock(mu);
    ++answers;
    booked = answer.ok() && answer->booked;
  }
  int Answers() {
    MutexLock lock(mu);
    return answers;
  }
};

class Fleet {
 public:
  Fleet()
      : router_(QueueingConfig(), nullptr),
        registry_(&router_),
        service_({}, &router_, &SteadyClock()) {
    for (uint64_t id = 1; id <= kWorkers; ++id) {
      EXPECT_TRUE(registry_.Register(AWorker(id)).ok());
    }
  }

  void Ask(uint64_t thread, int rounds) {
    std::mt19937_64 random(thread);
    std::vector<TokenId> tokens(160);
    for (int round = 0; round < rounds; ++round) {
      for (TokenId& token : tokens) token = static_cast<TokenId>(random() % 3);
      const auto call = std::make_shared<Call>();
      call->id = fmt::format("t{}-{}", thread, round);
      RouteRequest request;
      request.request_id = call->id;
      request.prompt = TokenPrompt{tokens};
      request.book = random() % 8 != 0;
      if (random() % 4 == 0) request.deadline = SteadyClock().Now() + std::chrono::milliseconds(2);
      const auto wait = [&call](TicketId ticket) -> RoutingService::Completion {
        call->ticket = ticket;
        return [call](const RoutingService::Answer& answer) { call->Answer(answer); };
      };
      const auto answer = service_.Submit(request, wait);
      if (answer) call->Answer(*answer);
      if (!answer && random() % 3 == 0) service_.Abandon(call->id, call->ticket);
      if (random() % 4 == 0) service_.PrefillComplete(call->id);
      calls_[thread].push_back(call);
      // So many at once that all workers are busy, even if the threads take turns.
      if (calls_[thread].size() > kAtOnce) {
        // Also of one that waits, or was never booked.
        service_.Free(calls_[thread][calls_[thread].size() - 1 - kAtOnce]->id,
                      random() % 2 == 0 ? LegOutcome::kFailed : LegOutcome::kSucceeded);
      }
    }
    for (const auto& call : calls_[thread]) service_.Free(call->id);
  }

  void Disturb(const std::stop_token& stop) {
    std::mt19937_64 random(99);
    while (!stop.stop_requested()) {
      const uint64_t id = 1 + random() % kWorkers;
      if (random() % 2 == 0) (void)registry_.Remove(WorkerId{id});
      (void)registry_.Register(AWorker(id));
      router_.ReportLoad({.target = {.worker = WorkerId{id}}, .kv_used_blocks = 5});
      service_.PumpWaiting();
      service_.Tick();
      (void)router_.Snapshot();
      std::this_thread::yield();
    }
  }

  void ExpectNothingIsLeft() {
    for (uint64_t id = 1; id <= kWorkers; ++id) (void)registry_.Register(AWorker(id));
    service_.Tick();
    for (const auto& calls : calls_) {
      for (const auto& call : calls) {
        if (call->ticket != kNoTicket)
          service_.Abandon(call->id, call->ticket);  // advice that waits
        EXPECT_EQ(call->Answers(), 1) << call->id;
      }
    }
    service_.Tick();
    EXPECT_EQ(service_.LiveRequests(), 0u);
    EXPECT_EQ(service_.Counters().waiting, 0u);
    EXPECT_EQ(service_.Counters().requests_started, service_.Counters().requests_finished);
    for (const PartitionSnapshot& partition : router_.Snapshot()) {
      EXPECT_EQ(partition.bookings, 0u);
      EXPECT_EQ(partition.queue.at(0).waiting, 0u);
      EXPECT_GT(partition.queue.at(0).parked_total, 0u);
      for (const TargetLoad& load : partition.loads) {
        EXPECT_EQ(load.active_prefill_tokens, 0u);
        EXPECT_EQ(load.active_requests, 0u);
        EXPECT_EQ(load.active_decode_blocks, 0);
      }
    }
  }

  static constexpr uint64_t kThreads = 4;
  static constexpr size_t kAtOnce = 12;

 private:
  Router router_;
  WorkerRegistry registry_;
  RoutingService service_;
  std::array<std::vector<std::shared_ptr<Call>>, kThreads> calls_;
};

TEST(WaitingThreadsTest, EachIsAnsweredOnceAndNothingIsLeft) {
  Fleet fleet;
  {
    std::jthread disturber([&](const std::stop_token& stop) { fleet.Disturb(stop); });
    std::vector<std::jthread> askers;
    for (uint64_t thread = 0; thread < Fleet::kThreads; ++thread) {
      askers.emplace_back([&fleet, thread] { fleet.Ask(thread, 1500); });
    }
    askers.clear();
  }
  fleet.ExpectNothingIsLeft();
}

}  // namespace
}  // namespace kvrouter
