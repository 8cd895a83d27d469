#ifndef KVROUTER_TESTS_UNIT_DISPATCH_VIRTUAL_LINK_H_
#define KVROUTER_TESTS_UNIT_DISPATCH_VIRTUAL_LINK_H_

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "dispatch/client_reply.h"
#include "dispatch/engine_link.h"

namespace kvrouter {

// An EngineLink in virtual time, on the test's own thread: what is due runs when the test says so.
class VirtualLink final : public EngineLink {
 public:
  class Exchange;
  // What an engine does with a request: it has the exchange from now on.
  using Engine = std::function<void(const std::shared_ptr<Exchange>&)>;

  explicit VirtualLink(ManualClock* clock) : clock_(clock) {}

  class Exchange final : public EngineExchange, public std::enable_shared_from_this<Exchange> {
   public:
    Exchange(VirtualLink* link, EngineCall sent, std::shared_ptr<EngineReply> reply)
        : call(std::move(sent)), link_(link), reply_(std::move(reply)) {}

    // ---- The engine's side: at once, or after a time. ----
    void At(std::chrono::nanoseconds delay, std::function<void()> step) {
      link_->After(delay, [self = shared_from_this(), step = std::move(step)] {
        if (self->open_) step();
      });
    }
    void Head(int status, HeaderList headers) {
      if (!open_) return;
      has_head_ = true;
      Touch();
      const auto reply = reply_;  // may be cancelled meanwhile
      reply->OnHead({.status = status, .headers = std::move(headers)});
    }
    void Body(const std::string& piece) {
      if (!open_) return;
      Touch();
      if (paused_) {
        withheld_.push_back(piece);
        return;
      }
      const auto reply = reply_;
      reply->OnBody(piece);
    }
    void End(EngineEnd end, std::string_view detail = "") {
      if (!open_) return;
      if (paused_) {
        withheld_end_ = [this, end, text = std::string(detail)] { End(end, text); };
        return;
      }
      open_ = false;
      --link_->open_;
      const auto reply = std::move(reply_);
      reply->OnEnd(end, detail);
    }
    bool open() const { return open_; }
    bool paused() const { return paused_; }

    // ---- The dispatcher's side ----
    void Cancel() override {
      if (!open_) return;
      open_ = false;
      --link_->open_;
      ++link_->cancelled_;
      reply_ = nullptr;
    }
    void Pause() override { paused_ = true; }
    void Resume() override {
      paused_ = false;
      Touch();
      for (const std::string& piece : std::exchange(withheld_, {})) Body(piece);
      if (const auto end = std::exchange(withheld_end_, nullptr)) end();
    }

    const EngineCall call;

   private:
    friend class VirtualLink;
    // Time-outs as of the real link.
    void Touch() {
      const uint64_t touch = ++touches_;
      const auto limit = has_head_ ? call.idle_timeout : call.head_timeout;
      if (limit.count() == 0) return;
      link_->After(limit, [self = shared_from_this(), touch] {
        if (!self->open_ || self->touches_ != touch || self->paused_) return;
        self->End(self->has_head_ ? EngineEnd::kIdleTimeout : EngineEnd::kHeadTimeout, "silent");
      });
    }

    VirtualLink* const link_;
    std::shared_ptr<EngineReply> reply_;
    bool open_ = true;
    bool has_head_ = false;
    bool paused_ = false;
    uint64_t touches_ = 0;
    std::vector<std::string> withheld_;
    std::function<void()> withheld_end_;
  };

  // Nobody is at other addresses.
  void SetEngine(const std::string& base_url, Engine engine) {
    engines_[base_url] = std::move(engine);
  }

  std::shared_ptr<EngineExchange> Send(EngineCall call,
                                       std::shared_ptr<EngineReply> reply) override {
    auto exchange = std::make_shared<Exchange>(this, std::move(call), std::move(reply));
    ++open_;
    calls_.push_back(exchange->call);
    const auto engine = engines_.find(exchange->call.base_url);
    exchange->Touch();
    exchange->At(std::chrono::milliseconds(1), [exchange, engine, this] {
      if (engine == engines_.end()) {
        exchange->End(EngineEnd::kConnectFailed, "nobody there");
      } else {
        engine->second(exchange);
      }
    });
    return exchange;
  }
  std::function<void()> After(std::chrono::nanoseconds delay, std::function<void()> task) override {
    auto shared = std::make_shared<std::function<void()>>(std::move(task));
    due_.emplace(clock_->Now() + delay, shared);
    return [shared] { *shared = nullptr; };
  }
  void Forget(std::string_view) override {}

  // Runs what is due within `span`, in order.
  void Run(std::chrono::nanoseconds span) {
    const MonotonicTime until = clock_->Now() + span;
    while (!due_.empty() && due_.begin()->first <= until) {
      const auto next = due_.begin();
      if (next->first > clock_->Now()) clock_->Set(next->first);
      const auto task = next->second;
      due_.erase(next);
      if (*task) {
        const auto run = std::exchange(*task, nullptr);
        run();
      }
    }
    clock_->Set(until);
  }

  int open() const { return open_; }
  int cancelled() const { return cancelled_; }
  const std::vector<EngineCall>& calls() const { return calls_; }
  void ForgetCalls() { calls_.clear(); }

 private:
  ManualClock* const clock_;
  std::map<std::string, Engine> engines_;
  std::multimap<MonotonicTime, std::shared_ptr<std::function<void()>>> due_;
  std::vector<EngineCall> calls_;
  int open_ = 0;
  int cancelled_ = 0;
};

// A client that keeps what it is told.
class RecordingClient final : public ClientReply {
 public:
  void Complete(int status_, HeaderList headers_, std::string body_) override {
    if (gone) return;
    ++answers;
    status = status_;
    headers = std::move(headers_);
    body = std::move(body_);
    ended = true;
  }
  void Begin(int status_, HeaderList headers_) override {
    if (gone) return;
    ++answers;
    status = status_;
    headers = std::move(headers_);
  }
  bool Write(std::string_view piece) override {
    if (gone) return true;
    body += piece;
    ++writes;
    if (on_write) on_write();
    return keeps_up;
  }
  void End() override {
    if (gone) return;
    if (ended || answers != 1) ++misuses;
    ended = true;
  }
  void Cut() override {
    if (gone) return;
    if (ended || answers != 1) ++misuses;
    ended = cut = true;
  }
  void OnGone(std::function<void()> callback) override { gone_ = std::move(callback); }
  void OnDrained(std::function<void()> callback) override { drained_ = std::move(callback); }

  void Leave() {
    if (gone || ended) return;
    gone = true;
    if (gone_) gone_();
  }
  void Drain() {
    keeps_up = true;
    if (drained_) drained_();
  }
  std::string Header(std::string_view name) const {
    for (const auto& [key, value] : headers) {
      if (key == name) return value;
    }
    return "";
  }

  int answers = 0;
  int misuses = 0;
  int status = 0;
  HeaderList headers;
  std::string body;
  int writes = 0;
  bool ended = false;
  bool cut = false;
  bool gone = false;
  bool keeps_up = true;
  std::function<void()> on_write;

 private:
  std::function<void()> gone_;
  std::function<void()> drained_;
};

}  // namespace kvrouter

#endif  // KVROUTER_TESTS_UNIT_DISPATCH_VIRTUAL_LINK_H_
