#ifndef KVROUTER_FEED_LIVE_BUFFER_H_
#define KVROUTER_FEED_LIVE_BUFFER_H_

#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <string>

#include "feed/feed_batch.h"

namespace kvrouter {

// Live batches that wait for a replay to end, in their order. Bounded by number and by bytes (one
// batch always fits); the oldest go first, since the replay is likeliest to bring those.
//
// Thread-compatible.
class LiveBuffer {
 public:
  LiveBuffer(size_t max_batches, size_t max_bytes)
      : max_batches_(max_batches), max_bytes_(max_bytes) {}

  // Returns how many had to go.
  uint64_t Add(const FeedBatch& batch);
  bool Empty() const { return batches_.empty(); }
  const FeedCursor::Mark& FrontMark() const { return batches_.front().mark; }
  // Valid until PopFront.
  FeedBatch Front() const;
  void PopFront();
  void Clear();

 private:
  struct Kept {
    FeedCursor::Mark mark;
    std::string payload;
    std::shared_ptr<const DecodedBatch> decoded;

    size_t bytes() const { return decoded ? decoded->bytes : payload.size(); }
  };

  const size_t max_batches_;
  const size_t max_bytes_;
  std::deque<Kept> batches_;
  size_t bytes_ = 0;
};

}  // namespace kvrouter

#endif  // KVROUTER_FEED_LIVE_BUFFER_H_
