#ifndef KVROUTER_SERVICE_PEER_BLOCKS_H_
#define KVROUTER_SERVICE_PEER_BLOCKS_H_

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "kvrouter/events.h"
#include "kvrouter/worker.h"

namespace kvrouter {

// What another router says that one rank holds.
struct PeerRankBlocks {
  std::string peer;  // its address, for logs and details
  // Stored events only, parents before children, StoreCounting::kSet, with the target and the
  // incarnation that were asked for.
  std::vector<KvEvent> events;
  uint64_t blocks = 0;
};

// Where a rank's blocks can be had when its engine cannot tell them. A dump has no cursor: it was
// true of some moment between the request and the answer, if the peer was right at all. So a caller
// that has seen events of the rank since then trusts those, and shows the rank as degraded.
class PeerBlockSource {
 public:
  using Answer = std::function<void(absl::StatusOr<PeerRankBlocks>)>;

  virtual ~PeerBlockSource() = default;

  // Whether there is anybody to ask.
  virtual bool HasPeers() const = 0;

  // Asks the peers, in their order, until one knows the rank. What it says was read after this
  // call. `answer` is called once, from a thread of the source, within twice its time-out; a source
  // that stops answers everything. Returns at once. Errors: NOT_FOUND if no peer knows the rank
  // under this block size, UNAVAILABLE if none answered, CANCELLED if the source stopped.
  virtual void Request(const WorkerSpec& spec, uint32_t dp_rank, Answer answer) = 0;

  // What became of an answer.
  enum class Use : uint8_t {
    kTaken,    // its blocks are in the index
    kOutdone,  // not needed or not usable any more: the engine itself told something meanwhile
  };
  virtual void CountUse(Use use, uint64_t blocks) = 0;
};

}  // namespace kvrouter

#endif  // KVROUTER_SERVICE_PEER_BLOCKS_H_
