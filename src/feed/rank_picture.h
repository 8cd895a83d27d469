#ifndef KVROUTER_FEED_RANK_PICTURE_H_
#define KVROUTER_FEED_RANK_PICTURE_H_

#include <functional>
#include <string>
#include <vector>

#include "feed/feed_stats.h"
#include "kvrouter/events.h"

namespace kvrouter {

// What one rank holds, as somebody who has its history tells it: applied in order to a rank without
// blocks, the events leave it with these.
struct RankPicture {
  std::vector<KvEvent> events;
  // Why blocks may be missing, or who says so without proof; empty = it is the truth. A picture
  // with proof never has blocks that the rank does not hold.
  std::string missing;
  DegradedReason reason = DegradedReason::kNone;  // the kind of that; kNone if it is the truth
  // Whoever drew it wants to know whether it was used; may be empty, and may never be called.
  std::function<void(bool used)> settled = nullptr;
};

}  // namespace kvrouter

#endif  // KVROUTER_FEED_RANK_PICTURE_H_
