#ifndef KVROUTER_CORE_AFFINITY_PARTITION_SESSIONS_H_
#define KVROUTER_CORE_AFFINITY_PARTITION_SESSIONS_H_

#include <cstdint>
#include <optional>
#include <string_view>

#include "base/mutex.h"
#include "core/affinity/kv_home.h"
#include "core/affinity/session_identity.h"
#include "kvrouter/router.h"
#include "kvrouter/session.h"
#include "kvrouter/types.h"

namespace kvrouter {

// The sessions of one partition: who they are, and where their blocks were last put. Which target
// they are bound to is the scheduler's affair (session_table.h).
//
// Thread safety: thread-safe, one mutex; no other lock is taken under it.
class PartitionSessions {
 public:
  explicit PartitionSessions(const SessionConfig& config);

  struct Request {
    std::string_view caller_id = {};  // as CallerSessionId gives it; empty: none
    PromptBeginning prompt = {};
    uint64_t targets = 0;  // that could serve it
    bool book = true;      // false: nothing is remembered
  };
  SessionIdentifier::Identity Identify(const Request& request, MonotonicTime now);

  // The migration planner's source when the index names none.
  std::optional<Target> HomeOf(SessionKey key) const;
  void SetHome(SessionKey key, Target target);

  DerivedSessionFigures Figures() const;
  // Sessions that have a home, and those that had to make room.
  uint64_t Homes() const;
  uint64_t HomesEvictedTotal() const;

 private:
  const bool derives_;
  mutable Mutex mu_;
  SessionIdentifier identifier_ ABSL_GUARDED_BY(mu_);
  KvHome homes_ ABSL_GUARDED_BY(mu_){kMaxKvHomes};
};

}  // namespace kvrouter

#endif  // KVROUTER_CORE_AFFINITY_PARTITION_SESSIONS_H_
