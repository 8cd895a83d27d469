#ifndef KVROUTER_CORE_PARTITION_DIRECTORY_H_
#define KVROUTER_CORE_PARTITION_DIRECTORY_H_

#include <cstdint>
#include <memory>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "base/mutex.h"
#include "base/snapshot.h"
#include "core/partition.h"
#include "kvrouter/config.h"
#include "kvrouter/types.h"
#include "kvrouter/worker.h"

namespace kvrouter {

// Finds the partition of a name, of a worker, of a booking; and changes the worker set.
//
// Look-ups read an immutable table that is replaced whole, so they never wait for a change. Whoever
// holds a partition keeps it alive. A partition whose last worker left stays known (requests for it
// fail with kNoWorkers, not kUnknownPartition) until max_partitions is reached and a new one needs
// its place.
//
// Thread safety: thread-safe. Lock order: the membership lock (one change at a time), then locks of
// partitions.
class PartitionDirectory {
 public:
  explicit PartitionDirectory(const RouterConfig& config);

  // Null if there is none.
  std::shared_ptr<Partition> Find(std::string_view model_name,
                                  std::string_view routing_group) const;
  std::shared_ptr<Partition> OfWorker(WorkerId id) const;
  std::shared_ptr<Partition> OfBooking(BookingId id) const;
  std::vector<std::shared_ptr<Partition>> All() const;  // in order of creation, places reused

  // As Router.
  absl::Status UpsertWorker(const WorkerSpec& spec);
  bool RemoveWorker(WorkerId id);
  // Queues and ejections are those of `config`, of partitions to come as well.
  void Reconfigure(const RouterConfig& config);

 private:
  using Names = std::pair<std::string_view, std::string_view>;  // views into the partition itself

  struct Table {
    absl::flat_hash_map<Names, std::shared_ptr<Partition>> by_names;
    absl::flat_hash_map<WorkerId, std::shared_ptr<Partition>> by_worker;
    std::vector<std::shared_ptr<Partition>> by_number;
  };

  // The partition of these names in `table`, created if need be. Error: kLimitReached.
  absl::StatusOr<std::shared_ptr<Partition>> FindOrCreate(const WorkerSpec& spec, Table* table)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(membership_mu_);

  Mutex membership_mu_;
  RouterConfig config_ ABSL_GUARDED_BY(membership_mu_);
  Snapshot<Table> table_;
};

}  // namespace kvrouter

#endif  // KVROUTER_CORE_PARTITION_DIRECTORY_H_
