#include "adapters/engine_http/engine_request.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <iterator>

#include "base/ascii.h"
#include "kvrouter/error.h"

namespace kvrouter {
namespace {

bool IsTokenByte(char c) {
  static constexpr std::string_view kSpecial = "!#$%&'*+-.^_`|~";
  return IsAsciiAlphanumeric(c) || kSpecial.find(c) != std::string_view::npos;
}

bool IsToken(std::string_view text) {
  return !text.empty() && std::all_of(text.begin(), text.end(), IsTokenByte);
}

bool IsFieldValue(std::string_view text) {
  return std::none_of(text.begin(), text.end(),
                      [](char c) { return c == '\r' || c == '\n' || c == '\0'; });
}

bool IsTarget(std::string_view path) {
  return !path.empty() && path.front() == '/' &&
         std::all_of(path.begin(), path.end(), [](char c) { return c > ' ' && c < '\x7f'; });
}

bool ExpectsBody(std::string_view method) {
  return method == "POST" || method == "PUT" || method == "PATCH";
}

}  // namespace

bool IsConnectionField(std::string_view name) {
  static constexpr std::array<std::string_view, 9> kFields = {
      "connection",       "keep-alive", "te",     "trailer",       "transfer-encoding",
      "proxy-connection", "upgrade",    "expect", "content-length"};
  return std::find(kFields.begin(), kFields.end(), name) != kFields.end();
}

absl::StatusOr<std::string> FormatRequestHead(const EngineUrl& url, const EngineCall& call) {
  if (!IsToken(call.method) || !IsTarget(call.path)) {
    return MakeError(absl::StatusCode::kInvalidArgument, ErrorReason::kInvalidRequest,
                     "method or path of the call cannot be sent");
  }
  std::string head;
  head.reserve(256 + 64 * call.headers.size());
  const auto out = std::back_inserter(head);
  fmt::format_to(out, "{} {}{} HTTP/1.1\r\nhost: {}\r\n", call.method, url.prefix, call.path,
                 url.Authority());
  for (const auto& [name, value] : call.headers) {
    if (name == "host" || IsConnectionField(name) || !IsToken(name) || !IsFieldValue(value)) {
      continue;
    }
    fmt::format_to(out, "{}: {}\r\n", name, value);
  }
  if (call.body != nullptr || ExpectsBody(call.method)) {
    fmt::format_to(out, "content-length: {}\r\n", call.body == nullptr ? 0 : call.body->size());
  }
  head += "\r\n";
  return head;
}

}  // namespace kvrouter
