#include "adapters/tls/tls_session.h"

#include <fmt/format.h>
#include <openssl/bio.h>
#include <openssl/err.h>
#include <openssl/ssl.h>
#include <openssl/x509.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <utility>

#include "adapters/tls/tls_context.h"

namespace kvrouter {
namespace {

constexpr size_t kMaxWriteBytes = 1 << 20;

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

}  // namespace

std::unique_ptr<TlsSession> TlsSession::Over(SSL* session, Side side, int socket) {
  std::unique_ptr<TlsSession> made(new TlsSession(session, side));
  BIO* bio = BIO_new(SocketMethod());
  if (bio == nullptr) return nullptr;
  BIO_set_data(bio, reinterpret_cast<void*>(static_cast<intptr_t>(socket)));
  BIO_set_init(bio, 1);
  SSL_set_bio(session, bio, bio);
  return made;
}

TlsSession::~TlsSession() { SSL_free(session_); }

TlsSession::Result TlsSession::Handshake() {
  ERR_clear_error();
  const Result result =
      Outcome(side_ == Side::kClient ? SSL_connect(session_) : SSL_accept(session_));
  established_ = result == Result::kDone;
  if (result == Result::kEnd) {
    problem_ = "closed in the handshake";
    return Result::kFailed;
  }
  const long verdict = SSL_get_verify_result(session_);
  if (result == Result::kFailed && verdict != X509_V_OK &&
      SSL_get_verify_mode(session_) != SSL_VERIFY_NONE) {
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
      problem_ = TakeTlsError();
  }
  failed_ = true;
  ERR_clear_error();
  return Result::kFailed;
}

}  // namespace kvrouter
