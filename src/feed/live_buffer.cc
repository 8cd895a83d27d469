#include "feed/live_buffer.h"

namespace kvrouter {

uint64_t LiveBuffer::Add(const FeedBatch& batch) {
  batches_.push_back({batch.mark, std::string(batch.payload), batch.decoded});
  bytes_ += batches_.back().bytes();
  uint64_t dropped = 0;
  while (batches_.size() > max_batches_ || (bytes_ > max_bytes_ && batches_.size() > 1)) {
    PopFront();
    ++dropped;
  }
  return dropped;
}

FeedBatch LiveBuffer::Front() const {
  const Kept& front = batches_.front();
  return {front.mark, front.payload, front.decoded};
}

void LiveBuffer::PopFront() {
  bytes_ -= batches_.front().bytes();
  batches_.pop_front();
}

void LiveBuffer::Clear() {
  batches_.clear();
  bytes_ = 0;
}

}  // namespace kvrouter
