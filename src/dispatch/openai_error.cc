#include <fmt/format.h>

#include <string>
#include <string_view>

#include "base/json_text.h"
#include "dispatch/dispatcher.h"
#include "kvrouter/error.h"

namespace kvrouter {
namespace {

std::string_view TypeOf(int http_status) {
  switch (http_status) {
    case 404:
      return "not_found_error";
    case 429:
      return "rate_limit_error";
    default:
      return http_status < 500 ? "invalid_request_error" : "server_error";
  }
}

}  // namespace

int HttpStatusOf(const absl::Status& status) {
  switch (status.code()) {
    case absl::StatusCode::kOk:
      return 200;
    case absl::StatusCode::kInvalidArgument:
    case absl::StatusCode::kOutOfRange:
    case absl::StatusCode::kFailedPrecondition:
      return 400;
    case absl::StatusCode::kNotFound:
      return 404;
    case absl::StatusCode::kAlreadyExists:
      return 409;
    case absl::StatusCode::kResourceExhausted:
      return ErrorReasonOf(status) == ErrorReason::kTooLarge ? 413 : 429;
    case absl::StatusCode::kUnavailable:
      return 503;
    case absl::StatusCode::kDeadlineExceeded:
      return 504;
    default:
      return 500;
  }
}

std::string OpenAiError(int http_status, std::string_view message, std::string_view code,
                        std::string_view param) {
  std::string text = R"({"error":{"message":)";
  AppendJsonString(message, &text);
  text += R"(,"type":)";
  AppendJsonString(TypeOf(http_status), &text);
  text += R"(,"param":)";
  if (param.empty()) {
    text += "null";
  } else {
    AppendJsonString(param, &text);
  }
  text += R"(,"code":)";
  AppendJsonString(code, &text);
  text += "}}";
  return text;
}

}  // namespace kvrouter
