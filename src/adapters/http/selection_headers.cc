#include "adapters/http/selection_headers.h"

#include <string_view>

#include "base/ascii.h"
#include "base/status_macros.h"
#include "kvrouter/session.h"
#include "service/steering_headers.h"

namespace kvrouter {

absl::Status CheckJsonContent(const HttpRequest& request) {
  std::string type(request.Header("content-type"));
  type = type.substr(0, type.find(';'));
  while (!type.empty() && type.back() == ' ') type.pop_back();
  type = AsciiLower(type);
  if (type == "application/json" || (type.starts_with("application/") && type.ends_with("+json")))
    return absl::OkStatus();
  return absl::UnimplementedError("expected a request with Content-Type: application/json");
}

absl::StatusOr<std::string> ReadSessionId(const HttpRequest& request, const SelectionBody& body) {
  const auto is_blank = [](std::string_view text) {
    return text.find_first_not_of(" \t\r\n") == std::string_view::npos;
  };
  KVR_ASSIGN_OR_RETURN(SessionIdSources sources, ReadSessionHeaders(request.headers));
  if (is_blank(sources.dynamo_session_id)) sources.dynamo_session_id = body.session_id;
  if (is_blank(sources.dynamo_session_id)) sources.dynamo_session_id = body.context_session_id;
  KVR_ASSIGN_OR_RETURN(const std::string_view id, CallerSessionId(sources));
  return std::string(id);
}

}  // namespace kvrouter
