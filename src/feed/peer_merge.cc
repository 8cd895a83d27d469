#include "feed/peer_merge.h"

#include <optional>
#include <utility>
#include <variant>

namespace kvrouter {

void PeerMerge::Note(const KvEvent& event) {
  if (void_ || event.target != target_) return;
  if (const auto* stored = std::get_if<Stored>(&event.data)) {
    for (const StoredBlock& block : stored->blocks) noted_.insert(block.engine_hash);
  } else if (const auto* removed = std::get_if<Removed>(&event.data)) {
    noted_.insert(removed->engine_hashes.begin(), removed->engine_hashes.end());
  } else {
    void_ = true;
  }
  if (noted_.size() > kMaxNotedHashes) void_ = true;
  if (void_) noted_ = {};
}

std::vector<KvEvent> PeerMerge::Keep(const std::vector<KvEvent>& answer) const {
  std::vector<KvEvent> kept;
  const auto add = [&](const KvEvent& from, Stored stored) {
    if (stored.blocks.empty()) return;
    KvEvent event = from;
    event.data = std::move(stored);
    kept.push_back(std::move(event));
  };
  for (const KvEvent& event : answer) {
    const auto* stored = std::get_if<Stored>(&event.data);
    if (stored == nullptr || event.target != target_) continue;
    // What follows a noted block follows it under its name, if we hold it.
    Stored run{.parent = stored->parent, .blocks = {}};
    for (const StoredBlock& block : stored->blocks) {
      if (noted_.contains(block.engine_hash)) {
        add(event, std::exchange(run, {.parent = block.engine_hash, .blocks = {}}));
      } else {
        run.blocks.push_back(block);
      }
    }
    add(event, std::move(run));
  }
  return kept;
}

}  // namespace kvrouter
