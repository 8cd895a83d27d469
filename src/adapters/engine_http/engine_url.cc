#include "adapters/engine_http/engine_url.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>

#include "base/ascii.h"
#include "base/status_macros.h"
#include "kvrouter/error.h"

namespace kvrouter {
namespace {

constexpr size_t kMaxUrlBytes = 2048;
constexpr size_t kMaxHostBytes = 253;

bool StartsWithIgnoringCase(std::string_view text, std::string_view start) {
  return EqualsIgnoringCase(text.substr(0, start.size()), start);
}

bool IsHostByte(char c) {
  return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '-' || c == '.' || c == '_';
}

bool IsAddressByte(char c) {
  return (c >= 'a' && c <= 'f') || (c >= '0' && c <= '9') || c == ':' || c == '.';
}

// The sight of a URL in a message is short and on one line.
std::string Shown(std::string_view url) {
  std::string shown(url.substr(0, 100));
  for (char& c : shown) {
    if (c < ' ' || c == '\x7f') c = '?';
  }
  return shown;
}

absl::Status Refuse(std::string_view url, std::string_view why) {
  return MakeError(absl::StatusCode::kInvalidArgument, ErrorReason::kInvalidRequest,
                   fmt::format("engine address \"{}\": {}", Shown(url), why));
}

// Takes host and port off the front of an authority.
absl::Status TakeHost(std::string_view url, std::string_view authority, EngineUrl* parsed,
                      std::string_view* rest) {
  const bool bracketed = !authority.empty() && authority.front() == '[';
  size_t end = 0;
  if (bracketed) {
    end = authority.find(']');
    if (end == std::string_view::npos) return Refuse(url, "a [ without its ]");
    parsed->host = authority.substr(1, end - 1);
    *rest = authority.substr(end + 1);
  } else {
    end = std::min(authority.find(':'), authority.size());
    parsed->host = authority.substr(0, end);
    *rest = authority.substr(end);
  }
  parsed->host = AsciiLower(parsed->host);
  if (parsed->host.empty()) return Refuse(url, "no host");
  if (parsed->host.size() > kMaxHostBytes) {
    return Refuse(url,
                  fmt::format("host of {} bytes, at most {}", parsed->host.size(), kMaxHostBytes));
  }
  if (!std::all_of(parsed->host.begin(), parsed->host.end(),
                   bracketed ? IsAddressByte : IsHostByte)) {
    return Refuse(url, "a byte that no host has");
  }
  return absl::OkStatus();
}

absl::Status TakePort(std::string_view url, std::string_view text, EngineUrl* parsed) {
  if (text.empty()) return absl::OkStatus();
  if (text.front() != ':') return Refuse(url, "something between ] and the port");
  text.remove_prefix(1);
  unsigned port = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), port);
  if (error != std::errc() || end != text.data() + text.size() || port < 1 || port > 65535) {
    return Refuse(url, "the port is no number from 1 to 65535");
  }
  parsed->port = static_cast<uint16_t>(port);
  return absl::OkStatus();
}

}  // namespace

std::string EngineUrl::Authority() const {
  const bool address_6 = host.find(':') != std::string::npos;
  const std::string shown = address_6 ? fmt::format("[{}]", host) : host;
  return port == (tls ? 443 : 80) ? shown : fmt::format("{}:{}", shown, port);
}

absl::StatusOr<EngineUrl> ParseEngineUrl(std::string_view url) {
  if (url.size() > kMaxUrlBytes) {
    return Refuse(url, fmt::format("{} bytes, at most {}", url.size(), kMaxUrlBytes));
  }
  if (std::any_of(url.begin(), url.end(), [](char c) { return c <= ' ' || c >= '\x7f'; })) {
    return Refuse(url, "a byte that is no printable ASCII");
  }
  EngineUrl parsed;
  std::string_view rest = url;
  if (StartsWithIgnoringCase(rest, "http://")) {
    rest.remove_prefix(7);
  } else if (StartsWithIgnoringCase(rest, "https://")) {
    rest.remove_prefix(8);
    parsed.tls = true;
    parsed.port = 443;
  } else {
    return Refuse(url, "neither http:// nor https://");
  }
  if (rest.find_first_of("?#") != std::string_view::npos) {
    return Refuse(url, "a query or fragment");
  }
  const size_t slash = std::min(rest.find('/'), rest.size());
  const std::string_view authority = rest.substr(0, slash);
  if (authority.find('@') != std::string_view::npos) return Refuse(url, "a user name");
  std::string_view port;
  KVR_RETURN_IF_ERROR(TakeHost(url, authority, &parsed, &port));
  KVR_RETURN_IF_ERROR(TakePort(url, port, &parsed));
  parsed.prefix = rest.substr(slash);
  while (!parsed.prefix.empty() && parsed.prefix.back() == '/') parsed.prefix.pop_back();
  return parsed;
}

}  // namespace kvrouter
