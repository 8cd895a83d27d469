#include "adapters/grpc/event_convert.h"

#include <string_view>
#include <variant>

#include "adapters/grpc/answer_convert.h"

namespace kvrouter {
namespace {

// Names that the feed's filter reads back.
std::string_view MediumOf(StorageTier tier) {
  switch (tier) {
    case StorageTier::kDevice:
      return "GPU";
    case StorageTier::kHostPinned:
      return "CPU";
    case StorageTier::kDisk:
      return "DISK";
    case StorageTier::kExternal:
      return "EXTERNAL";
  }
  return "";
}

}  // namespace

void ToProto(const KvEvent& event, uint32_t block_size_tokens, v1::DumpedEvent* message) {
  ToProto(event.target, message->mutable_target());
  message->set_incarnation(static_cast<uint64_t>(event.incarnation));
  message->set_event_id(event.event_id);
  const auto& from = std::get<Stored>(event.data);
  v1::BlocksStored* stored = message->mutable_stored();
  if (from.parent) stored->set_parent_hash(static_cast<uint64_t>(*from.parent));
  stored->set_block_size_tokens(block_size_tokens);
  for (const StoredBlock& block : from.blocks) {
    stored->add_engine_hashes(static_cast<uint64_t>(block.engine_hash));
    stored->add_local_block_hashes(static_cast<uint64_t>(block.local_hash));
  }
  const std::string_view medium = MediumOf(event.tier);
  stored->set_medium(medium.data(), medium.size());
}

void ToProto(const DumpCounts& counts, v1::DumpCounts* message) {
  message->set_events(counts.events);
  message->set_blocks(counts.blocks);
  message->set_omitted_blocks(counts.omitted_blocks);
}

}  // namespace kvrouter
