#ifndef KVROUTER_SERVICE_RANK_HISTORY_H_
#define KVROUTER_SERVICE_RANK_HISTORY_H_

#include <cstdint>
#include <functional>

#include "absl/status/statusor.h"
#include "feed/rank_picture.h"
#include "kvrouter/worker.h"

namespace kvrouter {

// Somebody who can be asked for what a rank holds: its engine, another router. Thread-safe.
class RankHistory {
 public:
  virtual ~RankHistory() = default;

  // Whether it makes sense to ask it about this rank. Quick, without any I/O.
  virtual bool Knows(const WorkerSpec& spec, uint32_t dp_rank) const = 0;

  // Whether what it says without a reservation is proved, so that it can settle a doubt.
  virtual bool Proves() const { return true; }

  // The rank as it is at some time after this call began. Waits for the answer, within a bound of
  // its own; asks `cancelled` at least ten times a second and gives up when it says so.
  virtual absl::StatusOr<RankPicture> Fetch(const WorkerSpec& spec, uint32_t dp_rank,
                                            const std::function<bool()>& cancelled) const = 0;
};

}  // namespace kvrouter

#endif  // KVROUTER_SERVICE_RANK_HISTORY_H_
