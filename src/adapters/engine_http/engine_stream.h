#ifndef KVROUTER_ADAPTERS_ENGINE_HTTP_ENGINE_STREAM_H_
#define KVROUTER_ADAPTERS_ENGINE_HTTP_ENGINE_STREAM_H_

#include <boost/asio/buffer.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

namespace kvrouter {

// A TCP connection that is read and written when its socket is ready, so that none needs a buffer
// of its own while it waits.
//
// Thread safety: thread-compatible.
class EngineStream {
 public:
  using Tcp = boost::asio::ip::tcp;

  enum class Result : uint8_t {
    kDone,       // at least one byte
    kWantRead,   // again when the socket is readable
    kWantWrite,  // again when the socket is writable
    kEnd,        // the peer closed its side
    kFailed,     // see Problem
  };

  explicit EngineStream(boost::asio::io_context* io) : socket_(*io) {}

  Tcp::socket& socket() { return socket_; }
  // The socket is connected: from here on nothing blocks.
  bool Establish();
  Result Read(std::span<char> room, size_t* bytes);
  Result Write(std::span<const boost::asio::const_buffer> parts, size_t* bytes);
  void Close();

  // Of the last kFailed.
  const std::string& Problem() const { return problem_; }

 private:
  Result Outcome(const boost::system::error_code& error, Result blocked);

  Tcp::socket socket_;
  std::string problem_;
};

}  // namespace kvrouter

#endif  // KVROUTER_ADAPTERS_ENGINE_HTTP_ENGINE_STREAM_H_
