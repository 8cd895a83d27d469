#include "adapters/grpc/route_messages.h"

#include <utility>

namespace kvrouter {

class RouteMessages::Pair final : public grpc::MessageHolder<v1::RouteRequest, v1::RouteResponse> {
 public:
  explicit Pair(RouteMessages* owner) : owner_(owner) {
    set_request(&request_);
    set_response(&response_);
  }

  // From gRPC, when the call has ended.
  void Release() override { owner_->TakeBack(std::unique_ptr<Pair>(this)); }

  void Clear() {
    request_ = v1::RouteRequest();  // cleared, it would keep the memory of texts and lists
    response_.Clear();
  }

 private:
  RouteMessages* const owner_;
  v1::RouteRequest request_;
  v1::RouteResponse response_;
};

RouteMessages::RouteMessages() = default;

RouteMessages::~RouteMessages() = default;

grpc::MessageHolder<v1::RouteRequest, v1::RouteResponse>* RouteMessages::AllocateMessages() {
  {
    MutexLock lock(mu_);
    if (!kept_.empty()) {
      Pair* const pair = kept_.back().release();
      kept_.pop_back();
      return pair;
    }
  }
  return new Pair(this);
}

void RouteMessages::TakeBack(std::unique_ptr<Pair> pair) {
  pair->Clear();
  MutexLock lock(mu_);  // if there are enough, `pair` is freed after it: parameters outlive locals
  if (kept_.size() < kMaxKept) kept_.push_back(std::move(pair));
}

size_t RouteMessages::KeptCount() const {
  MutexLock lock(mu_);
  return kept_.size();
}

}  // namespace kvrouter
