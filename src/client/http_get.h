#ifndef KVROUTER_CLIENT_HTTP_GET_H_
#define KVROUTER_CLIENT_HTTP_GET_H_

#include <chrono>
#include <cstdint>
#include <functional>
#include <string>

#include "absl/status/statusor.h"

namespace kvrouter::client {

struct HttpAnswer {
  int status = 0;
  std::string body;
};

struct HttpGetLimits {
  std::chrono::milliseconds timeout;  // for everything together
  uint64_t max_body_bytes = 64u << 20;
  // Asked several times a second: true ends the call early.
  std::function<bool()> cancelled = {};
};

// GET http://`host_port``path`, whatever the status. Errors: UNAVAILABLE when the server cannot be
// reached or does not answer in time, RESOURCE_EXHAUSTED when its body is too large, CANCELLED;
// each names the address.
absl::StatusOr<HttpAnswer> HttpFetch(const std::string& host_port, const std::string& path,
                                     const HttpGetLimits& limits);
inline absl::StatusOr<HttpAnswer> HttpFetch(const std::string& host_port, const std::string& path,
                                            std::chrono::milliseconds timeout) {
  return HttpFetch(host_port, path, HttpGetLimits{.timeout = timeout});
}

// Its body; INTERNAL for any status but 200.
absl::StatusOr<std::string> HttpGet(const std::string& host_port, const std::string& path,
                                    const HttpGetLimits& limits);
inline absl::StatusOr<std::string> HttpGet(const std::string& host_port, const std::string& path,
                                           std::chrono::milliseconds timeout) {
  return HttpGet(host_port, path, HttpGetLimits{.timeout = timeout});
}

}  // namespace kvrouter::client

#endif  // KVROUTER_CLIENT_HTTP_GET_H_
