#ifndef KVROUTER_SERVICE_WORKER_REGISTRY_H_
#define KVROUTER_SERVICE_WORKER_REGISTRY_H_

#include <atomic>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/mutex.h"
#include "kvrouter/limits.h"
#include "kvrouter/router.h"
#include "kvrouter/worker.h"
#include "service/refusal_counts.h"

namespace kvrouter {

// Told when the worker set changes. Calls are serialised and arrive in order; implementations must
// return quickly (queue the work) and must not call back into the registry.
class WorkerListener {
 public:
  virtual ~WorkerListener() = default;
  // New, or changed in any field. The core already knows the worker.
  virtual void OnWorkerChanged(const WorkerSpec& spec) = 0;
  // Gone. The core has already forgotten it, so late events of it are dropped as stale.
  virtual void OnWorkerRemoved(WorkerId id, Incarnation incarnation) = 0;
};

// Fields of Workers.Update; absent = unchanged.
struct WorkerPatch {
  std::optional<std::string> address;
  std::optional<uint32_t> block_size_tokens;
  std::optional<uint32_t> dp_start_rank;
  std::optional<uint32_t> dp_size;
  std::optional<WorkerRole> role;
  std::optional<bool> draining;
  std::optional<uint64_t> total_kv_blocks;
  std::optional<uint64_t> max_num_batched_tokens;
  std::optional<bool> is_eagle;
  std::optional<TokenId> image_token_id;  // once set it is only replaced
  std::optional<std::map<uint32_t, EventEndpoints>> events;
  std::optional<std::vector<std::string>> taints;
  std::optional<WorkerTopology> topology;
  std::optional<std::vector<std::string>> lora_adapters;  // once declared it is only replaced
  std::optional<KvRole> kv_role = {};
  std::optional<std::string> engine_version = {};
};

// The fields that are there replace those of the record.
void Apply(const WorkerPatch& patch, WorkerSpec* spec);

// A record that a source of whole worker sets (discovery) asserts.
struct DeclaredUpsert {
  WorkerSpec spec;         // its incarnation is ignored
  Incarnation expected{};  // the life that the source registered; 0: the worker is not registered
  bool new_life = false;   // another process under the same id: whatever was known of it is void
};

// The one owner of the worker set. Everything that discovers workers (YAML, registration APIs,
// later Kubernetes) ends here; it validates, hands out incarnations, tells the core first and the
// listeners after.
//
// Thread safety: thread-safe; one mutex serialises changes, and is held while the core and the
// listeners are told so that all see changes in one order.
class WorkerRegistry {
 public:
  explicit WorkerRegistry(Router* router);

  // Not after the first Register. Listeners outlive the registry's use.
  void AddListener(WorkerListener* listener);
  // Ranks may have a replay endpoint and no live one: their events come by an event plane.
  // Likewise.
  void AllowReplayAlone() { allow_replay_alone_ = true; }

  // Lives that workers had before this process: one that registers without saying which life it is
  // (incarnation 0, or declared) and is not live gets the number it had, once. Not after the first
  // Register.
  void RememberLives(std::map<WorkerId, Incarnation> lives);

  // Upsert. spec.incarnation 0: a new worker gets the next incarnation, a known one keeps its own
  // (so repeating a registration changes nothing). Non-zero: must not be older than the live one; a
  // newer one is a new life. Within one life `draining` is only ever raised here (a worker that
  // re-registers on a timer must not undo a drain); Update lowers it. One that drains only for want
  // of an address serves when it gets one, here or by Update. Returns the record as stored.
  // Errors: kInvalidRequest naming the field, the errors of Router::UpsertWorker; after an error
  // the old record stays in force.
  absl::StatusOr<WorkerSpec> Register(WorkerSpec spec);

  // Errors: kUnknownWorker (NOT_FOUND), else as Register.
  absl::StatusOr<WorkerSpec> Update(WorkerId id, const WorkerPatch& patch);

  // From a record as it is (null: unknown) to the record as it shall be (nothing: gone).
  using WorkerEdit =
      std::function<absl::StatusOr<std::optional<WorkerSpec>>(const WorkerSpec* known)>;
  // In one step, whatever other doors do meanwhile: `edit` runs under the lock and must not call
  // back. Its error leaves all as it is; the life goes on.
  absl::Status Edit(WorkerId id, const WorkerEdit& edit);

  // No new picks; bookings stay. Error: kUnknownWorker.
  absl::StatusOr<WorkerSpec> Drain(WorkerId id);

  // Error: kUnknownWorker: also on the second call, no tombstone is kept.
  absl::Status Remove(WorkerId id);

  // For sources of whole worker sets, which share the registry with callers that register and drain
  // by themselves. Nothing happens unless the worker is live with exactly the expected incarnation
  // (kIncarnationConflict: somebody else's record). Unlike Register it also lowers `draining`,
  // except where a caller asked for the drain. Its errors are not counted: a source tries again.
  absl::StatusOr<WorkerSpec> RegisterDeclared(DeclaredUpsert declared);
  // Removes exactly this life; kIncarnationConflict if the worker is live with another one.
  absl::Status RemoveLife(WorkerId id, Incarnation incarnation);

  // For a door that refuses a message before it is a record: counted like an error of Register.
  void CountRefusal(const absl::Status& answer) { refused_.Count(answer); }
  // Errors of Register, Update, Edit and Drain, each counted once, and those of CountRefusal.
  RefusalCounts::ByReason Refused() const { return refused_.Read(); }

  std::optional<WorkerSpec> Find(WorkerId id) const;
  std::vector<WorkerSpec> List() const;  // ascending id
  // Grows with every change of the set or of a record, so that a reader can tell that nothing has
  // changed. Read it before List.
  uint64_t Version() const { return version_.load(std::memory_order_acquire); }

 private:
  absl::StatusOr<WorkerSpec> TryRegister(WorkerSpec spec);
  absl::StatusOr<WorkerSpec> TryUpdate(WorkerId id, const WorkerPatch& patch);
  absl::Status TryEdit(WorkerId id, const WorkerEdit& edit);
  // Drains though nobody asked for it: there is no address to send anybody to.
  bool DrainsForWantOfAddress(const WorkerSpec& spec) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  Incarnation NextLifeLocked(WorkerId id) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  absl::StatusOr<WorkerSpec> StoreLocked(WorkerSpec spec) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  // Whether the drain of this record was asked for by a caller.
  void NoteDrainLocked(WorkerId id, bool draining) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  void RemoveLocked(WorkerId id, Incarnation incarnation) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);

  Router* const router_;
  bool allow_replay_alone_ = false;
  RefusalCounts refused_;
  mutable Mutex mu_;
  std::vector<WorkerListener*> listeners_ ABSL_GUARDED_BY(mu_);
  std::map<WorkerId, WorkerSpec> workers_ ABSL_GUARDED_BY(mu_);
  std::set<WorkerId> drained_by_callers_ ABSL_GUARDED_BY(mu_);  // of workers_
  uint64_t next_incarnation_ ABSL_GUARDED_BY(mu_) = 1;
  std::map<WorkerId, Incarnation> remembered_lives_ ABSL_GUARDED_BY(mu_);
  std::atomic<uint64_t> version_{0};  // written under mu_, after the change
};

// Limits of a record. Incarnations above the limit would leave the registry none to hand out after
// them.
inline constexpr size_t kMaxNameBytes = 256;      // model_name, routing_group
inline constexpr size_t kMaxAddressBytes = 1024;  // address and every event endpoint
inline constexpr size_t kMaxTaintBytes = 512;     // taints, topology labels and domains, adapters
inline constexpr size_t kMaxTaintsPerWorker = 256;
inline constexpr size_t kMaxTopologyDomains = 64;
inline constexpr size_t kMaxAdaptersPerWorker = 4096;
inline constexpr uint64_t kMaxIncarnation = uint64_t{1} << 62;

// Whether what event feeds are built on, besides their endpoints, is the same in both. If not, the
// blocks or their names are others.
bool SameFeedBasis(const WorkerSpec& a, const WorkerSpec& b);

// OK, or kInvalidRequest naming the field, the value and the limit. An incarnation of 0 is valid:
// still to be assigned.
absl::Status ValidateWorkerSpec(const WorkerSpec& spec);

}  // namespace kvrouter

#endif  // KVROUTER_SERVICE_WORKER_REGISTRY_H_
