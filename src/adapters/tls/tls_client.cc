#include "adapters/tls/tls_client.h"

#include <openssl/ssl.h>
#include <openssl/x509v3.h>

#include <utility>

#include "adapters/tls/tls_context.h"
#include "base/status_macros.h"

namespace kvrouter {
namespace {

constexpr unsigned char kProtocols[] = "\x08http/1.1";

bool IsAddress(const std::string& host) {
  ASN1_OCTET_STRING* address = a2i_IPADDRESS(host.c_str());
  ASN1_OCTET_STRING_free(address);
  return address != nullptr;
}

// What its certificate must say, and which one it shall show.
bool Expect(SSL* session, const std::string& host) {
  if (IsAddress(host)) {
    return X509_VERIFY_PARAM_set1_ip_asc(SSL_get0_param(session), host.c_str()) == 1;
  }
  SSL_set_hostflags(session, X509_CHECK_FLAG_NO_PARTIAL_WILDCARDS);
  return SSL_set1_host(session, host.c_str()) == 1 &&
         SSL_set_tlsext_host_name(session, host.c_str()) == 1;
}

}  // namespace

absl::StatusOr<std::unique_ptr<TlsClient>> TlsClient::Create(const TlsClientConfig& config) {
  if (config.certificate_file.empty() != config.key_file.empty()) {
    return TlsError("a certificate file needs a key file, and a key file a certificate file");
  }
  KVR_ASSIGN_OR_RETURN(TlsContextPtr context, NewTlsContext(TLS_client_method()));
  SSL_CTX_set_alpn_protos(context.get(), kProtocols, sizeof(kProtocols) - 1);
  SSL_CTX_set_verify(context.get(), config.insecure ? SSL_VERIFY_NONE : SSL_VERIFY_PEER, nullptr);
  if (!config.ca_file.empty()) KVR_RETURN_IF_ERROR(LoadAuthorities(context.get(), config.ca_file));
  if (!config.certificate_file.empty()) {
    KVR_RETURN_IF_ERROR(LoadIdentity(context.get(), config.certificate_file, config.key_file));
  }
  return std::unique_ptr<TlsClient>(
      new TlsClient(context.release(), config.ca_file.empty() && !config.insecure));
}

TlsClient::~TlsClient() { SSL_CTX_free(context_); }

std::unique_ptr<TlsSession> TlsClient::NewSession(const std::string& host, int socket) {
  if (system_cas_) {
    std::call_once(system_cas_read_, [this] { SSL_CTX_set_default_verify_paths(context_); });
  }
  SSL* session = SSL_new(context_);
  if (session == nullptr) return nullptr;
  auto made = TlsSession::Over(session, TlsSession::Side::kClient, socket);
  if (made == nullptr || !Expect(session, host)) return nullptr;
  return made;
}

}  // namespace kvrouter
