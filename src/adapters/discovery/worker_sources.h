#ifndef KVROUTER_ADAPTERS_DISCOVERY_WORKER_SOURCES_H_
#define KVROUTER_ADAPTERS_DISCOVERY_WORKER_SOURCES_H_

#include <array>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "adapters/discovery/discovery_journal.h"
#include "base/mutex.h"
#include "kvrouter/worker.h"
#include "service/worker_registry.h"

namespace kvrouter {

// A worker as a source declares it.
struct DeclaredWorker {
  WorkerSpec spec;  // its incarnation is ignored
  std::string
      life;  // another text is another process with an empty cache; "": the source cannot tell

  friend bool operator==(const DeclaredWorker&, const DeclaredWorker&) = default;
};

// As ValidateWorkerSpec; with `may_be_learned` block size and model name may be left open (0, "").
absl::Status ValidateDeclared(const WorkerSpec& spec, bool may_be_learned);

// What an engine says of itself; 0 or empty: nothing.
struct LearnedFacts {
  uint32_t block_size_tokens = 0;
  std::string model_name = {};
  uint64_t total_kv_blocks = 0;

  friend bool operator==(const LearnedFacts&, const LearnedFacts&) = default;
};

// Several sources, one worker set. Each source hands over the whole set it wants; what is wanted
// more than once is the stronger source's (order of WorkerSource). The set ends in WorkerRegistry,
// beside the workers that callers register themselves, and these rules keep them apart:
//
//   - A source changes and removes only records that it has registered itself. A worker that a
//     caller registered first is a conflict: counted, and the source's worker takes its place as
//     soon as the caller removes it.
//   - A record is rewritten when what its source wants changes, not otherwise: what a caller
//     changed, removed or took over by hand stays so until then.
//     A caller's drain outlives even that.
//   - A record that the registry refuses (block size of the partition, limits) is counted, and
//     tried again whenever the registry has changed. The record in force stays, unless it speaks of
//     a process that is gone: an address where nobody answers is worse than none.
//   - New and changed workers come before removals, so that a replaced fleet is never empty; what
//     only the removals made possible comes last.
//
//   - What a source leaves open (block size 0, model name empty, capacity 0) is taken from what was
//     learned of the worker. Without the first two a worker waits, and is not registered. What was
//     learned is followed when it changes, and holds for the worker's next process until that says
//     something else.
//
// No I/O, no clock. Thread safety: thread-safe; one mutex, held across calls of the registry.
class WorkerSources {
 public:
  WorkerSources(WorkerRegistry* registry, DiscoveryJournal* journal)
      : registry_(registry), journal_(journal) {}

  static constexpr size_t kMaxWorkersPerSource = 65536;

  // The first refusal of one of these workers, for callers that want all or nothing; the others are
  // in force all the same. A set over kMaxWorkersPerSource, or with one id twice, changes nothing.
  absl::Status Replace(WorkerSource source, const std::vector<DeclaredWorker>& wanted);

  // Tries again what could not be done before. Cheap while the registry has not changed;
  // for a timer.
  void Retry();

  // Workers that wait for something to be learned: id and address, ascending.
  std::vector<std::pair<WorkerId, std::string>> Incomplete() const;
  // Of workers that nobody wants, or whose source leaves nothing open, nothing is kept.
  void Learn(WorkerId id, const LearnedFacts& facts);

  struct Figures {
    uint64_t registered = 0;   // wanted, and in the registry by this source
    uint64_t conflicting = 0;  // wanted, but another's
    uint64_t refused = 0;      // wanted, but refused by the registry
    uint64_t removed_by_callers = 0;
    uint64_t incomplete = 0;  // wanted, and waiting for something to be learned
    uint64_t conflicts_total = 0;
    uint64_t refusals_total = 0;
  };
  Figures Read(WorkerSource source) const;

 private:
  enum class Standing : uint8_t {
    kPending,
    kRegistered,
    kConflict,
    kRefused,
    kRemovedByCaller,
    kIncomplete
  };
  // One wanted id, as its strongest source wants it.
  struct Entry {
    WorkerSource source{};
    DeclaredWorker wanted;
    bool dirty = true;  // the record does not say this yet
    Standing standing = Standing::kPending;
    absl::Status refusal = {};
  };
  // A record of ours in the registry.
  struct Held {
    Incarnation incarnation{};
    std::string life;
  };

  void ReconcileLocked() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  void MergeLocked() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  void NoteLossesLocked() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  void RemoveUnwantedLocked() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  void RegisterLocked(WorkerId id, Entry* entry) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  void SetIncompleteLocked(WorkerId id, Entry* entry) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  void SetConflictLocked(WorkerId id, Entry* entry) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  void SetRefusedLocked(WorkerId id, Entry* entry, const absl::Status& refusal)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  WorkerSpec CompletedLocked(const WorkerSpec& wanted) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  void ShadowLocked(WorkerSource source, WorkerId id, WorkerSource stronger)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);

  struct Totals {
    uint64_t conflicts = 0;
    uint64_t refusals = 0;
  };

  WorkerRegistry* const registry_;
  DiscoveryJournal* const journal_;
  mutable Mutex mu_;
  std::array<std::map<WorkerId, DeclaredWorker>, kWorkerSourceCount> wanted_ ABSL_GUARDED_BY(mu_);
  std::array<std::set<WorkerId>, kWorkerSourceCount> shadowed_ ABSL_GUARDED_BY(mu_);
  std::map<WorkerId, Entry> entries_ ABSL_GUARDED_BY(mu_);
  std::map<WorkerId, Held> held_ ABSL_GUARDED_BY(mu_);
  std::map<WorkerId, LearnedFacts> learned_
      ABSL_GUARDED_BY(mu_);  // of entries_ that leave something open
  std::array<Totals, kWorkerSourceCount> totals_ ABSL_GUARDED_BY(mu_);
  std::optional<uint64_t> seen_version_ ABSL_GUARDED_BY(mu_);
};

}  // namespace kvrouter

#endif  // KVROUTER_ADAPTERS_DISCOVERY_WORKER_SOURCES_H_
