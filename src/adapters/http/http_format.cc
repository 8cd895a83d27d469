#include "adapters/http/http_format.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <iterator>
#include <utility>

#include "absl/status/status.h"
#include "base/ascii.h"
#include "base/json_text.h"

namespace kvrouter {
namespace {

std::string_view ReasonPhrase(int status) {
  switch (status) {
    case 100:
      return "Continue";
    case 200:
      return "OK";
    case 201:
      return "Created";
    case 202:
      return "Accepted";
    case 204:
      return "No Content";
    case 400:
      return "Bad Request";
    case 401:
      return "Unauthorized";
    case 403:
      return "Forbidden";
    case 404:
      return "Not Found";
    case 405:
      return "Method Not Allowed";
    case 408:
      return "Request Timeout";
    case 409:
      return "Conflict";
    case 413:
      return "Payload Too Large";
    case 415:
      return "Unsupported Media Type";
    case 422:
      return "Unprocessable Entity";
    case 429:
      return "Too Many Requests";
    case 431:
      return "Request Header Fields Too Large";
    case 499:
      return "Client Closed Request";
    case 500:
      return "Internal Server Error";
    case 501:
      return "Not Implemented";
    case 502:
      return "Bad Gateway";
    case 503:
      return "Service Unavailable";
    case 504:
      return "Gateway Timeout";
    default:
      return "Status";
  }
}

bool IsPlainText(std::string_view text) {
  return std::all_of(text.begin(), text.end(),
                     [](char c) { return static_cast<unsigned char>(c) >= 0x20 && c != 0x7f; });
}

void AppendHeader(std::string* out, std::string_view name, std::string_view value) {
  fmt::format_to(std::back_inserter(*out), "{}: {}\r\n", name, value);
}

}  // namespace

std::string FormatHead(const HttpResponse& head, const HeadOptions& options) {
  std::string out;
  out.reserve(192);
  fmt::format_to(std::back_inserter(out), "HTTP/1.1 {} {}\r\n", head.status,
                 ReasonPhrase(head.status));
  if (!head.content_type.empty() && IsPlainText(head.content_type))
    AppendHeader(&out, "Content-Type", head.content_type);
  for (const auto& [name, value] : head.headers) {
    if (IsPlainText(name) && IsPlainText(value)) AppendHeader(&out, name, value);
  }
  if (options.framing == BodyFraming::kContentLength) {
    AppendHeader(&out, "Content-Length", fmt::format("{}", head.body.size()));
  } else if (options.framing == BodyFraming::kChunked) {
    AppendHeader(&out, "Transfer-Encoding", "chunked");
  }
  if (!options.keep_alive) {
    AppendHeader(&out, "Connection", "close");
  } else if (options.http_1_0) {
    AppendHeader(&out, "Connection", "keep-alive");
  }
  out += "\r\n";
  return out;
}

std::string FormatChunk(std::string_view chunk) {
  if (chunk.empty()) return {};
  return fmt::format("{:x}\r\n{}\r\n", chunk.size(), chunk);
}

HttpResponse ErrorResponse(int status, std::string_view message) {
  std::string body = "{\"error\":";
  AppendJsonString(message, &body);
  body += '}';
  return {.status = status, .headers = {}, .body = std::move(body)};
}

HttpResponse Refusal(const HttpServerConfig& config, int status, std::string_view message) {
  if (!config.error_body) return ErrorResponse(status, message);
  return {.status = status, .headers = {}, .body = config.error_body(status, message)};
}

std::string PercentDecode(std::string_view text) {
  std::string decoded;
  decoded.reserve(text.size());
  for (size_t i = 0; i < text.size(); ++i) {
    const int high = text[i] == '%' && i + 2 < text.size() ? HexDigitValue(text[i + 1]) : -1;
    const int low = high >= 0 ? HexDigitValue(text[i + 2]) : -1;
    if (low < 0) {
      decoded.push_back(text[i]);
      continue;
    }
    decoded.push_back(static_cast<char>(high * 16 + low));
    i += 2;
  }
  return decoded;
}

std::optional<std::string> QueryParameter(std::string_view query, std::string_view name) {
  while (!query.empty()) {
    const size_t mark = query.find('&');
    const std::string_view pair = query.substr(0, mark);
    query = mark == std::string_view::npos ? std::string_view() : query.substr(mark + 1);
    const size_t equals = pair.find('=');
    if (pair.substr(0, equals) != name) continue;
    std::string value(equals == std::string_view::npos ? "" : pair.substr(equals + 1));
    for (char& c : value) {
      if (c == '+') c = ' ';
    }
    return PercentDecode(value);
  }
  return std::nullopt;
}

RequestTarget SplitTarget(std::string_view target) {
  if (target.starts_with("http://") || target.starts_with("https://")) {
    const size_t slash = target.find('/', target.find("//") + 2);
    target = slash == std::string_view::npos ? std::string_view("/") : target.substr(slash);
  }
  const size_t mark = target.find('?');
  if (mark == std::string_view::npos) return {std::string(target), {}};
  return {std::string(target.substr(0, mark)), std::string(target.substr(mark + 1))};
}

absl::StatusOr<HostPort> ParseHostPort(std::string_view text) {
  const auto refuse = [text](std::string_view why) {
    return absl::InvalidArgumentError(fmt::format("'{}' is not HOST:PORT: {}", text, why));
  };
  const size_t colon = text.rfind(':');
  if (colon == std::string_view::npos) return refuse("no port");
  std::string_view host = text.substr(0, colon);
  const std::string_view port_text = text.substr(colon + 1);
  if (host.size() >= 2 && host.front() == '[' && host.back() == ']') {
    host = host.substr(1, host.size() - 2);
  } else if (host.find(':') != std::string_view::npos) {
    return refuse("an IPv6 address needs brackets, as in [::1]:8092");
  }
  if (host.empty()) return refuse("no host (0.0.0.0 listens on all interfaces)");
  uint16_t port = 0;
  const auto [end, error] =
      std::from_chars(port_text.data(), port_text.data() + port_text.size(), port);
  if (error != std::errc() || end != port_text.data() + port_text.size()) {
    return refuse("the port must be a number in 0..65535");
  }
  return HostPort{std::string(host), port};
}

}  // namespace kvrouter
