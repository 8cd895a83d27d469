#ifndef KVROUTER_SESSION_H_
#define KVROUTER_SESSION_H_

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"

namespace kvrouter {

// Which conversation a request belongs to, within one partition: a hash of the caller's session id,
// or of the prompt's beginning (docs/routing.md#affinity). Tables keep keys, never ids or prompts.
//
// Parity: any stable hash will do. Dynamo's own (Rust's DefaultHasher) would be needed only where
// ids must agree with its replicas.
enum class SessionKey : uint64_t {};
inline constexpr SessionKey kNoSession{0};

// What the caller said of its session, by where it said so. Empty: nothing.
struct SessionIdSources {
  std::string_view dynamo_session_id = {};       // x-dynamo-session-id, or the field of a request
  std::string_view claude_code_agent_id = {};    // x-claude-code-agent-id
  std::string_view claude_code_session_id = {};  // x-claude-code-session-id
  std::string_view thread_id = {};               // thread-id
  std::string_view session_id = {};              // x-session-id
};

inline constexpr size_t kMaxSessionIdBytes = 256;

// The caller's session id, without the white space around it; empty if there is none. The first of:
// Dynamo's own; Claude Code's agent (which counts only beside its session), else its session; a
// thread id; a plain session id. INVALID_ARGUMENT above kMaxSessionIdBytes.
absl::StatusOr<std::string_view> CallerSessionId(const SessionIdSources& sources);

// As explanations and logs name a derived session, e.g. prefix-00c0ffee00c0ffee.
std::string DerivedSessionName(SessionKey key);

// The soft mode: a session's target is preferred, not fixed.
struct SoftPin {
  double max_cost_factor = 4;        // >= 1, finite
  double max_extra_cost_blocks = 0;  // >= 0, finite

  friend bool operator==(const SoftPin&, const SoftPin&) = default;
};

// Sessions: who they are, and whether they stay where they were. Dynamo's settings and the fork's.
struct SessionConfig {
  // A session is bound to a target until it has been idle for this long, 1 s..365 d. Absent: off.
  std::optional<std::chrono::seconds> affinity_ttl = {};
  // Requests whose caller names no session are told apart by their first N tokens. 0: not at all.
  uint64_t prefix_tokens = 0;
  // A session without a binding goes to the target that every router would choose for it, in place
  // of the one with the lowest cost.
  bool rendezvous = false;
  // False: a binding is kept as long as its target is a candidate.
  bool soft = false;
  SoftPin soft_pin = {};
  uint32_t max_sessions = 65'536;  // > 0. Bindings of a pool; the longest idle one makes room
  // Derived sessions that are no conversation but what many have in common: more than so many
  // times a target's share of the load do not pin.
  double hot_share_of_mean = 1.0;          // > 0, finite
  uint64_t hot_min_requests = 32;          // > 0; fewer (faded) are never hot
  std::chrono::seconds hot_half_life{60};  // > 0

  friend bool operator==(const SessionConfig&, const SessionConfig&) = default;
};

// How a session's key came about.
enum class SessionSource : uint8_t {
  kNone,    // there is none
  kCaller,  // the caller named it
  kPrefix,  // the first N tokens
  kAlias,   // the first N tokens, for which a key from below N is kept
  kEnd,     // continues an earlier prompt shorter than N
  kStart,   // the first prompt of a session shorter than N
};
inline constexpr int kSessionSourceCount = 6;
// E.g. "prefix".
std::string_view SessionSourceName(SessionSource source);

// What the session meant for the choice of the target.
enum class SessionOutcome : uint8_t {
  kNone,         // no session
  kNotPinned,    // affinity is off, or the target was named by who needs no session
  kHot,          // the key is what many have in common
  kBound,        // served where it was
  kInitialised,  // it had no target; now it has this one
  kReplaced,     // its target was no candidate any more; now it has this one
  kMoved,        // soft: its target would have cost too much; now it has this one
  kConflict,     // the caller pins another target: nothing is bound
  kNoRoom,       // all bindings are in use
};
inline constexpr int kSessionOutcomeCount = 9;
// E.g. "initialised".
std::string_view SessionOutcomeName(SessionOutcome outcome);

// The session as a decision knows it. Of advice: what a booking would have done.
struct SessionPlacement {
  SessionKey key = kNoSession;
  SessionSource source = SessionSource::kNone;
  SessionOutcome outcome = SessionOutcome::kNone;
};

}  // namespace kvrouter

#endif  // KVROUTER_SESSION_H_
