#ifndef KVROUTER_ADAPTERS_GRPC_ROUTE_MESSAGES_H_
#define KVROUTER_ADAPTERS_GRPC_ROUTE_MESSAGES_H_

#include <grpcpp/support/message_allocator.h>

#include <cstddef>
#include <memory>
#include <vector>

#include "base/mutex.h"
#include "kvrouter/v1/router.pb.h"

namespace kvrouter {

// The messages of unary Route calls, kept from call to call: an answer lists its candidates, and
// protobuf reuses the elements of a list when its message is cleared rather than made anew. Nothing
// of a request is kept: its memory returns with the call.
//
// Thread safety: thread-safe. Bound: kMaxKept pairs; what calls beyond them return is freed. An
// answer is at most what kMaxDetailedCandidates and kMaxFilteredTargets let it be, some 30 KB.
class RouteMessages final : public grpc::MessageAllocator<v1::RouteRequest, v1::RouteResponse> {
 public:
  static constexpr size_t kMaxKept = 64;

  RouteMessages();
  ~RouteMessages() override;

  grpc::MessageHolder<v1::RouteRequest, v1::RouteResponse>* AllocateMessages() override;

  size_t KeptCount() const;

 private:
  class Pair;

  void TakeBack(std::unique_ptr<Pair> pair);

  mutable Mutex mu_;
  std::vector<std::unique_ptr<Pair>> kept_ ABSL_GUARDED_BY(mu_);
};

}  // namespace kvrouter

#endif  // KVROUTER_ADAPTERS_GRPC_ROUTE_MESSAGES_H_
