#include "property/truth/plane_publisher.h"

#include <optional>
#include <utility>
#include <vector>

#include "kvrouter/block_hash.h"
#include "property/truth/dice.h"
#include "property/truth/wire.h"
#include "support/plane_payload.h"

namespace kvrouter::truth {

PlaneMessage PlanePublisher::Tell(const Batch& batch) {
  if (life_ != batch.said.life) {
    life_ = batch.said.life;
    next_event_id_ = 0;
    next_message_ = 0;
    copies_.clear();
  }
  std::vector<PlaneEventSpec> events;
  for (const CacheOp& op : batch.ops) {
    PlaneEventSpec event;
    event.worker_id = static_cast<uint64_t>(target_.worker);
    event.dp_rank = target_.dp_rank;
    event.event_id = next_event_id_++;
    event.data = Data(op);
    if (op.tier != StorageTier::kDevice) event.storage_tier = "host_pinned";
    events.push_back(std::move(event));
  }
  return {.target = target_,
          .said = batch.said,
          .envelope = EventsEnvelope(Mix(seed_, life_), next_message_++, events)};
}

std::string PlanePublisher::Data(const CacheOp& op) {
  switch (op.kind) {
    case CacheOp::Kind::kCleared:
      copies_.clear();
      return PlaneCleared();
    case CacheOp::Kind::kRemoved: {
      std::vector<uint64_t> gone;
      for (const NodeId node : op.nodes) {
        // One that it never heard of, since it is younger than its engine, is gone with any copy.
        if (--copies_[{op.tier, node}] <= 0) {
          copies_.erase({op.tier, node});
          gone.push_back(EngineName(Mix(seed_, life_), node));
        }
      }
      return PlaneRemoved(gone);
    }
    case CacheOp::Kind::kStored:
      break;
  }
  const auto& first = tree_[op.nodes.front()];
  PlaneBlocks blocks;
  for (const NodeId node : op.nodes) {
    ++copies_[{op.tier, node}];
    std::vector<TokenId> tokens;
    tree_.AppendTokens(node, &tokens);
    std::vector<LocalBlockHash> local;
    AppendLocalBlockHashes(tokens, kBlockTokens,
                           BlockSeed({.lora_name = {}, .cache_salt = first.salt}), &local);
    blocks.emplace_back(EngineName(Mix(seed_, life_), node), static_cast<uint64_t>(local.front()));
  }
  uint64_t parent = 0;
  if (first.parent) parent = EngineName(Mix(seed_, life_), *first.parent);
  return PlaneStored(first.parent ? std::optional(parent) : std::nullopt, blocks);
}

}  // namespace kvrouter::truth
