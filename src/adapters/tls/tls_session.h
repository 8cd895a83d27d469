#ifndef KVROUTER_ADAPTERS_TLS_TLS_SESSION_H_
#define KVROUTER_ADAPTERS_TLS_TLS_SESSION_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>

// Of OpenSSL, which stays in the .cc files.
struct ssl_st;

namespace kvrouter {

// One TLS connection over a connected socket that does not block: everything is tried, and says
// what to wait for if it cannot be done yet. OpenSSL holds buffers only while a record is under
// way, and reads no further than the record it needs, so the socket's readiness tells the truth
// but for HoldsMore.
//
// Thread safety: thread-compatible.
class TlsSession {
 public:
  // kDone: at least one byte. kWantRead, kWantWrite: again when the socket is readable, writable.
  // kEnd: the peer ended the stream. kFailed: see Problem; only destruction is left.
  enum class Result : uint8_t { kDone, kWantRead, kWantWrite, kEnd, kFailed };
  enum class Side : uint8_t { kClient, kServer };

  // Owns `session`, not the socket. Null when memory does not allow it.
  static std::unique_ptr<TlsSession> Over(ssl_st* session, Side side, int socket);
  ~TlsSession();
  TlsSession(const TlsSession&) = delete;
  TlsSession& operator=(const TlsSession&) = delete;

  // Until kDone or kFailed.
  Result Handshake();
  Result Read(std::span<char> room, size_t* bytes);
  // After kWantRead or kWantWrite the same bytes again, perhaps from elsewhere, perhaps with more
  // behind them.
  Result Write(const void* data, size_t size, size_t* bytes);
  // Decrypted bytes are here that the socket's readability does not tell of.
  bool HoldsMore() const;
  // Tells the peer that no more comes, if that is possible now.
  void SayEnd();

  const std::string& Problem() const { return problem_; }

 private:
  TlsSession(ssl_st* session, Side side) : session_(session), side_(side) {}
  Result Outcome(int returned);

  ssl_st* const session_;
  const Side side_;
  bool established_ = false;
  bool failed_ = false;
  std::string problem_;
};

}  // namespace kvrouter

#endif  // KVROUTER_ADAPTERS_TLS_TLS_SESSION_H_
