#ifndef KVROUTER_ADAPTERS_HTTP_HTTP_SERVER_H_
#define KVROUTER_ADAPTERS_HTTP_HTTP_SERVER_H_

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace kvrouter {

// A small HTTP/1.1 server (Boost.Beast behind one translation unit) for the status and selection
// doors and for the simulated engines. Handlers convert, call, answer; they run on the server's
// threads.

struct HttpRequest {
  std::string method;                                        // upper case
  std::string path;                                          // without query
  std::string query;                                         // after '?', raw
  std::vector<std::pair<std::string, std::string>> headers;  // names in lower case
  std::vector<std::string> path_parameters;                  // of a pattern's {}, decoded, in order
  // Its capacity leaves kBodyPaddingBytes of room behind a body whose length was announced.
  std::string body;

  // First header of this (lower-case) name; empty if absent.
  std::string_view Header(std::string_view name) const;
};

// Parsers that read in wide steps may read this far past the body without a copy of it.
inline constexpr size_t kBodyPaddingBytes = 64;

struct HttpResponse {
  int status = 200;
  std::string content_type = "application/json";
  std::vector<std::pair<std::string, std::string>> headers;
  std::string body;
};

// Answers one request; callable from any thread, also after the server is gone. Complete() may be
// called once, now or later; Write() streams a chunked body instead: Begin, Write*, End. Calls out
// of this order are ignored. Dropping it unanswered answers 500; dropping an unfinished stream
// closes the connection, so that the client sees it is cut. After the client left, all calls do
// nothing and Cancelled() is true. A client that closes its sending side while it waits counts as
// gone.
class HttpResponder {
 public:
  virtual ~HttpResponder() = default;
  virtual void Complete(HttpResponse response) = 0;
  virtual void Begin(
      HttpResponse head) = 0;  // body of `head` is sent as the first chunk if not empty
  virtual void Write(std::string chunk) = 0;
  virtual void End() = 0;
  virtual bool Cancelled() const = 0;
};

struct HttpServerConfig {
  std::string listen = "127.0.0.1:0";  // HOST:PORT; port 0 = any
  uint32_t threads = 2;                // so that /live need not wait for a large /metrics page
  uint64_t max_body_bytes = 64ull << 20;
  uint32_t max_header_bytes = 16384;
  uint32_t max_connections = 1024;                // further ones are closed at once, counted
  std::chrono::milliseconds read_timeout{10000};  // for a whole request, once its first byte came
  std::chrono::milliseconds idle_timeout{60000};  // between requests of a kept connection
  std::chrono::milliseconds write_timeout{
      10000};  // without progress, for a client that does not read
  uint64_t max_unsent_bytes = 16ull
                              << 20;  // of a stream; the connection is closed beyond it, counted
};

struct HttpServerCounters {
  uint64_t requests = 0;
  uint64_t connections_refused = 0;
  uint64_t timeouts = 0;            // read and write; an idle connection that ends is none
  uint64_t bad_requests = 0;        // malformed, or over a limit
  uint64_t streams_overflowed = 0;  // closed at max_unsent_bytes
};

// One request of a connection is answered at a time, so pipelined answers keep their order.
//
// Thread safety: Route* and Start from one thread; Stop and the readers from any, but not from a
// handler. Handlers run on `threads` server threads and must not block; what takes time keeps the
// responder and answers later.
class HttpServer {
 public:
  using Handler = std::function<void(const HttpRequest&, std::shared_ptr<HttpResponder>)>;
  using SimpleHandler = std::function<HttpResponse(const HttpRequest&)>;

  explicit HttpServer(HttpServerConfig config);
  ~HttpServer();

  // Before Start. Exact path match first; else a path with "{}" segments ("/workers/{}") matches
  // any non-empty segment there, the pattern added first winning. `method` GET also serves HEAD.
  // Unknown path: 404 {"error":"route not found"}; known path, other method: 405
  // {"error":"method not allowed"}.
  void Route(std::string method, std::string path, SimpleHandler handler);
  void RouteAsync(std::string method, std::string path, Handler handler);

  // Binds exclusively (no SO_REUSEPORT). A taken port is an error that names the address. Once.
  absl::Status Start();
  // Bound address, HOST:PORT.
  std::string Address() const;
  // Stops accepting, closes idle connections, lets running answers finish up to `grace`, closes the
  // rest, joins the threads. Again: nothing.
  void Stop(std::chrono::milliseconds grace);

  HttpServerCounters Counters() const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace kvrouter

#endif  // KVROUTER_ADAPTERS_HTTP_HTTP_SERVER_H_
