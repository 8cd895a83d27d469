#include "adapters/engine_http/engine_tls.h"

#include <fmt/format.h>
#include <openssl/bio.h>
#include <openssl/err.h>
#include <openssl/ssl.h>
#include <openssl/x509v3.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <string_view>
#include <utility>

#include "kvrouter/error.h"

namespace kvrouter {
namespace {

constexpr size_t kMaxWriteBytes = 1 << 20;

absl::Status Refuse(std::string_view what) {
  return MakeError(absl::StatusCode::kInvalidArgument, ErrorReason::kInvalidRequest,
                   fmt::format("TLS to engines: {}", what));
}

// The last error of this thread's queue, which is emptied.
std::string TakeError() {
  const unsigned long code = ERR_peek_last_error();
  ERR_clear_error();
  if (code == 0) return "unknown error";
  const char* reason = ERR_reason_error_string(code);
  return reason != nullptr ? reason : fmt::format("error {:#x}", code);
}

// ---- A socket as OpenSSL sees it: as its own, but a peer that left raises no SIGPIPE ----

int SocketOf(BIO* bio) { return static_cast<int>(reinterpret_cast<intptr_t>(BIO_get_data(bio))); }

bool MayRetry() { return errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR; }

int SendBytes(BIO* bio, const char* data, int size) {
  BIO_clear_retry_flags(bio);
  const ssize_t sent = send(SocketOf(bio), data, static_cast<size_t>(size), MSG_NOSIGNAL);
  if (sent < 0 && MayRetry()) BIO_set_retry_write(bio);
  return static_cast<int>(sent);
}

int ReceiveBytes(BIO* bio, char* room, int size) {
  BIO_clear_retry_flags(bio);
  const ssize_t got = recv(SocketOf(bio), room, static_cast<size_t>(size), 0);
  if (got < 0 && MayRetry()) BIO_set_retry_read(bio);
  if (got == 0) BIO_set_flags(bio, BIO_FLAGS_IN_EOF);
  return static_cast<int>(got);
}

long Control(BIO* bio, int command, long, void*) {
  if (command == BIO_CTRL_FLUSH) return 1;
  if (command == BIO_CTRL_EOF) return BIO_test_flags(bio, BIO_FLAGS_IN_EOF) != 0 ? 1 : 0;
  return 0;
}

const BIO_METHOD* SocketMethod() {
  static const BIO_METHOD* const kMethod = [] {
    BIO_METHOD* method = BIO_meth_new(BIO_get_new_index() | BIO_TYPE_SOURCE_SINK, "kvr socket");
    BIO_meth_set_write(method, SendBytes);
    BIO_meth_set_read(method, ReceiveBytes);
    BIO_meth_set_ctrl(method, Control);
    return method;
  }();
  return kMethod;
}

bool IsAddress(const std::string& host) {
  ASN1_OCTET_STRING* address = a2i_IPADDRESS(host.c_str());
  ASN1_OCTET_STRING_free(address);
  return address != nullptr;
}

}  // namespace

// ---- TlsSession ----

TlsSession::~TlsSession() { SSL_free(session_); }

TlsSession::Result TlsSession::Handshake() {
  ERR_clear_error();
  const Result result = Outcome(SSL_connect(session_));
  established_ = result == Result::kDone;
  if (result == Result::kEnd) {
    problem_ = "closed in the handshake";
    return Result::kFailed;
  }
  const long verdict = SSL_get_verify_result(session_);
  if (result == Result::kFailed && verified_ && verdict != X509_V_OK) {
    problem_ = fmt::format("the certificate: {}", X509_verify_cert_error_string(verdict));
  }
  return result;
}

TlsSession::Result TlsSession::Read(std::span<char> room, size_t* bytes) {
  ERR_clear_error();
  return Outcome(SSL_read_ex(session_, room.data(), room.size(), bytes));
}

TlsSession::Result TlsSession::Write(const void* data, size_t size, size_t* bytes) {
  ERR_clear_error();
  return Outcome(SSL_write_ex(session_, data, std::min(size, kMaxWriteBytes), bytes));
}

bool TlsSession::HoldsMore() const { return SSL_pending(session_) > 0; }

void TlsSession::SayEnd() {
  if (!established_ || failed_) return;
  ERR_clear_error();
  SSL_shutdown(session_);
  ERR_clear_error();
}

TlsSession::Result TlsSession::Outcome(int returned) {
  if (returned > 0) return Result::kDone;
  const int system_error = errno;
  switch (SSL_get_error(session_, returned)) {
    case SSL_ERROR_WANT_READ:
      return Result::kWantRead;
    case SSL_ERROR_WANT_WRITE:
      return Result::kWantWrite;
    case SSL_ERROR_ZERO_RETURN:
      return Result::kEnd;
    case SSL_ERROR_SYSCALL:
      problem_ = fmt::format("connection lost (errno {})", system_error);
      break;
    default:
      problem_ = TakeError();
  }
  failed_ = true;
  ERR_clear_error();
  return Result::kFailed;
}

// ---- EngineTls ----

absl::StatusOr<std::unique_ptr<EngineTls>> EngineTls::Create(const EngineTlsConfig& config) {
  if (config.certificate_file.empty() != config.key_file.empty()) {
    return Refuse("a certificate file needs a key file, and a key file a certificate file");
  }
  SSL_CTX* context = SSL_CTX_new(TLS_client_method());
  if (context == nullptr) return Refuse(TakeError());
  std::unique_ptr<EngineTls> tls(
      new EngineTls(context, config.ca_file.empty() && !config.insecure, config.insecure));
  SSL_CTX_set_min_proto_version(context, TLS1_2_VERSION);
  SSL_CTX_set_mode(context, SSL_MODE_RELEASE_BUFFERS | SSL_MODE_ENABLE_PARTIAL_WRITE |
                                SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER);
  static constexpr unsigned char kProtocols[] = "\x08http/1.1";
  SSL_CTX_set_alpn_protos(context, kProtocols, sizeof(kProtocols) - 1);
  SSL_CTX_set_verify(context, config.insecure ? SSL_VERIFY_NONE : SSL_VERIFY_PEER, nullptr);
  ERR_clear_error();
  if (!config.ca_file.empty() &&
      SSL_CTX_load_verify_locations(context, config.ca_file.c_str(), nullptr) != 1) {
    return Refuse(fmt::format("CA file {}: {}", config.ca_file, TakeError()));
  }
  if (!config.certificate_file.empty() &&
      SSL_CTX_use_certificate_chain_file(context, config.certificate_file.c_str()) != 1) {
    return Refuse(fmt::format("certificate file {}: {}", config.certificate_file, TakeError()));
  }
  if (!config.key_file.empty() &&
      (SSL_CTX_use_PrivateKey_file(context, config.key_file.c_str(), SSL_FILETYPE_PEM) != 1 ||
       SSL_CTX_check_private_key(context) != 1)) {
    return Refuse(fmt::format("key file {}: {}", config.key_file, TakeError()));
  }
  return tls;
}

EngineTls::~EngineTls() { SSL_CTX_free(context_); }

std::unique_ptr<TlsSession> EngineTls::NewSession(const std::string& host, int socket) {
  if (system_cas_) {
    std::call_once(system_cas_read_, [this] { SSL_CTX_set_default_verify_paths(context_); });
  }
  SSL* session = SSL_new(context_);
  if (session == nullptr) return nullptr;
  auto made = std::make_unique<TlsSession>(session, !insecure_);
  BIO* bio = BIO_new(SocketMethod());
  if (bio == nullptr) return nullptr;
  BIO_set_data(bio, reinterpret_cast<void*>(static_cast<intptr_t>(socket)));
  BIO_set_init(bio, 1);
  SSL_set_bio(session, bio, bio);
  if (IsAddress(host)) {
    if (X509_VERIFY_PARAM_set1_ip_asc(SSL_get0_param(session), host.c_str()) != 1) return nullptr;
    return made;
  }
  SSL_set_hostflags(session, X509_CHECK_FLAG_NO_PARTIAL_WILDCARDS);
  if (SSL_set1_host(session, host.c_str()) != 1) return nullptr;
  if (SSL_set_tlsext_host_name(session, host.c_str()) != 1) return nullptr;
  return made;
}

}  // namespace kvrouter
