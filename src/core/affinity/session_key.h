#ifndef KVROUTER_CORE_AFFINITY_SESSION_KEY_H_
#define KVROUTER_CORE_AFFINITY_SESSION_KEY_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "absl/status/statusor.h"

namespace kvrouter {

// Which conversation a request belongs to, within one partition: a hash of the caller's session id,
// or of the prompt's beginning (lineage.h). Tables keep keys, never ids or prompts.
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

// Never kNoSession. REQUIRES: !id.empty().
SessionKey KeyOfCallerId(std::string_view id);

// A key made of a 64-bit hash: the one value that means "none" is mapped to another.
inline SessionKey KeyOfHash(uint64_t hash) { return SessionKey{hash == 0 ? 1 : hash}; }

// As explanations and logs name a derived session, e.g. prefix-00c0ffee00c0ffee.
std::string DerivedSessionName(SessionKey key);

// Spreads the bits of a word: neighbouring inputs give unrelated outputs. A bijection.
constexpr uint64_t MixBits(uint64_t x) {
  x ^= x >> 32;
  x *= 0xd6e8feb86659fd93;
  x ^= x >> 32;
  x *= 0xd6e8feb86659fd93;
  x ^= x >> 32;
  return x;
}

}  // namespace kvrouter

#endif  // KVROUTER_CORE_AFFINITY_SESSION_KEY_H_
