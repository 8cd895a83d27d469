#include "adapters/http/selection_headers.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <limits>
#include <array>
#include <string_view>

#include "base/status_macros.h"
#include "kvrouter/error.h"
#include "kvrouter/session.h"

namespace kvrouter {
namespace {

constexpr std::string_view kExplain = "x-route-explain";
constexpr std::string_view kPolicyClass = "x-dynamo-meta-policy-class";
constexpr std::string_view kPriority = "x-dynamo-request-priority";
constexpr std::string_view kStrictPriority = "x-dynamo-request-strict-priority";
constexpr std::array<std::string_view, 5> kSessionHeaders = {
    "x-dynamo-session-id", "x-claude-code-agent-id", "x-claude-code-session-id", "thread-id",
    "x-session-id"};

absl::Status Invalid(std::string_view message) {
  return MakeError(absl::StatusCode::kInvalidArgument, ErrorReason::kInvalidRequest, message);
}

absl::Status CheckOnce(const HttpRequest& request, std::string_view name) {
  const auto count = std::count_if(request.headers.begin(), request.headers.end(),
                                   [&](const auto& header) { return header.first == name; });
  return count <= 1 ? absl::OkStatus()
                    : Invalid(fmt::format("header {} is sent {} times", name, count));
}

bool IsClassCharacter(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' ||
         c == '.' || c == '-';
}

template <typename Number>
absl::Status ReadNumber(const HttpRequest& request, std::string_view name,
                        std::optional<Number>* out) {
  KVR_RETURN_IF_ERROR(CheckOnce(request, name));
  const std::string_view text = request.Header(name);
  if (text.empty()) return absl::OkStatus();
  Number number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc() || end != text.data() + text.size()) {
    return Invalid(fmt::format("header {} must be a whole number {}..{}, got \"{}\"", name,
                               std::numeric_limits<Number>::min(),
                               std::numeric_limits<Number>::max(), text.substr(0, 64)));
  }
  *out = number;
  return absl::OkStatus();
}

}  // namespace

void ApplyHeaders(const SelectionHeaders& headers, RouteRequest* route) {
  if (!headers.policy_class.empty()) route->policy_class = headers.policy_class;
  if (headers.priority) route->priority_jump = std::max(0, *headers.priority);
  if (headers.strict_priority) route->strict_priority = *headers.strict_priority;
}

absl::Status CheckJsonContent(const HttpRequest& request) {
  std::string type(request.Header("content-type"));
  type = type.substr(0, type.find(';'));
  while (!type.empty() && type.back() == ' ') type.pop_back();
  for (char& c : type) {
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
  }
  if (type == "application/json" || (type.starts_with("application/") && type.ends_with("+json")))
    return absl::OkStatus();
  return absl::UnimplementedError("expected a request with Content-Type: application/json");
}

absl::StatusOr<SelectionHeaders> ReadSelectionHeaders(const HttpRequest& request) {
  SelectionHeaders read;
  KVR_RETURN_IF_ERROR(CheckOnce(request, kExplain));
  KVR_RETURN_IF_ERROR(CheckOnce(request, kPolicyClass));
  const std::string_view explain = request.Header(kExplain);
  if (!explain.empty() && explain != "0" && explain != "1")
    return Invalid(fmt::format("header {} must be 0 or 1", kExplain));
  read.explain = explain == "1";
  read.policy_class = std::string(request.Header(kPolicyClass));
  if (read.policy_class.size() > kMaxPolicyClassBytes) {
    return Invalid(fmt::format("header {} has {} bytes, limit {}", kPolicyClass,
                               read.policy_class.size(), kMaxPolicyClassBytes));
  }
  if (!std::all_of(read.policy_class.begin(), read.policy_class.end(), IsClassCharacter))
    return Invalid(
        fmt::format("header {} may hold letters, digits, '_', '.' and '-'", kPolicyClass));
  KVR_RETURN_IF_ERROR(ReadNumber(request, kPriority, &read.priority));
  KVR_RETURN_IF_ERROR(ReadNumber(request, kStrictPriority, &read.strict_priority));
  return read;
}

absl::StatusOr<std::string> ReadSessionId(const HttpRequest& request, const SelectionBody& body) {
  for (const std::string_view name : kSessionHeaders) KVR_RETURN_IF_ERROR(CheckOnce(request, name));
  const auto is_blank = [](std::string_view text) {
    return text.find_first_not_of(" \t\r\n") == std::string_view::npos;
  };
  SessionIdSources sources{.dynamo_session_id = request.Header(kSessionHeaders[0]),
                           .claude_code_agent_id = request.Header(kSessionHeaders[1]),
                           .claude_code_session_id = request.Header(kSessionHeaders[2]),
                           .thread_id = request.Header(kSessionHeaders[3]),
                           .session_id = request.Header(kSessionHeaders[4])};
  if (is_blank(sources.dynamo_session_id)) sources.dynamo_session_id = body.session_id;
  if (is_blank(sources.dynamo_session_id)) sources.dynamo_session_id = body.context_session_id;
  KVR_ASSIGN_OR_RETURN(const std::string_view id, CallerSessionId(sources));
  return std::string(id);
}

}  // namespace kvrouter
