#include "service/steering_headers.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/ascii.h"
#include "base/status_macros.h"
#include "kvrouter/error.h"
#include "service/request_limits.h"

namespace kvrouter {
namespace {

constexpr std::string_view kExplain = "x-route-explain";
constexpr std::string_view kPolicyClass = "x-dynamo-meta-policy-class";

absl::Status Invalid(std::string_view message) {
  return MakeError(absl::StatusCode::kInvalidArgument, ErrorReason::kInvalidRequest, message);
}

bool IsClassCharacter(char c) { return IsAsciiAlphanumeric(c) || c == '_' || c == '.' || c == '-'; }

}  // namespace

absl::StatusOr<std::string_view> ReadHeader(HeaderSpan headers, std::string_view name) {
  std::string_view value;
  int count = 0;
  for (const auto& [key, text] : headers) {
    if (key != name) continue;
    value = text;
    ++count;
  }
  if (count > 1) return Invalid(fmt::format("header {} is sent {} times", name, count));
  const size_t begin = value.find_first_not_of(" \t");
  if (begin == std::string_view::npos) return std::string_view();
  return value.substr(begin, value.find_last_not_of(" \t") - begin + 1);
}

absl::Status HeaderIsNoNumber(std::string_view name, std::string_view text, int64_t min,
                              uint64_t max) {
  return Invalid(fmt::format("header {} must be a whole number {}..{}, got \"{}\"", name, min, max,
                             text.substr(0, 64)));
}

absl::StatusOr<SteeringHeaders> ReadSteeringHeaders(HeaderSpan headers) {
  SteeringHeaders read;
  KVR_ASSIGN_OR_RETURN(const std::string_view explain, ReadHeader(headers, kExplain));
  if (!explain.empty() && explain != "0" && explain != "1")
    return Invalid(fmt::format("header {} must be 0 or 1", kExplain));
  read.explain = explain == "1";
  KVR_ASSIGN_OR_RETURN(read.policy_class, ReadHeader(headers, kPolicyClass));
  if (read.policy_class.size() > kMaxPolicyClassBytes) {
    return Invalid(fmt::format("header {} has {} bytes, limit {}", kPolicyClass,
                               read.policy_class.size(), kMaxPolicyClassBytes));
  }
  if (!std::all_of(read.policy_class.begin(), read.policy_class.end(), IsClassCharacter))
    return Invalid(
        fmt::format("header {} may hold letters, digits, '_', '.' and '-'", kPolicyClass));
  KVR_ASSIGN_OR_RETURN(read.priority,
                       ReadNumberHeader<int32_t>(headers, "x-dynamo-request-priority"));
  KVR_ASSIGN_OR_RETURN(read.strict_priority,
                       ReadNumberHeader<uint32_t>(headers, "x-dynamo-request-strict-priority"));
  return read;
}

void ApplySteering(const SteeringHeaders& steering, RouteRequest* route) {
  if (!steering.policy_class.empty()) route->policy_class = steering.policy_class;
  if (steering.priority) route->priority_jump = std::max(0, *steering.priority);
  if (steering.strict_priority) route->strict_priority = *steering.strict_priority;
}

absl::StatusOr<SessionIdSources> ReadSessionHeaders(HeaderSpan headers) {
  SessionIdSources sources;
  KVR_ASSIGN_OR_RETURN(sources.dynamo_session_id, ReadHeader(headers, "x-dynamo-session-id"));
  KVR_ASSIGN_OR_RETURN(sources.claude_code_agent_id, ReadHeader(headers, "x-claude-code-agent-id"));
  KVR_ASSIGN_OR_RETURN(sources.claude_code_session_id,
                       ReadHeader(headers, "x-claude-code-session-id"));
  KVR_ASSIGN_OR_RETURN(sources.thread_id, ReadHeader(headers, "thread-id"));
  KVR_ASSIGN_OR_RETURN(sources.session_id, ReadHeader(headers, "x-session-id"));
  return sources;
}

}  // namespace kvrouter
