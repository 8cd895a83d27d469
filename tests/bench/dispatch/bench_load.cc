#include "bench_load.h"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <iterator>
#include <memory>
#include <random>
#include <thread>
#include <utility>

#include "base/mutex.h"

namespace kvrouter {
namespace {

using SteadyClock = std::chrono::steady_clock;

constexpr std::chrono::seconds kPatience{120};
constexpr uint32_t kBodies = 64;  // prompts that take turns

double MillisecondsSince(SteadyClock::time_point start) {
  return std::chrono::duration<double, std::milli>(SteadyClock::now() - start).count();
}

std::shared_ptr<const std::string> MakeBody(const BenchLoad& load, uint32_t seed, bool hold) {
  std::minstd_rand random(seed + 1);
  std::string body = R"({"model":"m","prompt":[)";
  body.reserve(load.prompt_tokens * 7 + 200);
  for (uint32_t i = 0; i < load.prompt_tokens; ++i) {
    fmt::format_to(std::back_inserter(body), "{}{}", i == 0 ? "" : ",", 10000 + random() % 90000);
  }
  fmt::format_to(std::back_inserter(body), R"(],"stream":true,"max_tokens":{}{}}})",
                 load.max_tokens, hold ? R"(,"hold":true)" : "");
  return std::make_shared<const std::string>(std::move(body));
}

EngineCall MakeCall(const BenchLoad& load, std::shared_ptr<const std::string> body) {
  return {.base_url = load.url,
          .path = "/v1/completions",
          .headers = {{"content-type", "application/json"}},
          .body = std::move(body)};
}

// What the loops share.
class Course {
 public:
  Course(const BenchLoad& load, HttpEngineLink* link) : load_(load), link_(link) {
    for (uint32_t i = 0; i < kBodies; ++i) bodies_.push_back(MakeBody(load, i, /*hold=*/false));
  }

  // One after the other, until all requests are begun.
  void Next();
  void Done(double ttft_ms, double total_ms, bool good);
  BenchFigures Wait();

 private:
  const BenchLoad& load_;
  HttpEngineLink* const link_;
  std::vector<std::shared_ptr<const std::string>> bodies_;
  std::atomic<uint32_t> begun_{0};
  Mutex mu_;
  CondVar changed_;
  uint32_t ended_ ABSL_GUARDED_BY(mu_) = 0;
  BenchFigures figures_ ABSL_GUARDED_BY(mu_);
};

class TimedReply : public EngineReply {
 public:
  explicit TimedReply(Course* course) : course_(course) {}

  void OnHead(EngineReplyHead head) override { status_ = head.status; }
  void OnBody(std::string_view piece) override {
    if (ttft_ms_ == 0) ttft_ms_ = MillisecondsSince(start_);
    last_ = piece.substr(piece.size() - std::min<size_t>(piece.size(), 16));
  }
  void OnEnd(EngineEnd end, std::string_view) override {
    const bool good =
        end == EngineEnd::kComplete && status_ == 200 && last_.find("[DONE]") != std::string::npos;
    course_->Done(ttft_ms_, MillisecondsSince(start_), good);
    course_->Next();
  }

 private:
  Course* const course_;
  const SteadyClock::time_point start_ = SteadyClock::now();
  int status_ = 0;
  double ttft_ms_ = 0;
  std::string last_;
};

void Course::Next() {
  const uint32_t number = begun_.fetch_add(1);
  if (number >= load_.requests) return;
  link_->Send(MakeCall(load_, bodies_[number % kBodies]), std::make_shared<TimedReply>(this));
}

void Course::Done(double ttft_ms, double total_ms, bool good) {
  MutexLock lock(mu_);
  ++ended_;
  if (good) {
    figures_.ttft_ms.push_back(ttft_ms);
    figures_.total_ms.push_back(total_ms);
  } else {
    ++figures_.failed;
  }
  if (ended_ == load_.requests) changed_.NotifyAll();
}

BenchFigures Course::Wait() {
  MutexLock lock(mu_);
  while (ended_ < load_.requests) changed_.Wait(mu_);
  std::sort(figures_.ttft_ms.begin(), figures_.ttft_ms.end());
  std::sort(figures_.total_ms.begin(), figures_.total_ms.end());
  return std::move(figures_);
}

struct HeldReply : EngineReply {
  explicit HeldReply(std::atomic<uint32_t>* b) : began(b) {}
  void OnHead(EngineReplyHead) override {}
  void OnBody(std::string_view) override {
    if (!std::exchange(first_seen, true)) began->fetch_add(1);
  }
  void OnEnd(EngineEnd, std::string_view) override {}
  std::atomic<uint32_t>* const began;
  bool first_seen = false;
};

}  // namespace

BenchFigures RunLoad(const BenchLoad& load, HttpEngineLink* link) {
  Course course(load, link);
  const SteadyClock::time_point start = SteadyClock::now();
  for (uint32_t i = 0; i < load.concurrency; ++i) course.Next();
  BenchFigures figures = course.Wait();
  figures.seconds = MillisecondsSince(start) / 1000;
  link->Stop();  // the last reply may still be on its way back
  return figures;
}

uint32_t HoldStreams(const BenchLoad& load, HttpEngineLink* link) {
  static std::atomic<uint32_t> began{0};
  const SteadyClock::time_point until = SteadyClock::now() + kPatience;
  const auto body = MakeBody(load, 0, /*hold=*/true);
  for (uint32_t i = 0; i < load.requests; ++i) {
    link->Send(MakeCall(load, body), std::make_shared<HeldReply>(&began));
    // A few at a time, so that they are not all parsed at once.
    while (i >= began.load() + 8 && SteadyClock::now() < until) std::this_thread::yield();
  }
  while (began.load() < load.requests && SteadyClock::now() < until) std::this_thread::yield();
  return began.load();
}

}  // namespace kvrouter
