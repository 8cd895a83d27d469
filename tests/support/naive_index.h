#ifndef KVROUTER_TESTS_SUPPORT_NAIVE_INDEX_H_
#define KVROUTER_TESTS_SUPPORT_NAIVE_INDEX_H_

#include <cstdint>
#include <map>
#include <set>
#include <span>
#include <utility>
#include <vector>

#include "core/index/block_index.h"
#include "kvrouter/events.h"
#include "kvrouter/types.h"

namespace kvrouter {

// What the block index has to say, from the rules in words: per target a map from engine hash to
// the path of contents that it names, on the device. Slow and simple; shares no code with
// BlockIndex (only the types of its answers).
class NaiveIndex {
 public:
  using Path = std::vector<LocalBlockHash>;

  ApplyResult Apply(const KvEvent& event) {
    if (event.tier != StorageTier::kDevice && !std::holds_alternative<Cleared>(event.data))
      return {};  // naive_tiers.h
    if (event.staging == Staging::kStaged) return ApplyStaged(event);
    if (event.staging == Staging::kCommit) {
      ApplyResult result;
      result.blocks_removed = static_cast<uint32_t>(HolderBlocks(event.target));
      targets_[event.target] = std::move(staged_[event.target]);
      staged_.erase(event.target);
      return result;
    }
    if (const auto* stored = std::get_if<Stored>(&event.data)) {
      return Store(event.target, event.counting, *stored);
    }
    if (const auto* removed = std::get_if<Removed>(&event.data)) {
      return Remove(event.target, event.counting, *removed);
    }
    ApplyResult result;
    result.blocks_removed = static_cast<uint32_t>(HolderBlocks(event.target));
    RemoveTarget(event.target);
    return result;
  }

  void RemoveTarget(Target target) {
    targets_.erase(target);
    staged_.erase(target);
  }

  std::vector<OverlapMatch> FindOverlap(std::span<const LocalBlockHash> query) const {
    std::vector<OverlapMatch> matches;
    for (const auto& [target, names] : targets_) {
      uint32_t blocks = 0;
      Path prefix;
      for (const LocalBlockHash hash : query) {
        prefix.push_back(hash);
        if (NamesAt(names, prefix) == 0) break;
        ++blocks;
      }
      if (blocks > 0) matches.push_back({target, blocks});
    }
    return matches;
  }

  uint64_t HolderBlocks(Target target) const {
    const auto it = targets_.find(target);
    if (it == targets_.end()) return 0;
    std::set<Path> held;
    for (const auto& [hash, name] : it->second) held.insert(name.path);
    return held.size();
  }

  uint64_t HolderBlocks() const {
    uint64_t total = 0;
    for (const auto& [target, names] : targets_) total += HolderBlocks(target);
    return total;
  }

  // Every held or staged position and every position above one.
  uint64_t UniqueBlocks() const {
    std::set<Path> needed;
    for (const auto* states : {&targets_, &staged_}) {
      for (const auto& [target, names] : *states) {
        for (const auto& [hash, name] : names) {
          for (Path path = name.path; !path.empty(); path.pop_back()) needed.insert(path);
        }
      }
    }
    return needed.size();
  }

  std::vector<EngineHash> NamesOf(Target target, bool staged = false) const {
    const auto& states = staged ? staged_ : targets_;
    std::vector<EngineHash> result;
    if (const auto it = states.find(target); it != states.end()) {
      for (const auto& [hash, name] : it->second) result.push_back(hash);
    }
    return result;
  }

  // The path that a held hash names. REQUIRES: it is held.
  Path PathOf(Target target, EngineHash hash, bool staged = false) const {
    return (staged ? staged_ : targets_).at(target).at(hash).path;
  }

 private:
  struct Name {
    Path path;
    uint64_t stores = 1;
  };
  using Names = std::map<EngineHash, Name>;

  // As of any other state, with the two changed for each other meanwhile.
  ApplyResult ApplyStaged(KvEvent event) {
    event.staging = Staging::kNone;
    if (std::holds_alternative<Cleared>(event.data)) {
      staged_.erase(event.target);
      return {};
    }
    std::swap(targets_[event.target], staged_[event.target]);
    const ApplyResult result = Apply(event);
    std::swap(targets_[event.target], staged_[event.target]);
    return result;
  }

  static uint64_t NamesAt(const Names& names, const Path& path) {
    uint64_t count = 0;
    for (const auto& [hash, name] : names) count += name.path == path ? 1 : 0;
    return count;
  }

  ApplyResult Store(Target target, StoreCounting counting, const Stored& event) {
    if (event.blocks.empty()) return {};
    std::set<EngineHash> seen;
    if (event.parent) seen.insert(*event.parent);
    for (const StoredBlock& block : event.blocks) {
      if (!seen.insert(block.engine_hash).second) return {.status = ApplyStatus::kInvalidBlock};
    }
    Path start;
    if (event.parent) {
      if (!targets_.contains(target) || !targets_[target].contains(*event.parent)) {
        return {.status = ApplyStatus::kParentBlockNotFound};
      }
      start = PathOf(target, *event.parent);
    }
    Names& names = targets_[target];
    Path path = start;
    for (const StoredBlock& block : event.blocks) {
      path.push_back(block.local_hash);
      const auto it = names.find(block.engine_hash);
      if (it != names.end() && it->second.path != path)
        return {.status = ApplyStatus::kInvalidBlock};
    }
    ApplyResult result;
    path = start;
    for (const StoredBlock& block : event.blocks) {
      path.push_back(block.local_hash);
      ++(NamesAt(names, path) > 0 ? result.blocks_duplicate : result.blocks_stored);
      const auto [it, is_new] = names.try_emplace(block.engine_hash, Name{path, 1});
      if (!is_new && counting == StoreCounting::kCounted) ++it->second.stores;
    }
    return result;
  }

  ApplyResult Remove(Target target, StoreCounting counting, const Removed& event) {
    ApplyResult result;
    for (const EngineHash hash : event.engine_hashes) {
      Names& names = targets_[target];
      const auto it = names.find(hash);
      if (it == names.end()) {
        ++result.blocks_not_found;
        result.status = ApplyStatus::kBlockNotFound;
        continue;
      }
      if (counting == StoreCounting::kCounted && --it->second.stores > 0) continue;
      if (NamesAt(names, it->second.path) == 1) ++result.blocks_removed;
      names.erase(it);
    }
    return result;
  }

  std::map<Target, Names> targets_;
  std::map<Target, Names> staged_;
};

}  // namespace kvrouter

#endif  // KVROUTER_TESTS_SUPPORT_NAIVE_INDEX_H_
