#ifndef KVROUTER_ADAPTERS_ENGINE_HTTP_ENGINE_URL_H_
#define KVROUTER_ADAPTERS_ENGINE_HTTP_ENGINE_URL_H_

#include <cstdint>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"

namespace kvrouter {

// Where an engine listens: http://10.0.0.1:8000, https://gpu-3.example:8443/engines/7,
// http://[fd00::1]:8000.
struct EngineUrl {
  bool tls = false;
  std::string host;    // lower case, an IPv6 address without its brackets
  uint16_t port = 80;  // 443 with TLS, unless given
  std::string prefix;  // of every path, without a slash at its end; mostly empty

  // As the Host field has it.
  std::string Authority() const;
};

// User names, queries and fragments are refused, and so is what no host name can hold.
absl::StatusOr<EngineUrl> ParseEngineUrl(std::string_view url);

}  // namespace kvrouter

#endif  // KVROUTER_ADAPTERS_ENGINE_HTTP_ENGINE_URL_H_
