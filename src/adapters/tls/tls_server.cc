#include "adapters/tls/tls_server.h"

#include <openssl/ssl.h>
#include <sys/stat.h>

#include <string>
#include <string_view>
#include <utility>

#include "adapters/tls/tls_context.h"
#include "base/status_macros.h"

namespace kvrouter {
namespace {

using SteadyClock = std::chrono::steady_clock;

constexpr std::chrono::seconds kLookPeriod{1};
constexpr std::string_view kSessionContext = "kvrouter";

// Of the protocols a client offers we speak one.
int ChooseProtocol(SSL*, const unsigned char** chosen, unsigned char* chosen_length,
                   const unsigned char* offered, unsigned offered_length, void*) {
  static constexpr unsigned char kOurs[] = "\x08http/1.1";
  unsigned char* found = nullptr;
  if (SSL_select_next_proto(&found, chosen_length, kOurs, sizeof(kOurs) - 1, offered,
                            offered_length) != OPENSSL_NPN_NEGOTIATED) {
    return SSL_TLSEXT_ERR_NOACK;
  }
  *chosen = found;
  return SSL_TLSEXT_ERR_OK;
}

}  // namespace

TlsServer::TlsServer(TlsServerConfig config) : config_(std::move(config)) {}

absl::StatusOr<std::unique_ptr<TlsServer>> TlsServer::Create(const TlsServerConfig& config) {
  if (config.certificate_file.empty() || config.key_file.empty()) {
    return TlsError("a server needs a certificate file and a key file");
  }
  std::unique_ptr<TlsServer> server(new TlsServer(config));
  MutexLock lock(server->mu_);
  server->seen_ = server->Look();
  server->looked_ = SteadyClock::now();
  KVR_ASSIGN_OR_RETURN(server->context_, server->Load());
  return server;
}

TlsServer::~TlsServer() { SSL_CTX_free(context_); }

absl::StatusOr<SSL_CTX*> TlsServer::Load() const {
  KVR_ASSIGN_OR_RETURN(TlsContextPtr context, NewTlsContext(TLS_server_method()));
  SSL_CTX_set_alpn_select_cb(context.get(), ChooseProtocol, nullptr);
  SSL_CTX_set_session_id_context(context.get(),
                                 reinterpret_cast<const unsigned char*>(kSessionContext.data()),
                                 static_cast<unsigned>(kSessionContext.size()));
  KVR_RETURN_IF_ERROR(LoadIdentity(context.get(), config_.certificate_file, config_.key_file));
  if (!config_.client_ca_file.empty()) {
    KVR_RETURN_IF_ERROR(LoadAuthorities(context.get(), config_.client_ca_file));
    SSL_CTX_set_client_CA_list(context.get(),
                               SSL_load_client_CA_file(config_.client_ca_file.c_str()));
    SSL_CTX_set_verify(context.get(), SSL_VERIFY_PEER | SSL_VERIFY_FAIL_IF_NO_PEER_CERT, nullptr);
  }
  return context.release();
}

TlsServer::Versions TlsServer::Look() const {
  Versions versions;
  size_t next = 0;
  for (const std::string* file :
       {&config_.certificate_file, &config_.key_file, &config_.client_ca_file}) {
    FileVersion& version = versions[next++];
    struct stat found {};
    if (file->empty() || stat(file->c_str(), &found) != 0) continue;
    version = {.inode = found.st_ino,
               .changed_seconds = found.st_mtim.tv_sec,
               .changed_nanoseconds = found.st_mtim.tv_nsec,
               .size_bytes = found.st_size};
  }
  return versions;
}

// Files that are replaced one after the other do not fit for a moment: what could not be loaded is
// tried again as soon as it changes once more.
std::optional<absl::Status> TlsServer::ReloadIfChanged() {
  const SteadyClock::time_point now = SteadyClock::now();
  if (now - looked_ < kLookPeriod) return std::nullopt;
  looked_ = now;
  const Versions versions = Look();
  if (versions == seen_) return std::nullopt;
  seen_ = versions;
  absl::StatusOr<SSL_CTX*> loaded = Load();
  if (!loaded.ok()) {
    failed_reloads_.fetch_add(1);
    return loaded.status();
  }
  SSL_CTX_free(std::exchange(context_, *loaded));  // running sessions hold their share
  reloads_.fetch_add(1);
  return absl::OkStatus();
}

std::unique_ptr<TlsSession> TlsServer::NewSession(int socket) {
  SSL* session = nullptr;
  std::optional<absl::Status> reloaded;
  {
    MutexLock lock(mu_);
    reloaded = ReloadIfChanged();
    session = SSL_new(context_);
  }
  if (reloaded && config_.on_reload) config_.on_reload(*reloaded);
  if (session == nullptr) return nullptr;
  return TlsSession::Over(session, TlsSession::Side::kServer, socket);
}

}  // namespace kvrouter
