#ifndef KVROUTER_ADAPTERS_ENGINE_HTTP_ENGINE_TLS_H_
#define KVROUTER_ADAPTERS_ENGINE_HTTP_ENGINE_TLS_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <span>
#include <string>

#include "absl/status/statusor.h"
#include "adapters/engine_http/http_engine_link.h"

// Of OpenSSL, which stays in engine_tls.cc.
struct ssl_ctx_st;
struct ssl_st;

namespace kvrouter {

// One TLS connection over a socket that does not block. Buffers are held only while a record is
// under way.
//
// Thread safety: thread-compatible.
class TlsSession {
 public:
  enum class Result : uint8_t { kDone, kWantRead, kWantWrite, kEnd, kFailed };

  TlsSession(ssl_st* session, bool verified) : session_(session), verified_(verified) {}
  ~TlsSession();
  TlsSession(const TlsSession&) = delete;
  TlsSession& operator=(const TlsSession&) = delete;

  // Until kDone or kFailed.
  Result Handshake();
  Result Read(std::span<char> room, size_t* bytes);
  Result Write(const void* data, size_t size, size_t* bytes);
  // Decrypted bytes are here that the socket's readability does not tell of.
  bool HoldsMore() const;
  // Tells the peer that no more comes, if that is possible now.
  void SayEnd();

  const std::string& Problem() const { return problem_; }

 private:
  Result Outcome(int returned);

  ssl_st* const session_;
  const bool verified_;
  bool established_ = false;
  bool failed_ = false;
  std::string problem_;
};

// What all TLS connections to engines share: whom to trust, who we are. Thread-safe.
class EngineTls {
 public:
  static absl::StatusOr<std::unique_ptr<EngineTls>> Create(const EngineTlsConfig& config);
  ~EngineTls();
  EngineTls(const EngineTls&) = delete;
  EngineTls& operator=(const EngineTls&) = delete;

  // A client's session with this host, name or address, over a connected socket. Null when memory
  // or the host's text does not allow it.
  std::unique_ptr<TlsSession> NewSession(const std::string& host, int socket);

 private:
  EngineTls(ssl_ctx_st* context, bool system_cas, bool insecure)
      : context_(context), system_cas_(system_cas), insecure_(insecure) {}

  ssl_ctx_st* const context_;
  const bool system_cas_;
  const bool insecure_;
  // The system's certificates are a megabyte, read when the first https address is met.
  std::once_flag system_cas_read_;
};

}  // namespace kvrouter

#endif  // KVROUTER_ADAPTERS_ENGINE_HTTP_ENGINE_TLS_H_
