#include "feed/feed_cursor.h"

namespace kvrouter {

FeedCursor::Verdict FeedCursor::Classify(const Mark& live) const {
  if (last_live_) {
    if (live.sequence < last_live_->sequence) return Verdict::kRestart;
    if (live.sequence == last_live_->sequence) {
      return live == *last_live_ ? Verdict::kDuplicate : Verdict::kRestart;
    }
  }
  if (last_applied_ && live.sequence <= last_applied_->sequence) return Verdict::kAlreadyReplayed;
  return IsNext(live.sequence) ? Verdict::kNext : Verdict::kGap;
}

bool FeedCursor::IsNext(uint64_t sequence) const {
  if (last_applied_) return sequence == last_applied_->sequence + 1;
  return any_base_ || sequence == 0;
}

}  // namespace kvrouter
