#ifndef KVROUTER_TESTS_SUPPORT_NAIVE_TIERS_H_
#define KVROUTER_TESTS_SUPPORT_NAIVE_TIERS_H_

#include <array>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <span>
#include <utility>
#include <vector>

#include "core/index/block_index.h"
#include "kvrouter/events.h"
#include "kvrouter/types.h"

namespace kvrouter {

// What lower tiers have to say, from Dynamo's rules in words (v1.4.1 lower_tier.rs): per target and
// tier a table of edges (parent's engine hash or none, content) -> engine hash, and a walk that
// goes on from tier to tier with the engine hash of the last block it matched. Slow and simple;
// knows no positions, so it is right as long as an engine gives one name to one sequence of
// contents. Shares no code with BlockIndex (only the types of its answers).
class NaiveTiers {
 public:
  ApplyResult Apply(const KvEvent& event) {
    Tiers& tiers = targets_[event.target];
    if (std::holds_alternative<Cleared>(event.data)) {
      ApplyResult result;
      for (const Edges& edges : tiers) result.blocks_removed += static_cast<uint32_t>(edges.size());
      targets_.erase(event.target);
      return result;
    }
    Edges& edges = tiers[static_cast<size_t>(event.tier)];
    const bool counted = event.counting == StoreCounting::kCounted;
    if (const auto* removed = std::get_if<Removed>(&event.data))
      return Remove(*removed, counted, &edges);
    const auto& stored = std::get<Stored>(event.data);
    if (stored.copies) return Copy(stored, counted, tiers, &edges);
    if (event.tier == StorageTier::kDevice && stored.parent && !stored.blocks.empty() &&
        !edges.contains(*stored.parent)) {
      return {.status = ApplyStatus::kParentBlockNotFound};
    }
    return Store(stored, counted, &edges);
  }

  void RemoveTarget(Target target) { targets_.erase(target); }

  // Blocks beyond the tiers before, by tier.
  std::map<Target, std::array<uint32_t, kStorageTierCount>> FindOverlap(
      std::span<const LocalBlockHash> query) const {
    std::map<Target, std::array<uint32_t, kStorageTierCount>> all;
    for (const auto& [target, tiers] : targets_) {
      std::array<uint32_t, kStorageTierCount> blocks = {};
      std::optional<EngineHash> last;
      size_t at = 0;
      for (size_t tier = 0; tier < tiers.size(); ++tier) {
        for (; at < query.size(); ++at, ++blocks[tier]) {
          const auto next = Follow(tiers[tier], last, query[at]);
          if (!next) break;
          last = next;
        }
      }
      if (at > 0) all[target] = blocks;
    }
    return all;
  }

  uint64_t HeldBlocks(Target target, StorageTier tier) const {
    const auto it = targets_.find(target);
    return it == targets_.end() ? 0 : it->second[static_cast<size_t>(tier)].size();
  }

  std::vector<EngineHash> NamesOf(Target target, StorageTier tier) const {
    std::vector<EngineHash> names;
    if (const auto it = targets_.find(target); it != targets_.end()) {
      for (const auto& [name, edge] : it->second[static_cast<size_t>(tier)]) names.push_back(name);
    }
    return names;
  }

 private:
  struct Edge {
    std::optional<EngineHash> parent;
    LocalBlockHash content{};
    uint64_t stores = 1;
  };
  using Edges = std::map<EngineHash, Edge>;
  using Tiers = std::array<Edges, kStorageTierCount>;

  static std::optional<EngineHash> Follow(const Edges& edges, std::optional<EngineHash> parent,
                                          LocalBlockHash content) {
    for (const auto& [name, edge] : edges) {
      if (edge.parent == parent && edge.content == content) return name;
    }
    return std::nullopt;
  }

  static ApplyResult Store(const Stored& event, bool counted, Edges* edges) {
    std::set<EngineHash> seen;
    if (event.parent) seen.insert(*event.parent);
    for (const StoredBlock& block : event.blocks) {
      if (!seen.insert(block.engine_hash).second) return {.status = ApplyStatus::kInvalidBlock};
    }
    ApplyResult result;
    std::optional<EngineHash> parent = event.parent;
    for (const StoredBlock& block : event.blocks) {
      const auto [it, is_new] =
          edges->try_emplace(block.engine_hash, Edge{parent, block.local_hash, 1});
      ++(is_new ? result.blocks_stored : result.blocks_duplicate);
      if (!is_new && counted) ++it->second.stores;
      parent = block.engine_hash;
    }
    return result;
  }

  static ApplyResult Copy(const Stored& event, bool counted, const Tiers& tiers, Edges* edges) {
    ApplyResult result;
    for (const StoredBlock& block : event.blocks) {
      const Edge* source = nullptr;
      for (const Edges& other : tiers) {
        if (const auto it = other.find(block.engine_hash); it != other.end()) source = &it->second;
      }
      if (source == nullptr) {
        ++result.blocks_not_found;
        result.status = ApplyStatus::kBlockNotFound;
        continue;
      }
      const auto [it, is_new] =
          edges->try_emplace(block.engine_hash, Edge{source->parent, source->content, 1});
      ++(is_new ? result.blocks_stored : result.blocks_duplicate);
      if (!is_new && counted) ++it->second.stores;
    }
    return result;
  }

  static ApplyResult Remove(const Removed& event, bool counted, Edges* edges) {
    ApplyResult result;
    for (const EngineHash name : event.engine_hashes) {
      const auto it = edges->find(name);
      if (it == edges->end()) {
        ++result.blocks_not_found;
        result.status = ApplyStatus::kBlockNotFound;
      } else if (!counted || --it->second.stores == 0) {
        edges->erase(it);
        ++result.blocks_removed;
      }
    }
    return result;
  }

  std::map<Target, Tiers> targets_;
};

}  // namespace kvrouter

#endif  // KVROUTER_TESTS_SUPPORT_NAIVE_TIERS_H_
