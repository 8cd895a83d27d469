#ifndef KVROUTER_ADAPTERS_HTTP_HTTP_ACCEPTOR_H_
#define KVROUTER_ADAPTERS_HTTP_HTTP_ACCEPTOR_H_

#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/steady_timer.hpp>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "adapters/http/http_server_state.h"

namespace kvrouter {

// The listening socket: takes clients in as far as the bound on connections allows.
//
// Thread safety: Listen and Accept before the threads of `io` run; Close from any.
class HttpAcceptor {
 public:
  // Both outlive the acceptor.
  HttpAcceptor(boost::asio::io_context* io, HttpServerState* server);

  // Binds exclusively (no SO_REUSEPORT).
  absl::Status Listen();
  // Bound address, HOST:PORT.
  const std::string& Address() const { return address_; }
  // Takes clients until Close.
  void Accept();
  void Close();

 private:
  using Tcp = boost::asio::ip::tcp;
  using ErrorCode = boost::system::error_code;

  void OnAccept(ErrorCode error, Tcp::socket socket);
  void Evict(const std::shared_ptr<HttpConnection>& connection);  // null: nothing

  boost::asio::io_context* const io_;
  HttpServerState* const server_;
  Tcp::acceptor acceptor_;
  boost::asio::steady_timer retry_;  // after a failed accept
  std::string address_;
};

}  // namespace kvrouter

#endif  // KVROUTER_ADAPTERS_HTTP_HTTP_ACCEPTOR_H_
