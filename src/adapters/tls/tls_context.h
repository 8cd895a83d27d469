#ifndef KVROUTER_ADAPTERS_TLS_TLS_CONTEXT_H_
#define KVROUTER_ADAPTERS_TLS_TLS_CONTEXT_H_

#include <openssl/ssl.h>

#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace kvrouter {

// What client and server make alike.

struct FreeTlsContext {
  void operator()(SSL_CTX* context) const { SSL_CTX_free(context); }
};
using TlsContextPtr = std::unique_ptr<SSL_CTX, FreeTlsContext>;

// The last error of this thread's queue, which is emptied.
std::string TakeTlsError();

// An INVALID_ARGUMENT that begins with "TLS: ".
absl::Status TlsError(const std::string& what);

// TLS 1.2 or later, in the way of TlsSession.
absl::StatusOr<TlsContextPtr> NewTlsContext(const SSL_METHOD* method);

// Whom to trust.
absl::Status LoadAuthorities(SSL_CTX* context, const std::string& ca_file);
// Who we are.
absl::Status LoadIdentity(SSL_CTX* context, const std::string& certificate_file,
                          const std::string& key_file);

}  // namespace kvrouter

#endif  // KVROUTER_ADAPTERS_TLS_TLS_CONTEXT_H_
