#ifndef KVROUTER_FEED_FEED_BATCH_H_
#define KVROUTER_FEED_FEED_BATCH_H_

#include <cstddef>
#include <deque>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "feed/event_codec.h"
#include "feed/feed_cursor.h"
#include "feed/feed_stats.h"

namespace kvrouter {

// A batch that came in another form than msgpack, already plain.
struct DecodedBatch {
  RawBatch raw;                   // its texts point into `texts`
  std::deque<std::string> texts;  // never moved
  size_t bytes = 0;               // memory, roughly
  // Why the whole batch is refused, as DecodeBatch would say.
  std::optional<SkipReason> refused;
};

// One batch as a feed takes it: bytes still to be decoded, or plain.
struct FeedBatch {
  FeedCursor::Mark mark;
  std::string_view payload = {};                          // unless `decoded`
  std::shared_ptr<const DecodedBatch> decoded = nullptr;  // kept if the batch has to wait
};

}  // namespace kvrouter

#endif  // KVROUTER_FEED_FEED_BATCH_H_
