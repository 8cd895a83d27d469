#ifndef KVROUTER_DISPATCH_MODEL_DIRECTORY_H_
#define KVROUTER_DISPATCH_MODEL_DIRECTORY_H_

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/statusor.h"
#include "base/mutex.h"
#include "kvrouter/types.h"
#include "kvrouter/worker.h"
#include "service/worker_registry.h"

namespace kvrouter {

// An engine as the dispatcher needs to know it.
struct KnownEngine {
  WorkerId id{};
  Incarnation incarnation{};
  std::string address;  // not empty
  WorkerRole role = WorkerRole::kAggregated;
  bool draining = false;
  uint32_t dp_size = 1;
};

// The engines of one model and routing group.
struct KnownPartition {
  std::string model_name;
  std::string routing_group;
  std::vector<KnownEngine> engines;  // ascending id; not draining
  bool has_prefill = false;
};

// What a client calls a model, as the router knows it.
struct ServedModel {
  std::shared_ptr<const KnownPartition> partition;
  std::string lora_name;  // empty: the base model
};

// Who serves what, read from the registry when it has changed. The address book of the dispatcher:
// decisions are the router's.
//
// Thread safety: thread-safe. Bound: the registry's.
class ModelDirectory {
 public:
  // `workers` outlives it.
  explicit ModelDirectory(const WorkerRegistry* workers) : workers_(workers) {}

  // A model's name, or that of an adapter that a worker of a model has declared. An empty one: the
  // only model there is. Of several groups: `group` if it is not empty (then no other), else
  // `preferred`, else the first by name. NOT_FOUND kUnknownPartition, naming what was asked for.
  struct Wanted {
    std::string_view model;
    std::string_view group;
    std::string_view preferred_group;
  };
  absl::StatusOr<ServedModel> Resolve(const Wanted& wanted) const;

  // Draining ones, too.
  std::optional<KnownEngine> Find(WorkerId id) const;
  std::vector<std::shared_ptr<const KnownPartition>> Partitions() const;

 private:
  using ByGroup = std::map<std::string, std::shared_ptr<KnownPartition>, std::less<>>;
  struct Adapter {
    std::string model_name;
    std::string routing_group;
  };
  struct Book {
    std::map<std::string, ByGroup, std::less<>> models;
    std::map<std::string, std::vector<Adapter>, std::less<>> adapters;
    absl::flat_hash_map<WorkerId, KnownEngine> engines;
  };
  std::shared_ptr<const Book> Current() const;
  static std::shared_ptr<const Book> Read(const WorkerRegistry& workers);

  const WorkerRegistry* const workers_;
  mutable Mutex mu_;
  mutable uint64_t version_ ABSL_GUARDED_BY(mu_) = 0;
  mutable std::shared_ptr<const Book> book_ ABSL_GUARDED_BY(mu_);  // null: not read yet
};

}  // namespace kvrouter

#endif  // KVROUTER_DISPATCH_MODEL_DIRECTORY_H_
