#ifndef KVROUTER_TESTS_BENCH_CORE_INDEX_BASELINE_INDEXES_H_
#define KVROUTER_TESTS_BENCH_CORE_INDEX_BASELINE_INDEXES_H_

#include <array>
#include <bit>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "core/index/block_index.h"
#include "kvrouter/block_hash.h"
#include "kvrouter/events.h"

namespace kvrouter {

// What BlockIndex has to beat. Both know 64 workers as bits of a word, keep no counts and check
// nothing, so they do less.

// A query in both forms; the router has the sequence hashes anyway, for its load ledger.
struct BenchQuery {
  std::span<const LocalBlockHash> contents;
  std::span<const SequenceHash> sequence;
};

inline void Emit(const std::array<uint32_t, 64>& depth, uint64_t any,
                 std::vector<OverlapMatch>* out) {
  out->clear();
  for (; any != 0; any &= any - 1) {
    const auto w = static_cast<uint32_t>(std::countr_zero(any));
    out->push_back({{WorkerId{w}, 0}, depth[w]});
  }
}

// Sequence hash -> mask of workers, and per worker engine hash -> sequence hash.
class FlatIndex {
 public:
  void Apply(const KvEvent& event) {
    const auto w = static_cast<uint64_t>(event.target.worker);
    auto& names = names_[w];
    const uint64_t bit = uint64_t{1} << w;
    if (const auto* stored = std::get_if<Stored>(&event.data)) {
      uint64_t chain[2] = {0, 0};
      bool root = true;
      if (stored->parent) {
        const auto it = names.find(*stored->parent);
        if (it == names.end()) return;
        chain[0] = static_cast<uint64_t>(it->second);
        root = false;
      }
      for (const StoredBlock& block : stored->blocks) {
        chain[1] = static_cast<uint64_t>(block.local_hash);
        chain[0] = root ? chain[1]
                        : HashBytes({reinterpret_cast<const char*>(chain), sizeof(chain)}, 1337);
        root = false;
        names[block.engine_hash] = SequenceHash{chain[0]};
        masks_[SequenceHash{chain[0]}] |= bit;
      }
    } else if (const auto* removed = std::get_if<Removed>(&event.data)) {
      for (const EngineHash hash : removed->engine_hashes) {
        const auto it = names.find(hash);
        if (it == names.end()) continue;
        const auto mask = masks_.find(it->second);
        mask->second &= ~bit;
        if (mask->second == 0) masks_.erase(mask);
        names.erase(it);
      }
    }
  }

  void FindOverlap(const BenchQuery& query, std::vector<OverlapMatch>* out) const {
    constexpr size_t kAhead = 12;
    std::array<uint32_t, 64> depth;
    uint64_t alive = ~uint64_t{0};
    uint64_t any = 0;
    uint32_t d = 0;
    for (; d < query.sequence.size(); ++d) {
      if (d + kAhead < query.sequence.size()) masks_.prefetch(query.sequence[d + kAhead]);
      const auto it = masks_.find(query.sequence[d]);
      const uint64_t holders = it == masks_.end() ? 0 : it->second;
      if (d == 0) any = alive = holders;
      for (uint64_t lost = alive & ~holders; lost != 0; lost &= lost - 1) {
        depth[static_cast<size_t>(std::countr_zero(lost))] = d;
      }
      alive &= holders;
      if (alive == 0) break;
    }
    for (uint64_t rest = alive; rest != 0; rest &= rest - 1)
      depth[static_cast<size_t>(std::countr_zero(rest))] = d;
    Emit(depth, any, out);
  }

 private:
  absl::flat_hash_map<SequenceHash, uint64_t> masks_;
  std::array<absl::flat_hash_map<EngineHash, SequenceHash>, 64> names_;
};

// A trie with one node per block and a hash map of children in each inner node.
class BlockTrie {
 public:
  void Apply(const KvEvent& event) {
    const auto w = static_cast<uint64_t>(event.target.worker);
    auto& names = names_[w];
    const uint64_t bit = uint64_t{1} << w;
    if (const auto* stored = std::get_if<Stored>(&event.data)) {
      Node* at = &root_;
      if (stored->parent) {
        const auto it = names.find(*stored->parent);
        if (it == names.end()) return;
        at = it->second;
      }
      for (const StoredBlock& block : stored->blocks) {
        auto& child = at->children[block.local_hash];
        if (child == nullptr) child.reset(new Node{at, block.local_hash, 0, {}});
        at = child.get();
        at->holders |= bit;
        names[block.engine_hash] = at;
      }
    } else if (const auto* removed = std::get_if<Removed>(&event.data)) {
      for (const EngineHash hash : removed->engine_hashes) {
        const auto it = names.find(hash);
        if (it == names.end()) continue;
        Node* at = it->second;
        names.erase(it);
        at->holders &= ~bit;
        while (at != &root_ && at->holders == 0 && at->children.empty()) {
          Node* parent = at->parent;
          parent->children.erase(at->content);
          at = parent;
        }
      }
    }
  }

  void FindOverlap(const BenchQuery& query, std::vector<OverlapMatch>* out) const {
    std::array<uint32_t, 64> depth;
    uint64_t alive = ~uint64_t{0};
    uint64_t any = 0;
    uint32_t d = 0;
    const Node* at = &root_;
    for (; d < query.contents.size(); ++d) {
      const auto it = at->children.find(query.contents[d]);
      const uint64_t holders = it == at->children.end() ? 0 : it->second->holders;
      if (d == 0) any = alive = holders;
      for (uint64_t lost = alive & ~holders; lost != 0; lost &= lost - 1) {
        depth[static_cast<size_t>(std::countr_zero(lost))] = d;
      }
      alive &= holders;
      if (alive == 0) break;
      at = it->second.get();
    }
    for (uint64_t rest = alive; rest != 0; rest &= rest - 1)
      depth[static_cast<size_t>(std::countr_zero(rest))] = d;
    Emit(depth, any, out);
  }

 private:
  struct Node {
    Node* parent = nullptr;
    LocalBlockHash content{};
    uint64_t holders = 0;
    absl::flat_hash_map<LocalBlockHash, std::unique_ptr<Node>> children;
  };

  Node root_;
  std::array<absl::flat_hash_map<EngineHash, Node*>, 64> names_;
};

// The index itself, in the same clothes.
class Tree {
 public:
  void Apply(const KvEvent& event) { index_.Apply(event); }
  void FindOverlap(const BenchQuery& query, std::vector<OverlapMatch>* out) const {
    index_.FindOverlap(query.contents, out, &lower_);
  }
  const BlockIndex& index() const { return index_; }
  // Of the latest lookup; one thread looks up.
  const std::vector<LowerTierMatch>& lower() const { return lower_; }

 private:
  BlockIndex index_;
  mutable std::vector<LowerTierMatch> lower_;
};

}  // namespace kvrouter

#endif  // KVROUTER_TESTS_BENCH_CORE_INDEX_BASELINE_INDEXES_H_
