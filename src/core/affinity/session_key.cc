#include "core/affinity/session_key.h"

#include <fmt/format.h>

#include "kvrouter/block_hash.h"
#include "kvrouter/error.h"

namespace kvrouter {
namespace {

// Apart from the seeds of block hashes, so that a key is no block's name.
constexpr uint64_t kCallerIdSeed = 0x5e55'1000'0000'0001;

std::string_view Trimmed(std::string_view text) {
  constexpr std::string_view kSpace = " \t\r\n\f\v";
  const size_t first = text.find_first_not_of(kSpace);
  if (first == std::string_view::npos) return {};
  return text.substr(first, text.find_last_not_of(kSpace) - first + 1);
}

std::string_view FirstId(const SessionIdSources& sources) {
  const std::string_view dynamo = Trimmed(sources.dynamo_session_id);
  if (!dynamo.empty()) return dynamo;
  const std::string_view claude_session = Trimmed(sources.claude_code_session_id);
  if (!claude_session.empty()) {
    const std::string_view claude_agent = Trimmed(sources.claude_code_agent_id);
    return claude_agent.empty() ? claude_session : claude_agent;
  }
  const std::string_view thread = Trimmed(sources.thread_id);
  return thread.empty() ? Trimmed(sources.session_id) : thread;
}

}  // namespace

absl::StatusOr<std::string_view> CallerSessionId(const SessionIdSources& sources) {
  const std::string_view id = FirstId(sources);
  if (id.size() <= kMaxSessionIdBytes) return id;
  return MakeError(
      absl::StatusCode::kInvalidArgument, ErrorReason::kInvalidRequest,
      fmt::format("session id must have at most {} bytes, got {}", kMaxSessionIdBytes, id.size()));
}

SessionKey KeyOfCallerId(std::string_view id) { return KeyOfHash(HashBytes(id, kCallerIdSeed)); }

std::string DerivedSessionName(SessionKey key) {
  return fmt::format("prefix-{:016x}", static_cast<uint64_t>(key));
}

}  // namespace kvrouter
