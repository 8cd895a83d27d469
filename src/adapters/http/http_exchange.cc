#include "adapters/http/http_exchange.h"

#include <string>
#include <utility>

#include "adapters/http/http_format.h"

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
  void Write(std::string chunk) override {
    exchange_->Send(HttpExchange::Step::kWrite, {.headers = {}, .body = std::move(chunk)});
  }
  void End() override { exchange_->Send(HttpExchange::Step::kEnd, {}); }
  bool Cancelled() const override { return exchange_->Cancelled(); }
  void OnGone(std::function<void()> gone) override { exchange_->OnGone(std::move(gone)); }

 private:
  const std::shared_ptr<HttpExchange> exchange_;
};

}  // namespace

void HttpExchange::PostLocked(Step step, HttpResponse response) {
  if (post_) post_(step, std::move(response));
}

void HttpExchange::Send(Step step, HttpResponse response) {
  MutexLock lock(mu_);
  switch (step) {
    case Step::kComplete:
      if (state_ != State::kOpen) return;
      state_ = State::kFinished;
      break;
    case Step::kBegin:
      if (state_ != State::kOpen) return;
      state_ = State::kStreaming;
      break;
    case Step::kWrite:
      if (state_ != State::kStreaming) return;
      break;
    case Step::kEnd:
    case Step::kAbort:
      if (state_ != State::kStreaming) return;
      state_ = State::kFinished;
      break;
  }
  PostLocked(step, std::move(response));
}

void HttpExchange::Drop() {
  MutexLock lock(mu_);
  if (state_ == State::kFinished) return;
  const bool began = state_ == State::kStreaming;
  state_ = State::kFinished;
  if (began) {
    PostLocked(Step::kAbort, {});
  } else {
    PostLocked(Step::kComplete, ErrorResponse(500, "the request was not answered"));
  }
}

void HttpExchange::Detach(bool delivered) {
  Post last;  // holds the connection: released after the lock
  std::function<void()> gone;
  {
    MutexLock lock(mu_);
    cancelled_.store(state_ != State::kFinished, std::memory_order_relaxed);
    detached_ = true;
    delivered_ = delivered;
    last.swap(post_);
    gone.swap(gone_);
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

bool HttpExchange::Finished() const {
  MutexLock lock(mu_);
  return state_ == State::kFinished;
}

std::shared_ptr<HttpResponder> MakeResponder(std::shared_ptr<HttpExchange> exchange) {
  return std::make_shared<Responder>(std::move(exchange));
}

}  // namespace kvrouter
