#ifndef KVROUTER_CLIENT_HTTP_GET_H_
#define KVROUTER_CLIENT_HTTP_GET_H_

#include <chrono>
#include <string>

#include "absl/status/statusor.h"

namespace kvrouter::client {

struct HttpAnswer {
  int status = 0;
  std::string body;
};

// GET http://`host_port``path`, whatever the status. UNAVAILABLE when the server cannot be reached
// or does not answer in time. Bodies over 64 MiB are refused.
absl::StatusOr<HttpAnswer> HttpFetch(const std::string& host_port, const std::string& path,
                                     std::chrono::milliseconds timeout);

// The body of GET http://`host_port``path`. Errors: UNAVAILABLE when the server cannot be reached
// or does not answer in time, INTERNAL for any status but 200; each names the address.
absl::StatusOr<std::string> HttpGet(const std::string& host_port, const std::string& path,
                                    std::chrono::milliseconds timeout);

}  // namespace kvrouter::client

#endif  // KVROUTER_CLIENT_HTTP_GET_H_
