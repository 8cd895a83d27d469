#ifndef KVROUTER_ADAPTERS_HTTP_HTTP_STREAM_H_
#define KVROUTER_ADAPTERS_HTTP_HTTP_STREAM_H_

#include <boost/asio/buffer.hpp>
#include <boost/asio/compose.hpp>
#include <boost/asio/error.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/post.hpp>
#include <cstddef>
#include <memory>
#include <utility>

#include "adapters/tls/tls_session.h"

namespace kvrouter {

// A client's socket, in plain text or with TLS, as Asio's streams are used. In plain text it adds
// one pointer and one branch. With TLS a step is tried at once and again when the socket is ready,
// so that no buffer waits with it.
//
// Thread safety: thread-compatible; one read and one write may be under way at a time.
class HttpStream {
 public:
  using Tcp = boost::asio::ip::tcp;
  using ErrorCode = boost::system::error_code;
  using executor_type = Tcp::socket::executor_type;

  explicit HttpStream(Tcp::socket socket) : socket_(std::move(socket)) {}

  executor_type get_executor() { return socket_.get_executor(); }
  Tcp::socket& socket() { return socket_; }

  // Before anything is read or written; async_handshake follows.
  void UseTls(std::unique_ptr<TlsSession> session) {
    tls_ = std::move(session);
    ErrorCode ignored;
    socket_.non_blocking(true, ignored);
  }

  // `handler`(error).
  template <class Handler>
  void async_handshake(Handler&& handler) {
    Run([this](size_t*) { return tls_->Handshake(); },
        [handler = std::forward<Handler>(handler)](ErrorCode error, size_t) mutable {
          handler(error);
        });
  }

  template <class Buffers, class Handler>
  void async_read_some(const Buffers& buffers, Handler&& handler) {
    if (tls_ == nullptr) {
      return socket_.async_read_some(buffers, std::forward<Handler>(handler));
    }
    const boost::asio::mutable_buffer room = First<boost::asio::mutable_buffer>(buffers);
    Run(
        [this, room](size_t* bytes) {
          return tls_->Read({static_cast<char*>(room.data()), room.size()}, bytes);
        },
        std::forward<Handler>(handler));
  }

  template <class Buffers, class Handler>
  void async_write_some(const Buffers& buffers, Handler&& handler) {
    if (tls_ == nullptr) {
      return socket_.async_write_some(buffers, std::forward<Handler>(handler));
    }
    const boost::asio::const_buffer data = First<boost::asio::const_buffer>(buffers);
    Run([this, data](size_t* bytes) { return tls_->Write(data.data(), data.size(), bytes); },
        std::forward<Handler>(handler));
  }

  // `handler`(error) when a read would find something, perhaps only the client's end.
  template <class Handler>
  void async_wait_readable(Handler&& handler) {
    if (tls_ == nullptr || !tls_->HoldsMore()) {
      return socket_.async_wait(Tcp::socket::wait_read, std::forward<Handler>(handler));
    }
    boost::asio::post(get_executor(), [handler = std::forward<Handler>(handler)]() mutable {
      handler(ErrorCode());
    });
  }

  // No more is sent.
  void ShutdownSend(ErrorCode* error) {
    if (tls_ != nullptr) tls_->SayEnd();
    socket_.shutdown(Tcp::socket::shutdown_send, *error);
  }
  void Cancel() {
    ErrorCode ignored;
    socket_.cancel(ignored);
  }
  void Close() {
    ErrorCode ignored;
    socket_.close(ignored);
  }

 private:
  // Tries `Step` until it is done or has failed.
  template <class Step>
  struct Attempt {
    HttpStream* stream;
    Step step;
    size_t bytes = 0;
    bool waited = false;    // a handler may not run inside the call that took it
    bool finished = false;  // `outcome` is known and waits for its turn
    ErrorCode outcome = {};

    template <class Self>
    void operator()(Self& self, ErrorCode error = {}) {
      if (finished) return self.complete(outcome, bytes);
      if (error) return self.complete(error, 0);
      switch (step(&bytes)) {
        case TlsSession::Result::kDone:
          break;
        case TlsSession::Result::kWantRead:
          waited = true;
          return stream->socket_.async_wait(Tcp::socket::wait_read, std::move(self));
        case TlsSession::Result::kWantWrite:
          waited = true;
          return stream->socket_.async_wait(Tcp::socket::wait_write, std::move(self));
        case TlsSession::Result::kEnd:
          outcome = boost::asio::error::eof;
          break;
        case TlsSession::Result::kFailed:
          outcome = boost::asio::error::connection_reset;
          break;
      }
      if (waited) return self.complete(outcome, bytes);
      finished = true;
      boost::asio::post(stream->get_executor(), std::move(self));
    }
  };

  template <class Step, class Handler>
  void Run(Step step, Handler&& handler) {
    boost::asio::async_compose<Handler, void(ErrorCode, size_t)>(
        Attempt<Step>{.stream = this, .step = std::move(step)}, handler, socket_);
  }

  template <class Buffer, class Buffers>
  static Buffer First(const Buffers& buffers) {
    const auto end = boost::asio::buffer_sequence_end(buffers);
    for (auto it = boost::asio::buffer_sequence_begin(buffers); it != end; ++it) {
      const Buffer buffer = *it;
      if (buffer.size() > 0) return buffer;
    }
    return Buffer();
  }

  Tcp::socket socket_;
  std::unique_ptr<TlsSession> tls_;
};

}  // namespace kvrouter

#endif  // KVROUTER_ADAPTERS_HTTP_HTTP_STREAM_H_
