#ifndef KVROUTER_FEED_RANK_PICTURE_H_
#define KVROUTER_FEED_RANK_PICTURE_H_

#include <string>
#include <vector>

#include "kvrouter/events.h"

namespace kvrouter {

// What one rank holds, as somebody who has its history tells it: applied in order to a rank without
// blocks, the events leave it with these.
struct RankPicture {
  std::vector<KvEvent> events;
  // Why blocks may be missing; empty = none is. Blocks that the rank does not hold are never in it.
  std::string missing;
};

}  // namespace kvrouter

#endif  // KVROUTER_FEED_RANK_PICTURE_H_
