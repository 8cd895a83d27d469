#ifndef KVROUTER_TESTS_INTEGRATION_ENGINE_HTTP_RECORDING_REPLY_H_
#define KVROUTER_TESTS_INTEGRATION_ENGINE_HTTP_RECORDING_REPLY_H_

#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <thread>
#include <utility>

#include "base/mutex.h"
#include "dispatch/engine_link.h"

namespace kvrouter {

inline constexpr std::chrono::seconds kPatience{60};

// Keeps what it is told, and that it is told in order.
class RecordingReply : public EngineReply {
 public:
  void OnHead(EngineReplyHead head) override {
    MutexLock lock(mu_);
    out_of_order_ = out_of_order_ || head_.has_value() || end_.has_value();
    head_ = std::move(head);
    changed_.NotifyAll();
  }
  void OnBody(std::string_view piece) override {
    {
      MutexLock lock(mu_);
      out_of_order_ = out_of_order_ || !head_.has_value() || end_.has_value() || piece.empty();
      body_.append(piece);
      ++pieces_;
      changed_.NotifyAll();
    }
    if (on_piece) on_piece();
  }
  void OnEnd(EngineEnd end, std::string_view detail) override {
    MutexLock lock(mu_);
    out_of_order_ = out_of_order_ || end_.has_value();
    end_ = end;
    detail_ = detail;
    changed_.NotifyAll();
  }

  std::function<void()> on_piece;  // set before it is sent

  bool WaitEnd() {
    return WaitFor([this]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_) { return end_.has_value(); });
  }
  bool WaitHead() {
    return WaitFor([this]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_) { return head_.has_value(); });
  }
  bool WaitBody(size_t bytes) {
    return WaitFor([this, bytes]()
                       ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_) { return body_.size() >= bytes; });
  }

  bool InOrder() const {
    MutexLock lock(mu_);
    return !out_of_order_;
  }
  int Status() const {
    MutexLock lock(mu_);
    return head_ ? head_->status : 0;
  }
  HeaderList Headers() const {
    MutexLock lock(mu_);
    return head_ ? head_->headers : HeaderList();
  }
  std::string Body() const {
    MutexLock lock(mu_);
    return body_;
  }
  size_t BodyBytes() const {
    MutexLock lock(mu_);
    return body_.size();
  }
  int Pieces() const {
    MutexLock lock(mu_);
    return pieces_;
  }
  // "none" before it.
  std::string End() const {
    MutexLock lock(mu_);
    return end_ ? std::string(EngineEndName(*end_)) : "none";
  }
  std::string Detail() const {
    MutexLock lock(mu_);
    return detail_;
  }

 private:
  template <class Condition>
  bool WaitFor(Condition condition) {
    const auto until = std::chrono::steady_clock::now() + kPatience;
    MutexLock lock(mu_);
    while (!condition()) {
      const auto now = std::chrono::steady_clock::now();
      if (now >= until) return false;
      changed_.WaitFor(mu_, until - now);
    }
    return true;
  }

  mutable Mutex mu_;
  CondVar changed_;
  std::optional<EngineReplyHead> head_ ABSL_GUARDED_BY(mu_);
  std::string body_ ABSL_GUARDED_BY(mu_);
  int pieces_ ABSL_GUARDED_BY(mu_) = 0;
  std::optional<EngineEnd> end_ ABSL_GUARDED_BY(mu_);
  std::string detail_ ABSL_GUARDED_BY(mu_);
  bool out_of_order_ ABSL_GUARDED_BY(mu_) = false;
};

// Polls, for what no reply tells.
template <class Condition>
bool Eventually(Condition condition) {
  const auto until = std::chrono::steady_clock::now() + kPatience;
  while (!condition()) {
    if (std::chrono::steady_clock::now() >= until) return false;
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
  }
  return true;
}

}  // namespace kvrouter

#endif  // KVROUTER_TESTS_INTEGRATION_ENGINE_HTTP_RECORDING_REPLY_H_
