// Many threads at once: clients that come and leave, engines that answer, fail, stall and are
// cancelled, workers that come and go, and a dispatcher that is stopped. Each client hears one end,
// and nothing is left.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <functional>
#include <map>
#include <memory>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "base/clock.h"
#include "base/mutex.h"
#include "dispatch/dispatcher.h"
#include "kvrouter/router.h"
#include "service/routing_service.h"
#include "service/worker_registry.h"

namespace kvrouter {
namespace {

using std::chrono::microseconds;
using std::chrono::milliseconds;
using std::chrono::nanoseconds;
using std::chrono::seconds;

// Tasks at their time, on a few threads.
class Loop {
 public:
  explicit Loop(int threads) {
    for (int i = 0; i < threads; ++i) threads_.emplace_back([this] { Run(); });
  }
  ~Loop() { Stop(); }
  void Stop() {
    {
      MutexLock lock(mu_);
      stopped_ = true;
    }
    wake_.NotifyAll();
    threads_.clear();
  }
  void At(nanoseconds delay, std::function<void()> task) {
    {
      MutexLock lock(mu_);
      due_.emplace(SteadyClock().Now() + delay, std::move(task));
    }
    wake_.NotifyOne();
  }

 private:
  void Run() {
    while (true) {
      std::function<void()> task;
      {
        MutexLock lock(mu_);
        while (!stopped_ && (due_.empty() || due_.begin()->first > SteadyClock().Now()))
          wake_.WaitFor(mu_, microseconds(500));
        if (stopped_) return;
        task = std::move(due_.begin()->second);
        due_.erase(due_.begin());
      }
      task();
    }
  }

  Mutex mu_;
  CondVar wake_;
  bool stopped_ ABSL_GUARDED_BY(mu_) = false;
  std::multimap<MonotonicTime, std::function<void()>> due_ ABSL_GUARDED_BY(mu_);
  std::vector<std::jthread> threads_;
};

// An engine's answer in steps; the steps of one exchange follow each other, on any thread.
class Exchange final : public EngineExchange, public std::enable_shared_from_this<Exchange> {
 public:
  Exchange(Loop* loop, std::atomic<int>* open, EngineCall call, std::shared_ptr<EngineReply> reply,
           uint64_t seed)
      : loop_(loop), open_(open), call_(std::move(call)), reply_(std::move(reply)), random_(seed) {
    ++*open_;
  }
  void Start() { Next(0); }
  void Cancel() override {
    MutexLock lock(mu_);
    Close();
  }
  void Pause() override {
    MutexLock lock(mu_);
    paused_ = true;
  }
  void Resume() override {
    MutexLock lock(mu_);
    paused_ = false;
  }

 private:
  static constexpr int kTokens = 4;

  void Close() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_) {
    if (!closed_) --*open_;
    closed_ = true;
  }
  std::shared_ptr<EngineReply> Reply() {
    MutexLock lock(mu_);
    return closed_ ? nullptr : reply_;
  }
  bool Paused() {
    MutexLock lock(mu_);
    return paused_;
  }
  void Next(int step) {
    loop_->At(microseconds(random_() % 300),
              [self = shared_from_this(), step] { self->Step(step); });
  }
  void End(EngineEnd end) {
    std::shared_ptr<EngineReply> reply;
    {
      MutexLock lock(mu_);
      if (closed_) return;
      Close();
      reply = std::move(reply_);
    }
    reply->OnEnd(end, "");
  }
  bool Produces() const {
    return call_.body->find("\"do_remote_decode\":true") != std::string::npos;
  }
  void Step(int step) {
    const auto reply = Reply();
    if (!reply) return;
    if (Paused()) {
      Next(step);
      return;
    }
    const uint64_t luck = random_() % 100;
    if (step == 0 && luck < 6) return End(EngineEnd::kConnectFailed);
    if (luck < 8) return End(EngineEnd::kCut);
    if (step == 0) {
      const int status = luck < 12 ? 500 : luck < 14 ? 429 : 200;
      const bool stream = call_.body->find("\"stream\":true") != std::string::npos && status == 200;
      last_ = stream ? kTokens : 1;
      reply->OnHead(
          {.status = status,
           .headers = {{"content-type", stream ? "text/event-stream" : "application/json"}}});
    } else if (step <= last_) {
      reply->OnBody(
          last_ > 1 ? R"(data: {"choices":[{"text":"x","finish_reason":null}]})"
                      "\n\n"
          : Produces()
              ? R"({"kv_transfer_params":{"do_remote_prefill":true,"remote_engine_id":"e",)"
                R"("remote_request_id":"r","remote_host":"h","remote_port":1,)"
                R"("remote_block_ids":[1]}})"
              : R"({"choices":[{"text":"x","finish_reason":"stop"}],"tokens":[1,2]})");
    } else {
      if (last_ > 1) reply->OnBody("data: [DONE]\n\n");
      return End(EngineEnd::kComplete);
    }
    Next(step + 1);
  }

  Loop* const loop_;
  std::atomic<int>* const open_;
  const EngineCall call_;
  Mutex mu_;
  std::shared_ptr<EngineReply> reply_ ABSL_GUARDED_BY(mu_);
  bool closed_ ABSL_GUARDED_BY(mu_) = false;
  bool paused_ ABSL_GUARDED_BY(mu_) = false;
  std::mt19937_64 random_;  // by the step at hand
  int last_ = 1;
};

class ThreadedLink final : public EngineLink {
 public:
  explicit ThreadedLink(Loop* loop) : loop_(loop) {}
  std::shared_ptr<EngineExchange> Send(EngineCall call,
                                       std::shared_ptr<EngineReply> reply) override {
    auto exchange = std::make_shared<Exchange>(loop_, &open_, std::move(call), std::move(reply),
                                               next_seed_.fetch_add(1));
    exchange->Start();
    return exchange;
  }
  std::function<void()> After(nanoseconds delay, std::function<void()> task) override {
    const auto cancelled = std::make_shared<std::atomic<bool>>(false);
    loop_->At(delay, [cancelled, task = std::move(task)] {
      if (!cancelled->exchange(true)) task();
    });
    return [cancelled] { *cancelled = true; };
  }
  void Forget(std::string_view) override {}
  int open() const { return open_; }

 private:
  Loop* const loop_;
  std::atomic<int> open_{0};
  std::atomic<uint64_t> next_seed_{1};
};

class Client final : public ClientReply {
 public:
  void Complete(int, HeaderList, std::string) override { Note(true); }
  void Begin(int, HeaderList) override { ++begun; }
  bool Write(std::string_view) override { return writes.fetch_add(1) % 3 != 0; }
  void End() override { Note(false); }
  void Cut() override { Note(false); }
  void OnGone(std::function<void()> gone) override {
    MutexLock lock(mu_);
    gone_ = std::move(gone);
  }
  void OnDrained(std::function<void()> drained) override {
    MutexLock lock(mu_);
    drained_ = std::move(drained);
  }
  void Leave() { Call(&Client::gone_); }
  void Drain() { Call(&Client::drained_); }

  std::atomic<int> begun{0}, ends{0}, writes{0};
  std::atomic<bool> left{false};

 private:
  void Note(bool whole) {
    if (whole == (begun > 0)) ++ends;  // completed after a beginning, or ended without one
    ++ends;
  }
  void Call(std::function<void()> Client::*which) {
    std::function<void()> call;
    {
      MutexLock lock(mu_);
      call = this->*which;
    }
    if (call) call();
  }

  Mutex mu_;
  std::function<void()> gone_ ABSL_GUARDED_BY(mu_);
  std::function<void()> drained_ ABSL_GUARDED_BY(mu_);
};

WorkerSpec Spec(uint64_t id) {
  WorkerSpec spec;
  spec.id = WorkerId{id};
  spec.model_name = "m";
  spec.address = fmt::format("http://10.0.0.{}:1", id);
  spec.block_size_tokens = 16;
  spec.role = id < 3 ? WorkerRole::kPrefill : WorkerRole::kDecode;
  return spec;
}

TEST(DispatchThreadsTest, EachClientHearsOneEndAndNothingIsLeft) {
  RouterConfig config;
  config.scheduler.queue.busy.tokens = 400;
  Router router(config, nullptr);
  WorkerRegistry registry(&router);
  RoutingService service({}, &router, &SteadyClock());
  Loop loop(3);
  ThreadedLink link(&loop);
  DispatchConfig dispatch;
  dispatch.total_timeout = seconds(20);
  Dispatcher dispatcher(
      dispatch,
      {.routing = &service, .workers = &registry, .link = &link, .clock = &SteadyClock()});
  for (uint64_t id = 1; id <= 6; ++id) ASSERT_TRUE(registry.Register(Spec(id)).ok());

  constexpr int kClientsPerThread = 150;
  std::vector<std::vector<std::shared_ptr<Client>>> clients(3);
  std::atomic<bool> running{true};
  {
    std::vector<std::jthread> threads;
    for (size_t t = 0; t < clients.size(); ++t) {
      threads.emplace_back([&, t] {
        std::mt19937_64 random(t);
        for (int i = 0; i < kClientsPerThread; ++i) {
          auto client = std::make_shared<Client>();
          clients[t].push_back(client);
          DispatchRequest request;
          request.path = "/v1/completions";
          request.body = fmt::format(R"({{"model":"m","stream":{},"prompt":{}}})",
                                     random() % 2 == 0 ? "true" : "false",
                                     random() % 3 == 0 ? R"("text")" : "[1,2,3,4,5,6,7,8,9]");
          dispatcher.Serve(std::move(request), client);
          if (random() % 4 == 0) {
            client->left = true;
            loop.At(microseconds(random() % 1500), [client] { client->Leave(); });
          }
          const auto someone = clients[t][random() % clients[t].size()];
          someone->Drain();
          std::this_thread::sleep_for(microseconds(random() % 200));
        }
      });
    }
    std::jthread churn([&] {
      std::mt19937_64 random(99);
      while (running) {
        const uint64_t id = 1 + random() % 6;
        if (id != 6) (void)registry.Remove(WorkerId{id});
        service.PumpWaiting();
        std::this_thread::sleep_for(microseconds(500));
        (void)registry.Register(Spec(id));
      }
    });
    threads.clear();
    const MonotonicTime patience = SteadyClock().Now() + seconds(60);
    while (dispatcher.Counters().live > 0 && SteadyClock().Now() < patience) {
      for (const auto& of_thread : clients) {
        for (const auto& client : of_thread) client->Drain();
      }
      service.PumpWaiting();
      std::this_thread::sleep_for(milliseconds(1));
    }
    running = false;
  }
  EXPECT_EQ(dispatcher.Counters().live, 0u);
  dispatcher.Stop({});
  loop.Stop();
  for (const auto& of_thread : clients) {
    for (const auto& client : of_thread) {
      EXPECT_LE(client->ends, 1);
      if (!client->left) {
        EXPECT_EQ(client->ends, 1);
      }
    }
  }
  service.Tick();
  EXPECT_EQ(service.LiveRequests(), 0u);
  EXPECT_EQ(service.Counters().waiting, 0u);
  EXPECT_EQ(link.open(), 0);
  for (const PartitionSnapshot& partition : router.Snapshot()) EXPECT_EQ(partition.bookings, 0u);
}

TEST(DispatchThreadsTest, AStopInTheMiddleEndsEverybody) {
  for (int round = 0; round < 20; ++round) {
    SCOPED_TRACE(round);
    Router router({}, nullptr);
    WorkerRegistry registry(&router);
    RoutingService service({}, &router, &SteadyClock());
    Loop loop(2);
    ThreadedLink link(&loop);
    std::vector<std::shared_ptr<Client>> clients;
    {
      Dispatcher dispatcher(
          {}, {.routing = &service, .workers = &registry, .link = &link, .clock = &SteadyClock()});
      for (uint64_t id = 1; id <= 6; ++id) ASSERT_TRUE(registry.Register(Spec(id)).ok());
      for (int i = 0; i < 20; ++i) {
        clients.push_back(std::make_shared<Client>());
        DispatchRequest request;
        request.path = "/v1/completions";
        request.body = R"({"model":"m","stream":true,"prompt":[1,2,3]})";
        dispatcher.Serve(std::move(request), clients.back());
      }
      std::this_thread::sleep_for(microseconds(100 * round));
      dispatcher.Stop(round % 2 == 0 ? nanoseconds(0) : nanoseconds(microseconds(200)));
      EXPECT_EQ(dispatcher.Counters().live, 0u);
    }
    loop.Stop();
    for (const auto& client : clients) EXPECT_EQ(client->ends, 1);
    EXPECT_EQ(service.LiveRequests(), 0u);
  }
}

}  // namespace
}  // namespace kvrouter
