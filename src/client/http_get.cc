#include "client/http_get.h"

#include <fmt/format.h>

#include <boost/asio/ip/tcp.hpp>
#include <boost/beast/core.hpp>
#include <boost/beast/http.hpp>
#include <string_view>

namespace kvrouter::client {
namespace {

namespace asio = boost::asio;
namespace beast = boost::beast;
namespace http = boost::beast::http;

constexpr std::chrono::milliseconds kCancelPeriod{50};

// One request, step by step. Asynchronous only because Beast's blocking calls know no time-out.
class Fetch {
 public:
  Fetch(asio::io_context* io, const std::string& host, const std::string& path,
        uint64_t max_body_bytes)
      : resolver_(*io), stream_(*io), request_(http::verb::get, path, 11) {
    request_.set(http::field::host, host);
    request_.set(http::field::connection, "close");
    parser_.body_limit(max_body_bytes);
  }

  void Start(const std::string& host, const std::string& port, std::chrono::milliseconds timeout) {
    stream_.expires_after(timeout);  // for all steps together
    resolver_.async_resolve(host, port, [this](auto error, auto found) {
      if (Failed(error)) return;
      stream_.async_connect(found, [this](auto connect_error, auto&&) {
        if (Failed(connect_error)) return;
        Send();
      });
    });
  }

  const beast::error_code& error() const { return error_; }
  http::response<http::string_body>& response() { return parser_.get(); }

 private:
  void Send() {
    http::async_write(stream_, request_, [this](auto error, size_t) {
      if (Failed(error)) return;
      http::async_read(stream_, buffer_, parser_,
                       [this](auto read_error, size_t) { Failed(read_error); });
    });
  }
  bool Failed(const beast::error_code& error) {
    error_ = error;
    return static_cast<bool>(error);
  }

  asio::ip::tcp::resolver resolver_;
  beast::tcp_stream stream_;
  http::request<http::empty_body> request_;
  beast::flat_buffer buffer_;
  http::response_parser<http::string_body> parser_;
  beast::error_code error_;
};

}  // namespace

absl::StatusOr<HttpAnswer> HttpFetch(const std::string& host_port, const std::string& path,
                                     const HttpGetLimits& limits) {
  const size_t colon = host_port.rfind(':');
  if (colon == std::string::npos || colon == 0) {
    return absl::InvalidArgumentError(
        fmt::format("an HTTP address is HOST:PORT, got \"{}\"", host_port));
  }
  std::string host = host_port.substr(0, colon);
  if (host.size() > 2 && host.front() == '[' && host.back() == ']') {
    host = host.substr(1, host.size() - 2);
  }
  asio::io_context io;
  Fetch fetch(&io, host_port, path, limits.max_body_bytes);
  fetch.Start(host, host_port.substr(colon + 1), limits.timeout);
  // Name look-ups have no time-out of their own.
  const auto end = std::chrono::steady_clock::now() + limits.timeout + 2 * kCancelPeriod;
  while (!io.stopped() && std::chrono::steady_clock::now() < end) {
    io.run_for(kCancelPeriod);
    if (limits.cancelled && limits.cancelled()) {
      return absl::CancelledError(fmt::format("http://{}{}: given up", host_port, path));
    }
  }
  if (!io.stopped()) {
    return absl::UnavailableError(fmt::format("no answer from http://{}{} within {} ms", host_port,
                                              path, limits.timeout.count()));
  }
  if (fetch.error() == http::error::body_limit) {
    return absl::ResourceExhaustedError(fmt::format("http://{}{}: the body is over {} bytes",
                                                    host_port, path, limits.max_body_bytes));
  }
  if (fetch.error()) {
    return absl::UnavailableError(
        fmt::format("cannot read http://{}{}: {}", host_port, path, fetch.error().message()));
  }
  return HttpAnswer{.status = static_cast<int>(fetch.response().result_int()),
                    .body = std::move(fetch.response().body())};
}

absl::StatusOr<std::string> HttpGet(const std::string& host_port, const std::string& path,
                                    const HttpGetLimits& limits) {
  absl::StatusOr<HttpAnswer> answer = HttpFetch(host_port, path, limits);
  if (!answer.ok()) return answer.status();
  if (answer->status != 200) {
    return absl::InternalError(
        fmt::format("http://{}{} answered {}", host_port, path, answer->status));
  }
  return std::move(answer->body);
}

}  // namespace kvrouter::client
