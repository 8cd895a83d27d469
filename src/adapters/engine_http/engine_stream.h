#ifndef KVROUTER_ADAPTERS_ENGINE_HTTP_ENGINE_STREAM_H_
#define KVROUTER_ADAPTERS_ENGINE_HTTP_ENGINE_STREAM_H_

#include <boost/asio/buffer.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "adapters/tls/tls_session.h"

namespace kvrouter {

// A TCP connection, with TLS or without, that is read and written when its socket is ready, so that
// none needs a buffer of its own while it waits.
//
// Thread safety: thread-compatible.
class EngineStream {
 public:
  using Tcp = boost::asio::ip::tcp;

  // kDone: at least one byte. kWantRead, kWantWrite: again when the socket is readable, writable.
  // kEnd: the peer closed its side. kFailed: see Problem.
  using Result = TlsSession::Result;

  explicit EngineStream(boost::asio::io_context* io) : socket_(*io) {}

  Tcp::socket& socket() { return socket_; }
  // The socket is connected: from here on nothing blocks.
  bool Establish();
  // After Establish; null: it could not be made.
  bool UseTls(std::unique_ptr<TlsSession> session);
  Result Handshake() { return tls_->Handshake(); }
  Result Read(std::span<char> room, size_t* bytes);
  Result Write(std::span<const boost::asio::const_buffer> parts, size_t* bytes);
  // Bytes are here that the socket's readability does not tell of.
  bool HoldsMore() const { return tls_ != nullptr && tls_->HoldsMore(); }
  void Close();

  // Of the last kFailed.
  const std::string& Problem() const { return tls_ != nullptr ? tls_->Problem() : problem_; }

 private:
  Result Outcome(const boost::system::error_code& error, Result blocked);

  Tcp::socket socket_;
  std::unique_ptr<TlsSession> tls_;
  std::string problem_;
};

}  // namespace kvrouter

#endif  // KVROUTER_ADAPTERS_ENGINE_HTTP_ENGINE_STREAM_H_
