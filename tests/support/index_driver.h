#ifndef KVROUTER_TESTS_SUPPORT_INDEX_DRIVER_H_
#define KVROUTER_TESTS_SUPPORT_INDEX_DRIVER_H_

#include <cstdint>
#include <map>
#include <string_view>
#include <vector>

#include "core/index/block_index.h"
#include "kvrouter/events.h"

namespace kvrouter {

// Says events and queries to a BlockIndex in letters: each letter is one block's content, and a
// target calls the block with content `x` by engine hash HashOf(worker, 'x'), so a test reads like
// the scenario it checks.
class IndexDriver {
 public:
  explicit IndexDriver(StoreCounting counting = StoreCounting::kCounted,
                       const BlockIndexLimits& limits = {})
      : index(limits), counting_(counting) {}

  static EngineHash HashOf(uint64_t worker, char content) {
    return EngineHash{worker * 1000 + static_cast<unsigned char>(content)};
  }
  static Target TargetOf(uint64_t worker, uint32_t rank = 0) { return {WorkerId{worker}, rank}; }

  // `parent` 0: none.
  ApplyResult Store(uint64_t worker, char parent, std::string_view contents) {
    Stored stored;
    if (parent != 0) stored.parent = HashOf(worker, parent);
    for (const char c : contents) stored.blocks.push_back({HashOf(worker, c), ContentOf(c)});
    return Apply(TargetOf(worker), stored);
  }

  ApplyResult Remove(uint64_t worker, std::string_view contents) {
    Removed removed;
    for (const char c : contents) removed.engine_hashes.push_back(HashOf(worker, c));
    return Apply(TargetOf(worker), removed);
  }

  ApplyResult Clear(uint64_t worker) { return Apply(TargetOf(worker), Cleared{}); }

  ApplyResult Apply(Target target, decltype(KvEvent::data) data) {
    KvEvent event;
    event.target = target;
    event.counting = counting_;
    event.data = std::move(data);
    return index.Apply(event);
  }

  // Worker -> score; workers that score 0 are absent.
  std::map<uint64_t, uint32_t> Scores(std::string_view contents) const {
    std::map<uint64_t, uint32_t> scores;
    for (const OverlapMatch& match : Matches(contents)) {
      scores[static_cast<uint64_t>(match.target.worker)] = match.blocks;
    }
    return scores;
  }

  std::vector<OverlapMatch> Matches(std::string_view contents) const {
    std::vector<LocalBlockHash> query;
    for (const char c : contents) query.push_back(ContentOf(c));
    std::vector<OverlapMatch> matches;
    index.FindOverlap(query, &matches);
    return matches;
  }

  uint64_t Held(uint64_t worker) const { return index.HolderBlocks(TargetOf(worker)); }

  static LocalBlockHash ContentOf(char c) { return LocalBlockHash{static_cast<unsigned char>(c)}; }

  BlockIndex index;

 private:
  StoreCounting counting_;
};

}  // namespace kvrouter

#endif  // KVROUTER_TESTS_SUPPORT_INDEX_DRIVER_H_
