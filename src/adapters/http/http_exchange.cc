#include "adapters/http/http_exchange.h"

#include <string>
#include <utility>

namespace kvrouter {
namespace {

class Responder final : public HttpResponder {
 public:
  explicit Responder(std::shared_ptr<HttpExchange> exchange) : exchange_(std::move(exchange)) {}
  ~Responder() override { exchange_->Drop(); }
  void Complete(HttpResponse response) override {
    exchange_->Send(HttpExchange::Step::kComplete, std::move(response));
  }
  void Begin(HttpResponse head) override {
    exchange_->Send(HttpExchange::Step::kBegin, std::move(head));
  }
  bool Write(std::string chunk) override {
    return exchange_->Send(HttpExchange::Step::kWrite, {.headers = {}, .body = std::move(chunk)});
  }
  void End() override { exchange_->Send(HttpExchange::Step::kEnd, {}); }
  void Cut() override { exchange_->Cut(); }
  bool Cancelled() const override { return exchange_->Cancelled(); }
  void OnGone(std::function<void()> gone) override { exchange_->OnGone(std::move(gone)); }
  void OnDrained(std::function<void()> drained) override {
    exchange_->OnDrained(std::move(drained));
  }

 private:
  const std::shared_ptr<HttpExchange> exchange_;
};

}  // namespace

void HttpExchange::PostLocked(Step step, HttpResponse response, bool pauses) {
  if (post_) post_(step, std::move(response), pauses);
}

bool HttpExchange::Send(Step step, HttpResponse response) {
  MutexLock lock(mu_);
  bool pauses = false;
  switch (step) {
    case Step::kComplete:
    case Step::kUnanswered:
      if (state_ != State::kOpen) return true;
      state_ = State::kFinished;
      break;
    case Step::kBegin:
      if (state_ != State::kOpen) return true;
      state_ = State::kStreaming;
      pauses = CountWrittenLocked(response.body.size());
      break;
    case Step::kWrite:
      if (state_ != State::kStreaming) return true;
      pauses = CountWrittenLocked(response.body.size());
      break;
    case Step::kEnd:
    case Step::kAbort:
      if (state_ != State::kStreaming) return true;
      state_ = State::kFinished;
      break;
  }
  PostLocked(step, std::move(response), pauses);
  return !paused_;
}

// True: the stream is paused from here on.
bool HttpExchange::CountWrittenLocked(uint64_t bytes) {
  if (detached_) return false;
  posted_bytes_ += bytes;
  if (paused_ || posted_bytes_ + queued_bytes_ < pause_unsent_bytes_) return false;
  paused_ = true;
  return true;
}

void HttpExchange::OnQueued(uint64_t arrived_bytes, uint64_t queued_bytes) {
  std::function<void()> drained;
  {
    MutexLock lock(mu_);
    posted_bytes_ -= arrived_bytes;
    queued_bytes_ = queued_bytes;
    if (!paused_ || posted_bytes_ + queued_bytes_ > pause_unsent_bytes_ / 2) return;
    paused_ = false;
    drained = drained_;
  }
  if (drained) drained();
}

void HttpExchange::Drop() {
  MutexLock lock(mu_);
  if (state_ == State::kFinished) return;
  const bool began = state_ == State::kStreaming;
  state_ = State::kFinished;
  PostLocked(began ? Step::kAbort : Step::kUnanswered, {});
}

void HttpExchange::Cut() {
  MutexLock lock(mu_);
  if (std::exchange(state_, State::kFinished) == State::kFinished) return;
  PostLocked(Step::kAbort, {});
}

void HttpExchange::Detach(bool delivered) {
  Post last;  // holds the connection: released after the lock
  std::function<void()> gone, drained;
  {
    MutexLock lock(mu_);
    cancelled_.store(state_ != State::kFinished, std::memory_order_relaxed);
    detached_ = true;
    delivered_ = delivered;
    paused_ = false;
    last.swap(post_);
    gone.swap(gone_);
    drained.swap(drained_);
  }
  if (!delivered && gone) gone();
}

void HttpExchange::OnGone(std::function<void()> gone) {
  std::function<void()> earlier;  // released after the lock
  {
    MutexLock lock(mu_);
    if (!detached_) {
      earlier = std::exchange(gone_, std::move(gone));
      return;
    }
    if (delivered_) return;
  }
  gone();
}

void HttpExchange::OnDrained(std::function<void()> drained) {
  std::function<void()> earlier;  // released after the lock
  MutexLock lock(mu_);
  if (detached_) return;
  earlier = std::exchange(drained_, std::move(drained));
}

bool HttpExchange::Finished() const {
  MutexLock lock(mu_);
  return state_ == State::kFinished;
}

std::shared_ptr<HttpResponder> MakeResponder(std::shared_ptr<HttpExchange> exchange) {
  return std::make_shared<Responder>(std::move(exchange));
}

}  // namespace kvrouter
