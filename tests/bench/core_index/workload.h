#ifndef KVROUTER_TESTS_BENCH_CORE_INDEX_WORKLOAD_H_
#define KVROUTER_TESTS_BENCH_CORE_INDEX_WORKLOAD_H_

#include <algorithm>
#include <cstdint>
#include <random>
#include <span>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_set.h"
#include "kvrouter/block_hash.h"
#include "kvrouter/events.h"

namespace kvrouter {

// Conversations of 64-512 blocks behind 64 shared system prompts of 16-64 blocks, on 64 workers;
// each conversation is held by 1-3 workers up to differing lengths. Seeded: the same in every run.
struct Workload {
  static constexpr uint64_t kWorkers = 64;

  struct Conversation {
    std::vector<LocalBlockHash> contents;
    std::vector<SequenceHash> sequence;
  };
  struct Holding {
    uint32_t conversation = 0;
    Target target;
    uint32_t blocks = 0;
  };

  // own_names: each worker hashes with a seed of its own, as vLLM does unless told otherwise.
  Workload(size_t conversation_count, bool own_names) : own_names_(own_names) {
    std::mt19937_64 random(20'240'601);
    std::vector<std::vector<LocalBlockHash>> system_prompts(64);
    for (auto& prompt : system_prompts) AddBlocks(random, 16 + random() % 49, &prompt);
    for (uint32_t c = 0; c < conversation_count; ++c) {
      Conversation conversation;
      conversation.contents = system_prompts[random() % 64];
      AddBlocks(random, 64 + random() % 449, &conversation.contents);
      AppendSequenceHashes(conversation.contents, &conversation.sequence);
      const uint64_t holders = 1 + random() % 3;
      const uint64_t first = random() % kWorkers;
      for (uint64_t h = 0; h < holders; ++h) {
        const uint64_t whole = conversation.contents.size();
        const auto blocks =
            static_cast<uint32_t>(h == 0 ? whole : whole / 2 + random() % (whole / 2));
        holdings.push_back({c, {WorkerId{(first + h * 7) % kWorkers}, 0}, blocks});
      }
      conversations.push_back(std::move(conversation));
    }
    absl::flat_hash_set<std::pair<Target, SequenceHash>> pairs;
    for (const Holding& holding : holdings) {
      for (uint32_t b = 0; b < holding.blocks; ++b) {
        pairs.emplace(holding.target, conversations[holding.conversation].sequence[b]);
      }
    }
    holder_blocks = pairs.size();
  }

  EngineHash NameOf(const Holding& holding, uint32_t block) const {
    const auto sequence =
        static_cast<uint64_t>(conversations[holding.conversation].sequence[block]);
    const uint64_t seed = own_names_ ? static_cast<uint64_t>(holding.target.worker) + 1 : 0;
    return EngineHash{(sequence ^ seed) * 0x9e3779b97f4a7c15};
  }

  // Fills `event` with blocks [from, to) of the holding; reuses its memory.
  void StoredEvent(const Holding& holding, uint32_t from, uint32_t to, KvEvent* event) const {
    event->target = holding.target;
    event->counting = StoreCounting::kSet;
    if (!std::holds_alternative<Stored>(event->data)) event->data = Stored{};
    auto& stored = std::get<Stored>(event->data);
    stored.parent.reset();
    if (from > 0) stored.parent = NameOf(holding, from - 1);
    stored.blocks.clear();
    for (uint32_t b = from; b < to; ++b) {
      stored.blocks.push_back(
          {NameOf(holding, b), conversations[holding.conversation].contents[b]});
    }
  }

  // The last `blocks` of the holding, last first, as an engine evicts.
  void RemovedEvent(const Holding& holding, uint32_t blocks, KvEvent* event) const {
    event->target = holding.target;
    event->counting = StoreCounting::kSet;
    if (!std::holds_alternative<Removed>(event->data)) event->data = Removed{};
    auto& removed = std::get<Removed>(event->data);
    removed.engine_hashes.clear();
    for (uint32_t b = 0; b < blocks; ++b)
      removed.engine_hashes.push_back(NameOf(holding, holding.blocks - 1 - b));
  }

  // Stores everything; each sequence `chunk` blocks at a time. Interleaved: round robin over all
  // sequences.
  template <typename Index>
  uint64_t StoreAll(bool interleaved, uint32_t chunk, Index* index) const {
    KvEvent event;
    uint64_t stored = 0;
    const auto store = [&](const Holding& holding, uint32_t from) {
      const uint32_t to = std::min(from + chunk, holding.blocks);
      StoredEvent(holding, from, to, &event);
      index->Apply(event);
      stored += to - from;
    };
    if (interleaved) {
      for (uint32_t from = 0; from < 600; from += chunk) {
        for (const Holding& holding : holdings) {
          if (from < holding.blocks) store(holding, from);
        }
      }
    } else {
      for (const Holding& holding : holdings) {
        for (uint32_t from = 0; from < holding.blocks; from += chunk) store(holding, from);
      }
    }
    return stored;
  }

  std::vector<Conversation> conversations;
  std::vector<Holding> holdings;
  // Different (worker, block) pairs; holdings of a worker share system prompts.
  uint64_t holder_blocks = 0;

 private:
  static void AddBlocks(std::mt19937_64& random, uint64_t count,
                        std::vector<LocalBlockHash>* contents) {
    for (; count > 0; --count) contents->push_back(LocalBlockHash{random()});
  }

  bool own_names_;
};

}  // namespace kvrouter

#endif  // KVROUTER_TESTS_BENCH_CORE_INDEX_WORKLOAD_H_
