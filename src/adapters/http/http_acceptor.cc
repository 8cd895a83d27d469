#include "adapters/http/http_acceptor.h"

#include <fmt/format.h>

#include <boost/asio/post.hpp>
#include <boost/asio/strand.hpp>
#include <chrono>
#include <memory>
#include <utility>

#include "adapters/http/http_connection.h"
#include "adapters/http/http_format.h"

namespace kvrouter {
namespace {

namespace asio = boost::asio;

constexpr std::chrono::milliseconds kAcceptRetry{100};

absl::Status ListenError(const HttpServerConfig& config, const boost::system::error_code& error) {
  return absl::UnavailableError(
      fmt::format("cannot listen on {} (HTTP): {}", config.listen, error.message()));
}

}  // namespace

HttpAcceptor::HttpAcceptor(asio::io_context* io, HttpServerState* server)
    : io_(io),
      server_(server),
      acceptor_(asio::make_strand(*io)),
      retry_(acceptor_.get_executor()) {}

absl::Status HttpAcceptor::Listen() {
  absl::StatusOr<HostPort> parsed = ParseHostPort(server_->config.listen);
  if (!parsed.ok()) return parsed.status();
  ErrorCode error;
  Tcp::resolver resolver(*io_);
  const auto endpoints =
      resolver.resolve(parsed->host, fmt::format("{}", parsed->port),
                       Tcp::resolver::passive | Tcp::resolver::numeric_service, error);
  if (error) return ListenError(server_->config, error);
  const Tcp::endpoint endpoint = endpoints.begin()->endpoint();
  acceptor_.open(endpoint.protocol(), error);
  // SO_REUSEADDR gets past TIME_WAIT after a restart; Linux still refuses a port that somebody
  // listens on.
  if (!error) acceptor_.set_option(Tcp::acceptor::reuse_address(true), error);
  if (!error) acceptor_.bind(endpoint, error);
  if (!error) acceptor_.listen(asio::socket_base::max_listen_connections, error);
  if (error) return ListenError(server_->config, error);
  const Tcp::endpoint bound = acceptor_.local_endpoint(error);
  if (error) return ListenError(server_->config, error);
  const std::string host = bound.address().to_string();
  address_ = bound.address().is_v6() ? fmt::format("[{}]:{}", host, bound.port())
                                     : fmt::format("{}:{}", host, bound.port());
  return absl::OkStatus();
}

void HttpAcceptor::Accept() {
  acceptor_.async_accept(asio::make_strand(*io_), [this](ErrorCode error, Tcp::socket socket) {
    OnAccept(error, std::move(socket));
  });
}

void HttpAcceptor::OnAccept(ErrorCode error, Tcp::socket socket) {
  if (server_->stopping.load() || !acceptor_.is_open()) return;
  if (error) {  // mostly: no file descriptors left. Trying again at once would spin
    CountOne(&server_->accept_failures);
    Evict(server_->connections.TakeLongestWaiting());
    retry_.expires_after(kAcceptRetry);
    retry_.async_wait([this](ErrorCode wait_error) {
      if (!wait_error && acceptor_.is_open()) Accept();
    });
    return;
  }
  CountOne(&server_->connections_accepted);
  auto connection = std::make_shared<HttpConnection>(server_, std::move(socket));
  const HttpConnectionSet::Admission admission = server_->connections.Admit(connection);
  Evict(admission.evicted);
  if (admission.admitted) {
    asio::post(connection->executor(), [connection] { connection->Start(); });
  } else {
    CountOne(&server_->connections_refused);
  }
  Accept();
}

void HttpAcceptor::Evict(const std::shared_ptr<HttpConnection>& connection) {
  if (connection == nullptr) return;
  CountOne(&server_->connections_evicted);
  asio::post(connection->executor(), [connection] { connection->Evict(); });
}

void HttpAcceptor::Close() {
  asio::post(acceptor_.get_executor(), [this] {
    ErrorCode ignored;
    acceptor_.close(ignored);
    retry_.cancel();
  });
}

}  // namespace kvrouter
