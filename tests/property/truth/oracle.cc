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

std::map<Target, uint32_t> Overlaps(const Router& router, const PromptTree& tree,
                                    const Probe& probe) {
  std::vector<TokenId> tokens;
  for (const NodeId node : probe.path) tree.AppendTokens(node, &tokens);
  if (probe.foreign_tail) tokens.insert(tokens.end(), kBlockTokens + 1, tree.ForeignToken());
  RouteRequest request;
  request.prompt = TokenPrompt{tokens};
  request.cache_salt = tree[probe.path.front()].salt;
  std::map<Target, uint32_t> overlaps;
  const auto found = router.FindOverlap(request);
  if (!found.ok()) return overlaps;  // no worker is registered: nothing is claimed
  for (const TargetOverlap& overlap : *found) overlaps[overlap.target] = overlap.device_blocks;
  return overlaps;
}

std::string Complaint(const char* what, const Subject& subject, const Probe& probe,
                      uint32_t believed, uint32_t held) {
  return fmt::format(
      "{}: worker {} rank {} holds {} blocks of the prompt that ends at node {}, the "
      "router believes {} (feed: {})",
      what, static_cast<uint64_t>(subject.target.worker), subject.target.dp_rank, held,
      probe.path.back(), believed, subject.says);
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
    std::map<Target, uint32_t> overlaps = Overlaps(router, tree, probe);
    for (const Subject& subject : subjects) {
      const uint32_t believed = overlaps[subject.target];
      const uint32_t held = subject.engine->HeldPrefix(probe.path);
      if (believed > held) return Complaint("false hit at rest", subject, probe, believed, held);
      if (believed < held && subject.says_live && !subject.engine->HoldsUntold())
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
    std::map<Target, uint32_t> overlaps = Overlaps(router, tree, probe);
    for (const Subject& subject : subjects) {
      const uint32_t believed = overlaps[subject.target];
      if (believed == 0 || !subject.engine->IsRunning()) continue;
      const uint32_t held = subject.engine->HeldPrefix(probe.path);
      if (believed <= held) continue;
      const auto loss = subject.engine->LastLoss(probe.path[held]);
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
