#ifndef KVROUTER_ADAPTERS_HTTP_HTTP_EXCHANGE_H_
#define KVROUTER_ADAPTERS_HTTP_HTTP_EXCHANGE_H_

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>

#include "adapters/http/http_server.h"
#include "base/mutex.h"

namespace kvrouter {

// One request being answered: the meeting point of the responder (any thread) and the connection
// (its strand). Calls are checked for order here and then handed to the connection. Detach cuts the
// tie; nothing is handed over after it returns, which is what lets a responder outlive the server.
//
// Thread safety: thread-safe.
class HttpExchange {
 public:
  enum class Step : uint8_t { kComplete, kBegin, kWrite, kEnd, kAbort };
  // Brings a step to the connection; called under the lock of the exchange, so it only posts.
  using Post = std::function<void(Step step, HttpResponse response)>;

  explicit HttpExchange(Post post) : post_(std::move(post)) {}

  void Send(Step step, HttpResponse response);
  void Drop();  // the responder is gone
  // The connection has done with it: the answer was handed to the socket whole, or never will be.
  void Detach(bool delivered);
  void OnGone(std::function<void()> gone);
  bool Cancelled() const { return cancelled_.load(std::memory_order_relaxed); }
  bool Finished() const;

 private:
  enum class State : uint8_t { kOpen, kStreaming, kFinished };

  void PostLocked(Step step, HttpResponse response) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);

  mutable Mutex mu_;
  State state_ ABSL_GUARDED_BY(mu_) = State::kOpen;
  Post post_ ABSL_GUARDED_BY(mu_);
  std::function<void()> gone_ ABSL_GUARDED_BY(mu_);
  bool detached_ ABSL_GUARDED_BY(mu_) = false;
  bool delivered_ ABSL_GUARDED_BY(mu_) = false;
  std::atomic<bool> cancelled_{false};
};

// The handler's end of an exchange.
std::shared_ptr<HttpResponder> MakeResponder(std::shared_ptr<HttpExchange> exchange);

}  // namespace kvrouter

#endif  // KVROUTER_ADAPTERS_HTTP_HTTP_EXCHANGE_H_
