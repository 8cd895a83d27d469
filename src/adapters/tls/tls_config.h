#ifndef KVROUTER_ADAPTERS_TLS_TLS_CONFIG_H_
#define KVROUTER_ADAPTERS_TLS_TLS_CONFIG_H_

#include <functional>
#include <string>

#include "absl/status/status.h"

namespace kvrouter {

// Files are PEM.

struct TlsClientConfig {
  std::string ca_file;  // whom to trust; empty: the system's certificate authorities
  // Who we are, both or none.
  std::string certificate_file;
  std::string key_file;
  // Neither the server's certificate nor its name is looked at.
  bool insecure = false;
};

struct TlsServerConfig {
  std::string certificate_file;  // with its chain; empty: plain text
  std::string key_file;
  std::string client_ca_file;  // if set, clients must show a certificate that it signed
  // Told of changed files: OK, they are in use; else why not, and the old ones serve on. On a
  // thread of the server, under no lock; must not block.
  std::function<void(const absl::Status& reloaded)> on_reload = {};

  bool Enabled() const { return !certificate_file.empty(); }
};

}  // namespace kvrouter

#endif  // KVROUTER_ADAPTERS_TLS_TLS_CONFIG_H_
