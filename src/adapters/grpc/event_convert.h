#ifndef KVROUTER_ADAPTERS_GRPC_EVENT_CONVERT_H_
#define KVROUTER_ADAPTERS_GRPC_EVENT_CONVERT_H_

#include <cstdint>

#include "absl/status/statusor.h"
#include "feed/feed_batch.h"
#include "kvrouter/events.h"
#include "kvrouter/router.h"
#include "kvrouter/v1/kv_events.pb.h"
#include "kvrouter/v1/router.pb.h"
#include "service/published_feeds.h"

namespace kvrouter {

// Between cache events and messages of kvrouter.v1. Pure. `message` is empty before.

// REQUIRES: `event` is a stored one.
void ToProto(const KvEvent& event, uint32_t block_size_tokens, v1::DumpedEvent* message);
void ToProto(const DumpCounts& counts, v1::DumpCounts* message);

// Events that are malformed are left out and counted in the batch, as DecodeBatch does; what is
// well-formed is judged by the feed.
FeedBatch FromProto(const v1::EventBatch& message);
absl::StatusOr<PublishStart> FromProto(const v1::PublishStart& message);
void ToProto(const PublishStatus& status, v1::PublishResponse* message);

}  // namespace kvrouter

#endif  // KVROUTER_ADAPTERS_GRPC_EVENT_CONVERT_H_
