#ifndef KVROUTER_ADAPTERS_HTTP_HTTP_FORMAT_H_
#define KVROUTER_ADAPTERS_HTTP_HTTP_FORMAT_H_

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "adapters/http/http_server.h"

namespace kvrouter {

// Text of HTTP/1.1 answers and addresses: pure functions, no sockets.

// How the body that follows a response head ends.
enum class BodyFraming : uint8_t {
  kContentLength,  // head.body.size() bytes
  kChunked,
  kUntilClose,  // HTTP/1.0 streams
};

struct HeadOptions {
  BodyFraming framing = BodyFraming::kContentLength;
  bool keep_alive = true;
  bool http_1_0 = false;  // the client's version; it has to be told that the connection stays open
};

// Status line and headers with the closing empty line. Headers of the response whose name or value
// holds control characters are left out: a value from outside must not become a header of its own.
std::string FormatHead(const HttpResponse& head, const HeadOptions& options);

// One chunk of a chunked body; empty for an empty chunk, since that would end the body.
std::string FormatChunk(std::string_view chunk);
inline constexpr std::string_view kLastChunk = "0\r\n\r\n";

// {"error":"<message>"}, escaped; what is not UTF-8 in it is replaced.
HttpResponse ErrorResponse(int status, std::string_view message);
// The same in the words of the server's configuration.
HttpResponse Refusal(const HttpServerConfig& config, int status, std::string_view message);

struct RequestTarget {
  std::string path;
  std::string query;
};
// Splits "/a?b" and "http://host/a?b" (proxies send the long form).
RequestTarget SplitTarget(std::string_view target);

// "%41" -> "A". An escape that is none stays as it is.
std::string PercentDecode(std::string_view text);

// The first value of `name` in "a=1&b=2", decoded ('+' is a space); nullopt if absent.
std::optional<std::string> QueryParameter(std::string_view query, std::string_view name);

struct HostPort {
  std::string host;  // without the brackets of an IPv6 address
  uint16_t port = 0;
};
// "127.0.0.1:8092", "localhost:0", "[::1]:8092". An empty host is refused: listening everywhere is
// said as 0.0.0.0.
absl::StatusOr<HostPort> ParseHostPort(std::string_view text);

}  // namespace kvrouter

#endif  // KVROUTER_ADAPTERS_HTTP_HTTP_FORMAT_H_
