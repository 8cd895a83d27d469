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
// Unsent bytes of a stream are those posted and not yet with the connection, and those queued
// there. When a Write brings them to the mark the exchange is paused; when half of the mark is left
// it goes on, and `drained` is called. Both happen under the lock, so no pause is without its end.
//
// Thread safety: thread-safe.
class HttpExchange {
 public:
  enum class Step : uint8_t { kComplete, kUnanswered, kBegin, kWrite, kEnd, kAbort };
  // Brings a step to the connection; called under the lock of the exchange, so it only posts.
  // `pauses`: this step brought the stream to the mark.
  using Post = std::function<void(Step step, HttpResponse response, bool pauses)>;

  HttpExchange(Post post, uint64_t pause_unsent_bytes)
      : pause_unsent_bytes_(pause_unsent_bytes), post_(std::move(post)) {}

  // False: a piece of a stream whose client does not keep up.
  bool Send(Step step, HttpResponse response);
  void Drop();  // the responder is gone
  void Cut();
  // The connection has done with it: the answer was handed to the socket whole, or never will be.
  void Detach(bool delivered);
  // What the connection holds now, of the stream so far; `arrived_bytes` of what was sent came to
  // it since the last call. On its strand.
  void OnQueued(uint64_t arrived_bytes, uint64_t queued_bytes);
  void OnGone(std::function<void()> gone);
  void OnDrained(std::function<void()> drained);
  bool Cancelled() const { return cancelled_.load(std::memory_order_relaxed); }
  bool Finished() const;

 private:
  enum class State : uint8_t { kOpen, kStreaming, kFinished };

  void PostLocked(Step step, HttpResponse response, bool pauses = false)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  bool CountWrittenLocked(uint64_t bytes) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);

  const uint64_t pause_unsent_bytes_;
  mutable Mutex mu_;
  State state_ ABSL_GUARDED_BY(mu_) = State::kOpen;
  Post post_ ABSL_GUARDED_BY(mu_);
  std::function<void()> gone_ ABSL_GUARDED_BY(mu_);
  std::function<void()> drained_ ABSL_GUARDED_BY(mu_);
  uint64_t posted_bytes_ ABSL_GUARDED_BY(mu_) = 0;  // on their way to the connection
  uint64_t queued_bytes_ ABSL_GUARDED_BY(mu_) = 0;  // there
  bool paused_ ABSL_GUARDED_BY(mu_) = false;
  bool detached_ ABSL_GUARDED_BY(mu_) = false;
  bool delivered_ ABSL_GUARDED_BY(mu_) = false;
  std::atomic<bool> cancelled_{false};
};

// The handler's end of an exchange.
std::shared_ptr<HttpResponder> MakeResponder(std::shared_ptr<HttpExchange> exchange);

}  // namespace kvrouter

#endif  // KVROUTER_ADAPTERS_HTTP_HTTP_EXCHANGE_H_
