// A peer's answer to GET /dump. Whatever it is, what is read of it are stored events of ranks that
// were asked for.
#include <cstddef>
#include <cstdint>
#include <string>
#include <variant>
#include <vector>

#include "adapters/peer/peer_dump.h"
#include "base/check.h"

namespace kvrouter {
namespace {

void Run(std::string json) {
  std::vector<PeerWish> wishes(2);
  wishes[0].spec.id = wishes[1].spec.id = WorkerId{7};
  wishes[0].spec.block_size_tokens = wishes[1].spec.block_size_tokens = 16;
  wishes[1].dp_rank = 1;
  const auto found = ReadPeerDump(std::move(json), wishes);
  if (!found.ok()) return;
  for (const auto& [wish, events] : *found) {
    KVR_CHECK(wish < wishes.size(), "wish={}", wish);
    for (const KvEvent& event : events) {
      KVR_CHECK(event.target.dp_rank == wish, "rank {} for wish {}", event.target.dp_rank, wish);
      KVR_CHECK(!std::get<Stored>(event.data).blocks.empty(), "an empty store");
    }
  }
}

}  // namespace
}  // namespace kvrouter

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  kvrouter::Run({reinterpret_cast<const char*>(data), size});
  return 0;
}
