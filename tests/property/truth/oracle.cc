#include "property/truth/oracle.h"

#include <fmt/format.h>

#include <map>
#include <utility>

namespace kvrouter::truth {
namespace {

Probe RandomProbe(const PromptTree& tree, Dice* dice) {
  Probe probe{.path = tree.PathTo(dice->Below(tree.size())), .foreign_tail = dice->Chance(0.3)};
  return probe;
}

struct Overlap {
  uint32_t device_blocks = 0;
  uint32_t host_blocks = 0;  // behind those
};

Overlap HeldBy(const Engine& engine, const std::vector<NodeId>& path) {
  Overlap held{.device_blocks = engine.HeldPrefix(path)};
  for (size_t i = held.device_blocks; i < path.size() && engine.HoldsOnHost(path[i]); ++i)
    ++held.host_blocks;
  return held;
}

// What the router believes beyond what the engine holds.
struct FalseHit {
  StorageTier tier = StorageTier::kDevice;
  NodeId node = 0;
};
std::optional<FalseHit> FindFalseHit(const Engine& engine, const std::vector<NodeId>& path,
                                     const Overlap& believed) {
  const uint32_t held = engine.HeldPrefix(path);
  if (believed.device_blocks > held) return FalseHit{StorageTier::kDevice, path[held]};
  for (uint32_t i = believed.device_blocks; i < believed.device_blocks + believed.host_blocks; ++i)
    if (!engine.HoldsOnHost(path[i])) return FalseHit{StorageTier::kHostPinned, path[i]};
  return std::nullopt;
}

std::map<Target, Overlap> Overlaps(const Router& router, const PromptTree& tree,
                                   const Probe& probe) {
  std::vector<TokenId> tokens;
  for (const NodeId node : probe.path) tree.AppendTokens(node, &tokens);
  if (probe.foreign_tail) tokens.insert(tokens.end(), kBlockTokens + 1, tree.ForeignToken());
  RouteRequest request;
  request.prompt = TokenPrompt{tokens};
  request.cache_salt = tree[probe.path.front()].salt;
  std::map<Target, Overlap> overlaps;
  const auto found = router.FindOverlap(request);
  if (!found.ok()) return overlaps;  // no worker is registered: nothing is claimed
  for (const TargetOverlap& overlap : *found)
    overlaps[overlap.target] = {overlap.device_blocks, overlap.host_blocks};
  return overlaps;
}

std::string Complaint(const char* what, const Subject& subject, const Probe& probe,
                      const Overlap& believed, const Overlap& held) {
  return fmt::format(
      "{}: worker {} rank {} holds {} blocks and {} on the host of the prompt that ends at node "
      "{}, "
      "the router believes {} and {} (feed: {})",
      what, static_cast<uint64_t>(subject.target.worker), subject.target.dp_rank,
      held.device_blocks, held.host_blocks, probe.path.back(), believed.device_blocks,
      believed.host_blocks, subject.says);
}

}  // namespace

std::optional<std::string> CheckQuiet(const Router& router, const PromptTree& tree,
                                      const std::vector<Subject>& subjects, Dice* dice) {
  for (const Subject& subject : subjects) {
    if (subject.must_be_whole && !subject.says_live) {
      return fmt::format("worker {} rank {} is not whole, though all was to be had (feed: {})",
                         static_cast<uint64_t>(subject.target.worker), subject.target.dp_rank,
                         subject.says);
    }
  }
  // The overlap of a leaf tells those of all its prefixes, so these are all prefixes there are. Of
  // each one more, cut anywhere, with words behind it that nobody ever said.
  std::vector<Probe> probes;
  for (NodeId node = 0; node < tree.size(); ++node) {
    if (!tree[node].is_leaf) continue;
    probes.push_back({.path = tree.PathTo(node), .foreign_tail = false});
    Probe cut{.path = probes.back().path, .foreign_tail = true};
    cut.path.resize(1 + dice->Below(static_cast<uint32_t>(cut.path.size())));
    probes.push_back(std::move(cut));
  }
  for (const Probe& probe : probes) {
    std::map<Target, Overlap> overlaps = Overlaps(router, tree, probe);
    for (const Subject& subject : subjects) {
      const Overlap believed = overlaps[subject.target];
      const Overlap held = HeldBy(*subject.engine, probe.path);
      if (FindFalseHit(*subject.engine, probe.path, believed))
        return Complaint("false hit at rest", subject, probe, believed, held);
      const bool is_missed =
          believed.device_blocks < held.device_blocks || believed.host_blocks < held.host_blocks;
      if (is_missed && subject.says_live && !subject.engine->HoldsUntold())
        return Complaint("missed hit of a live feed", subject, probe, believed, held);
    }
  }
  return std::nullopt;
}

std::optional<std::string> CheckRunning(const Router& router, const PromptTree& tree,
                                        const std::vector<Subject>& subjects, uint32_t probes,
                                        MonotonicTime now, Dice* dice) {
  for (uint32_t i = 0; i < probes; ++i) {
    const Probe probe = RandomProbe(tree, dice);
    std::map<Target, Overlap> overlaps = Overlaps(router, tree, probe);
    for (const Subject& subject : subjects) {
      const Overlap believed = overlaps[subject.target];
      if (!subject.engine->IsRunning()) continue;
      const auto false_hit = FindFalseHit(*subject.engine, probe.path, believed);
      if (!false_hit) continue;
      const Overlap held = HeldBy(*subject.engine, probe.path);
      const auto loss = subject.engine->LastLoss(false_hit->tier, false_hit->node);
      if (!loss) return Complaint("block that never was", subject, probe, believed, held);
      const auto noticed = subject.noticed_at(loss->said);
      if (noticed && now - *noticed > kFalseHitBound) {
        return Complaint("false hit beyond the bound", subject, probe, believed, held) +
               fmt::format(", lost at {:.3f} s, noticeable since {:.3f} s, now {:.3f} s",
                           static_cast<double>(loss->at.count()) * 1e-9,
                           static_cast<double>(noticed->count()) * 1e-9,
                           static_cast<double>(now.count()) * 1e-9);
      }
    }
  }
  return std::nullopt;
}

}  // namespace kvrouter::truth
