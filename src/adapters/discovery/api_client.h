#ifndef KVROUTER_ADAPTERS_DISCOVERY_API_CLIENT_H_
#define KVROUTER_ADAPTERS_DISCOVERY_API_CLIENT_H_

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace kvrouter {

// An HTTP origin, as http://HOST[:PORT] or https://HOST[:PORT]; an IPv6 HOST in brackets.
struct Origin {
  bool tls = false;
  std::string host;  // without brackets
  uint16_t port = 0;
};
absl::StatusOr<Origin> ParseOrigin(std::string_view url);

struct ApiClientConfig {
  Origin origin;
  std::string ca_file;  // for TLS; read anew for each connection; empty: the system's certificates
  std::string token_file;  // sent as bearer token over TLS only; read anew for each request
};

// A client for one question at a time, each on its own connection, in the calling thread. Every
// step has a time limit, and so has the body's length.
//
// Thread safety: Get from one thread; Stop from any.
class ApiClient {
 public:
  explicit ApiClient(ApiClientConfig config);
  ~ApiClient();

  using OnBody = std::function<absl::Status(std::string_view piece)>;
  struct Question {
    std::string target;  // path and query
    std::string accept = "application/json";
    // From the beginning to the end of the answer's header, and without `silence` to the end of its
    // body. The resolution of a host name counts, but cannot be cut short: the system's resolver
    // has its own time-outs, for which also Stop waits.
    std::chrono::milliseconds timeout{10000};
    // Not zero: the body may go on for ever, with at most this long between two pieces.
    std::chrono::milliseconds silence{0};
    size_t max_body_bytes = 0;  // 0: no limit
    std::function<void()> on_open =
        {};  // may be empty; told when the header with status 200 has come
  };
  struct Answer {
    int status = 0;
    std::chrono::seconds retry_after{0};
  };
  // `on_body` gets the pieces of a body, of status 200 only; an error of its ends the exchange and
  // is returned. Errors: UNAVAILABLE (no connection, or it broke), DEADLINE_EXCEEDED,
  // RESOURCE_EXHAUSTED (body too long), INVALID_ARGUMENT (no HTTP), CANCELLED after Stop.
  absl::StatusOr<Answer> Get(const Question& question, const OnBody& on_body);

  // Ends a Get that runs, and all to come.
  void Stop();

 private:
  struct Impl;
  const std::unique_ptr<Impl> impl_;
};

}  // namespace kvrouter

#endif  // KVROUTER_ADAPTERS_DISCOVERY_API_CLIENT_H_
