#ifndef KVROUTER_ADAPTERS_TLS_TLS_CLIENT_H_
#define KVROUTER_ADAPTERS_TLS_TLS_CLIENT_H_

#include <memory>
#include <mutex>
#include <string>

#include "absl/status/statusor.h"
#include "adapters/tls/tls_config.h"
#include "adapters/tls/tls_session.h"

struct ssl_ctx_st;

namespace kvrouter {

// What the TLS connections to all servers share: whom to trust, who we are. Thread-safe.
class TlsClient {
 public:
  // Files that cannot be used are an error that names them.
  static absl::StatusOr<std::unique_ptr<TlsClient>> Create(const TlsClientConfig& config);
  ~TlsClient();
  TlsClient(const TlsClient&) = delete;
  TlsClient& operator=(const TlsClient&) = delete;

  // With this host, a name or an address, over a connected socket. Null when memory or the host's
  // text does not allow it.
  std::unique_ptr<TlsSession> NewSession(const std::string& host, int socket);

 private:
  TlsClient(ssl_ctx_st* context, bool system_cas) : context_(context), system_cas_(system_cas) {}

  ssl_ctx_st* const context_;
  const bool system_cas_;
  // The system's certificates are a megabyte: read for the first session.
  std::once_flag system_cas_read_;
};

}  // namespace kvrouter

#endif  // KVROUTER_ADAPTERS_TLS_TLS_CLIENT_H_
