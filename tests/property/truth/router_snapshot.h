#ifndef KVROUTER_TESTS_PROPERTY_TRUTH_ROUTER_SNAPSHOT_H_
#define KVROUTER_TESTS_PROPERTY_TRUTH_ROUTER_SNAPSHOT_H_

#include <optional>
#include <string>
#include <utility>

#include "feed/engine_feed.h"
#include "feed/saved_feed.h"
#include "feed/saved_feed_codec.h"
#include "kvrouter/router.h"

namespace kvrouter::truth {

// What one feed and the router say at this moment, as the bytes of a snapshot; nothing if the feed
// could not be continued.
inline std::optional<std::string> SaveFeed(const WorkerSpec& spec, uint32_t dp_rank,
                                           const EngineFeed& feed, const Router& router) {
  std::optional<SavedProgress> progress = feed.Save();
  if (!progress) return std::nullopt;
  if (feed.RestorationState() != EngineFeed::Restoration::kPending) {
    for (SavedRank& rank : progress->ranks) {
      const bool is_whole = static_cast<bool>(
          router.SaveTarget({spec.id, rank.dp_rank}, [&rank](const KvEvent& event) {
            SavedEvent saved;
            saved.tier = event.tier;
            if (const auto* stored = std::get_if<Stored>(&event.data)) saved.data = *stored;
            if (const auto* removed = std::get_if<Removed>(&event.data)) saved.data = *removed;
            rank.blocks.push_back(std::move(saved));
          }));
      if (!is_whole) return std::nullopt;
    }
  }
  return EncodeFeed({.spec = spec, .rank = dp_rank, .progress = *std::move(progress)});
}

}  // namespace kvrouter::truth

#endif  // KVROUTER_TESTS_PROPERTY_TRUTH_ROUTER_SNAPSHOT_H_
