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
#include "adapters/tls/tls_config.h"

namespace kvrouter {

// A small HTTP/1.1 server, with TLS or without (Boost.Beast behind one translation unit) for the
// status and selection doors and for the simulated engines. Handlers convert, call, answer; they
// run on the server's threads.

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
// closes the connection behind what was written, so that the client sees it is cut. After the
// client left, all calls do nothing and Cancelled() is true. A client that closes its sending side
// while it waits counts as gone; one that has sent its next request already is missed when it is
// written to.
//
// A stream is paced by its writer: Write says false from pause_unsent_bytes on, and `drained` runs
// when half of that is left, once per pause.
class HttpResponder {
 public:
  virtual ~HttpResponder() = default;
  virtual void Complete(HttpResponse response) = 0;
  virtual void Begin(
      HttpResponse head) = 0;  // body of `head` is sent as the first chunk if not empty
  // False: the client does not keep up, so the writer should wait for `drained`. The chunk is taken
  // all the same.
  virtual bool Write(std::string chunk) = 0;
  virtual void End() = 0;
  // Closes the connection behind what was written, which may be nothing: no answer at all.
  virtual void Cut() = 0;
  virtual bool Cancelled() const = 0;
  // `gone` runs once if the client leaves, or its connection is closed, before the whole answer was
  // handed to its socket; perhaps at once; on any thread, under no lock. Replaces an earlier one.
  virtual void OnGone(std::function<void()> gone) = 0;
  // `drained` runs on any thread, under no lock, perhaps before the Write that said false has
  // returned; never after the client left. Set it before the first Write. Replaces an earlier one.
  virtual void OnDrained(std::function<void()> drained) = 0;
};

struct HttpServerConfig {
  std::string listen = "127.0.0.1:0";  // HOST:PORT; port 0 = any
  uint32_t threads = 2;                // so that /live need not wait for a large /metrics page
  uint64_t max_body_bytes = 64ull << 20;
  uint32_t max_header_bytes = 16384;
  uint32_t max_header_fields = 256;
  // Beyond it one that waits for a request makes room (http_connection_set.h); if none waits, the
  // new one is closed at once.
  uint32_t max_connections = 1024;
  // Request bodies and answers of more than kSmallAnswerBytes that all connections hold together;
  // beyond it 503. A body that a handler took along counts until its answer was sent.
  uint64_t max_buffered_bytes = 1ull << 30;
  std::chrono::milliseconds read_timeout{10000};  // for a whole request, once its first byte came
  std::chrono::milliseconds idle_timeout{60000};  // between requests of a kept connection
  // For the next kWriteProgressBytes of an answer, or the rest of it.
  std::chrono::milliseconds write_timeout{10000};
  // Of a stream whose writer does not heed Write; the connection is closed beyond it, counted.
  uint64_t max_unsent_bytes = 16ull << 20;
  uint64_t pause_unsent_bytes = 64 * 1024;  // of a stream; from here on Write says false
  // The JSON body of the server's own refusals; null: {"error":"<message>"}.
  std::function<std::string(int status, std::string_view message)> error_body = {};
  TlsServerConfig tls{};  // plain text unless it names a certificate
};
inline constexpr size_t kSmallAnswerBytes = 64 * 1024;
inline constexpr size_t kWriteProgressBytes = 64 * 1024;

struct HttpServerCounters {
  uint64_t requests = 0;              // handed to a handler, or unrouted
  uint64_t unrouted = 0;              // 404 or 405: no handler for it
  uint64_t connections = 0;           // open now
  uint64_t buffered_bytes = 0;        // of max_buffered_bytes, now
  uint64_t connections_accepted = 0;  // including those that were then refused
  uint64_t connections_refused = 0;   // closed at once: too many, all busy
  uint64_t connections_evicted = 0;   // closed while they waited for a request, to make room
  uint64_t accept_failures = 0;       // mostly: no file descriptors left
  uint64_t idle_timeouts = 0;         // kept connections without a next request
  uint64_t head_timeouts = 0;         // 408, headers not complete in time
  uint64_t body_timeouts = 0;         // 408, body not complete in time
  uint64_t write_timeouts = 0;        // answers the client did not take in time
  uint64_t malformed = 0;             // 400 or 501, not HTTP/1.1 as we read it
  uint64_t heads_too_large = 0;       // 431
  uint64_t bodies_too_large = 0;      // 413
  uint64_t bodies_without_room = 0;   // 503 for max_buffered_bytes
  uint64_t answers_without_room = 0;  // the same
  uint64_t streams_overflowed = 0;    // closed at max_unsent_bytes
  uint64_t streams_paused = 0;        // times a stream came to pause_unsent_bytes
  uint64_t tls_handshakes_failed = 0;
  uint64_t tls_reloads = 0;         // changed files of the certificate, taken
  uint64_t tls_reloads_failed = 0;  // not taken: the old ones serve on

  HttpServerCounters& operator+=(const HttpServerCounters& other);
};

// One request of a connection is answered at a time, so pipelined answers keep their order.
//
// Thread safety: Route* and Start from one thread; Stop and the readers from any, but not from a
// handler. Handlers run on `threads` server threads and must not block; what takes time keeps the
// responder and answers later.
class HttpServer {
 public:
  // May take the body out of the request.
  using Handler = std::function<void(HttpRequest&, std::shared_ptr<HttpResponder>)>;
  using SimpleHandler = std::function<HttpResponse(const HttpRequest&)>;

  explicit HttpServer(HttpServerConfig config);
  ~HttpServer();

  // Before Start. Exact path match first; else a path with "{}" segments ("/workers/{}") matches
  // any non-empty segment there, the pattern added first winning. `method` GET also serves HEAD.
  // Unknown path: 404 {"error":"route not found"}; known path, other method: 405
  // {"error":"method not allowed"}.
  void Route(std::string method, std::string path, SimpleHandler handler);
  void RouteAsync(std::string method, std::string path, Handler handler);

  // Binds exclusively (no SO_REUSEPORT). A taken port is an error that names the address, and so is
  // a file of TLS that cannot be used. Once.
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
