#include "adapters/tls/tls_context.h"

#include <fmt/format.h>
#include <openssl/err.h>

#include "kvrouter/error.h"

namespace kvrouter {

std::string TakeTlsError() {
  const unsigned long code = ERR_peek_last_error();
  ERR_clear_error();
  if (code == 0) return "unknown error";
  const char* reason = ERR_reason_error_string(code);
  return reason != nullptr ? reason : fmt::format("error {:#x}", code);
}

absl::Status TlsError(const std::string& what) {
  return MakeError(absl::StatusCode::kInvalidArgument, ErrorReason::kInvalidRequest,
                   fmt::format("TLS: {}", what));
}

namespace {

// Otherwise OpenSSL asks the terminal, and a daemon that was started from one waits for it.
int NoPassPhrase(char*, int, int, void*) { return -1; }

}  // namespace

absl::StatusOr<TlsContextPtr> NewTlsContext(const SSL_METHOD* method) {
  ERR_clear_error();
  TlsContextPtr context(SSL_CTX_new(method));
  if (context == nullptr) return TlsError(TakeTlsError());
  SSL_CTX_set_min_proto_version(context.get(), TLS1_2_VERSION);
  SSL_CTX_set_mode(context.get(), SSL_MODE_RELEASE_BUFFERS | SSL_MODE_ENABLE_PARTIAL_WRITE |
                                      SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER);
  SSL_CTX_set_session_cache_mode(context.get(), SSL_SESS_CACHE_OFF);
  SSL_CTX_set_options(context.get(), SSL_OP_NO_RENEGOTIATION);
  SSL_CTX_set_default_passwd_cb(context.get(), NoPassPhrase);
  return context;
}

absl::Status LoadAuthorities(SSL_CTX* context, const std::string& ca_file) {
  ERR_clear_error();
  if (SSL_CTX_load_verify_locations(context, ca_file.c_str(), nullptr) == 1) {
    return absl::OkStatus();
  }
  return TlsError(fmt::format("CA file {}: {}", ca_file, TakeTlsError()));
}

absl::Status LoadIdentity(SSL_CTX* context, const std::string& certificate_file,
                          const std::string& key_file) {
  ERR_clear_error();
  if (SSL_CTX_use_certificate_chain_file(context, certificate_file.c_str()) != 1) {
    return TlsError(fmt::format("certificate file {}: {}", certificate_file, TakeTlsError()));
  }
  if (SSL_CTX_use_PrivateKey_file(context, key_file.c_str(), SSL_FILETYPE_PEM) != 1 ||
      SSL_CTX_check_private_key(context) != 1) {
    return TlsError(fmt::format("key file {}: {}", key_file, TakeTlsError()));
  }
  return absl::OkStatus();
}

}  // namespace kvrouter
