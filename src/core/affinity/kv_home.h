#ifndef KVROUTER_CORE_AFFINITY_KV_HOME_H_
#define KVROUTER_CORE_AFFINITY_KV_HOME_H_

#include <cstddef>

#include "core/affinity/recent_map.h"
#include "core/affinity/session_key.h"
#include "kvrouter/types.h"

namespace kvrouter {

// Where the blocks of each session were last put: the migration planner's source when the index
// names none. Written for prompts over the planner's floor only.
//
// Parity: as the fork's kv_home, with its 200,000 entries; at the bound the fork drops what is
// older than 900 s (and grows if nothing is), here the least recently written one makes room.
inline constexpr size_t kMaxKvHomes = 200'000;
using KvHome = RecentMap<SessionKey, Target>;

}  // namespace kvrouter

#endif  // KVROUTER_CORE_AFFINITY_KV_HOME_H_
