#ifndef KVROUTER_ADAPTERS_GRPC_KV_EVENTS_SERVICE_H_
#define KVROUTER_ADAPTERS_GRPC_KV_EVENTS_SERVICE_H_

#include "adapters/grpc/publish_call.h"
#include "kvrouter/v1/kv_events.grpc.pb.h"

namespace kvrouter {

// The door kvrouter.v1.KvEvents. Thread-safe.
class KvEventsGrpcService final : public v1::KvEvents::CallbackService {
 public:
  // Outlives the door.
  explicit KvEventsGrpcService(PublishedFeeds* feeds) : feeds_(feeds) {}

  grpc::ServerBidiReactor<v1::PublishRequest, v1::PublishResponse>* Publish(
      grpc::CallbackServerContext* context) override {
    return PublishCall::Start({.feeds = feeds_, .slots = &slots_}, context);
  }

 private:
  PublishedFeeds* const feeds_;
  PublishSlots slots_;
};

}  // namespace kvrouter

#endif  // KVROUTER_ADAPTERS_GRPC_KV_EVENTS_SERVICE_H_
