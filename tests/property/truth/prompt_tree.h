#ifndef KVROUTER_TESTS_PROPERTY_TRUTH_PROMPT_TREE_H_
#define KVROUTER_TESTS_PROPERTY_TRUTH_PROMPT_TREE_H_

#include <algorithm>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "kvrouter/types.h"
#include "property/truth/dice.h"

namespace kvrouter::truth {

inline constexpr uint32_t kBlockTokens = 4;

using NodeId = uint32_t;

// All prompts of a run as a tree of blocks: a prompt is the path from a root to a node. Nodes with
// equal content have equal tokens; only their way from the root tells them apart, and the salt of
// the root.
class PromptTree {
 public:
  struct Node {
    std::optional<NodeId> parent;
    uint32_t content = 0;
    std::string salt;  // of the whole path
    bool is_leaf = true;
  };

  explicit PromptTree(uint64_t seed) {
    Dice dice(seed);
    const NodeId first = Add(std::nullopt, NewContent(), "");
    Grow(first, 30 + dice.Below(40), &dice);
    const auto end = static_cast<NodeId>(nodes_.size());
    // The same words in another cache namespace.
    for (NodeId node = first; node < end; ++node) {
      const Node& twin = nodes_[node];
      Add(twin.parent ? std::optional(end + *twin.parent) : std::nullopt, twin.content, "tenant");
    }
    const NodeId second = Add(std::nullopt, NewContent(), "");
    Grow(second, 20 + dice.Below(60), &dice);
  }

  const Node& operator[](NodeId node) const { return nodes_[node]; }
  uint32_t size() const { return static_cast<uint32_t>(nodes_.size()); }

  std::vector<NodeId> PathTo(NodeId node) const {
    std::vector<NodeId> path;
    for (std::optional<NodeId> at = node; at; at = nodes_[*at].parent) path.push_back(*at);
    std::reverse(path.begin(), path.end());
    return path;
  }

  void AppendTokens(NodeId node, std::vector<TokenId>* tokens) const {
    for (uint32_t i = 0; i < kBlockTokens; ++i)
      tokens->push_back(nodes_[node].content * kBlockTokens + i);
  }

  NodeId AddFreshRoot() { return Add(std::nullopt, NewContent(), ""); }
  // Of no node there is or ever will be.
  TokenId ForeignToken() const { return UINT32_MAX; }

 private:
  uint32_t NewContent() { return ++contents_; }

  NodeId Add(std::optional<NodeId> parent, uint32_t content, std::string salt) {
    if (parent) nodes_[*parent].is_leaf = false;
    nodes_.push_back({.parent = parent, .content = content, .salt = std::move(salt)});
    return static_cast<NodeId>(nodes_.size() - 1);
  }

  // Long chains with branches. Sometimes a block repeats words that stand elsewhere in the tree.
  void Grow(NodeId root, uint32_t blocks, Dice* dice) {
    NodeId tip = root;
    for (uint32_t i = 0; i < blocks; ++i) {
      const auto end = static_cast<NodeId>(nodes_.size());
      if (dice->Chance(0.15)) tip = root + dice->Below(end - root);
      const bool repeats = dice->Chance(0.1);
      const uint32_t content = repeats ? nodes_[dice->Below(end)].content : NewContent();
      tip = Add(tip, HasChild(tip, content) ? NewContent() : content, nodes_[root].salt);
    }
  }
  bool HasChild(NodeId parent, uint32_t content) const {
    return std::any_of(nodes_.begin(), nodes_.end(), [&](const Node& node) {
      return node.parent == parent && node.content == content;
    });
  }

  std::vector<Node> nodes_;
  uint32_t contents_ = 0;
};

}  // namespace kvrouter::truth

#endif  // KVROUTER_TESTS_PROPERTY_TRUTH_PROMPT_TREE_H_
