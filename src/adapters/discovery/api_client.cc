#include "adapters/discovery/api_client.h"

#include <fmt/format.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <boost/asio/connect.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/ssl.hpp>
#include <boost/beast/core.hpp>
#include <boost/beast/http.hpp>
#include <boost/beast/ssl.hpp>
#include <cctype>
#include <charconv>
#include <fstream>
#include <optional>
#include <system_error>
#include <utility>

#include "base/status_macros.h"

namespace kvrouter {
namespace {

namespace asio = boost::asio;
namespace beast = boost::beast;
namespace http = beast::http;
namespace ssl = asio::ssl;
using boost::system::error_code;
using Tcp = asio::ip::tcp;
using PlainStream = beast::tcp_stream;
using TlsStream = beast::ssl_stream<beast::tcp_stream>;

constexpr size_t kPieceBytes = 64 << 10;
constexpr uint32_t kMaxHeaderBytes = 64 << 10;
constexpr size_t kMaxTokenBytes = 64 << 10;
constexpr std::chrono::seconds kMaxRetryAfter{60};

// A peer that vanished without a word is noticed in about half a minute,
// however long the watch may be silent.
void KeepAlive(Tcp::socket& socket) {
  error_code ignored;
  socket.set_option(Tcp::no_delay(true), ignored);
  socket.set_option(asio::socket_base::keep_alive(true), ignored);
  const auto set = [&](int option, int value) {
    (void)setsockopt(socket.native_handle(), IPPROTO_TCP, option, &value, sizeof(value));
  };
  set(TCP_KEEPIDLE, 10);
  set(TCP_KEEPINTVL, 5);
  set(TCP_KEEPCNT, 4);
}

absl::Status ToStatus(const error_code& ec, std::string_view doing) {
  const std::string text = fmt::format("{}: {}", doing, ec.message());
  if (ec == beast::error::timeout)
    return absl::DeadlineExceededError(fmt::format("{}: timed out", doing));
  if (ec == asio::error::operation_aborted) return absl::CancelledError(text);
  if (ec == http::error::body_limit) return absl::ResourceExhaustedError(text);
  static const auto& http_category = http::make_error_code(http::error::end_of_stream).category();
  if (ec.category() == http_category && ec != http::error::end_of_stream &&
      ec != http::error::partial_message)
    return absl::InvalidArgumentError(text);
  return absl::UnavailableError(text);
}

// Empty if there is none: then the server decides what an unknown caller may do.
std::string ReadToken(const std::string& path) {
  std::ifstream file(path);
  std::string token(kMaxTokenBytes, '\0');
  file.read(token.data(), static_cast<std::streamsize>(token.size()));
  token.resize(static_cast<size_t>(file.gcount()));
  const auto is_plain = [](unsigned char c) { return c > 0x20 && c < 0x7f; };
  token.erase(std::find_if_not(token.begin(), token.end(), is_plain), token.end());
  return token;
}

std::chrono::seconds RetryAfter(std::string_view text) {
  int seconds = 0;
  const auto parsed = std::from_chars(text.data(), text.data() + text.size(), seconds);
  if (parsed.ec != std::errc() || seconds < 0) return std::chrono::seconds(0);
  return std::min(kMaxRetryAfter, std::chrono::seconds(seconds));
}

}  // namespace

absl::StatusOr<Origin> ParseOrigin(std::string_view url) {
  const auto bad = [&] {
    return absl::InvalidArgumentError(
        fmt::format("'{}' is not http://HOST[:PORT] or https://HOST[:PORT]", url));
  };
  Origin origin;
  std::string_view rest = url;
  if (rest.starts_with("https://")) {
    origin.tls = true;
    rest.remove_prefix(8);
  } else if (rest.starts_with("http://")) {
    rest.remove_prefix(7);
  } else {
    return bad();
  }
  if (rest.ends_with('/')) rest.remove_suffix(1);
  origin.port = origin.tls ? 443 : 80;
  const size_t bracket = rest.starts_with('[') ? rest.find(']') : 0;
  if (bracket == std::string_view::npos) return bad();
  const size_t colon = rest.find(':', bracket);
  std::string_view host = rest.substr(0, colon);
  if (colon != std::string_view::npos) {
    const std::string_view port = rest.substr(colon + 1);
    const auto parsed = std::from_chars(port.data(), port.data() + port.size(), origin.port);
    if (parsed.ec != std::errc() || parsed.ptr != port.data() + port.size() || origin.port == 0)
      return bad();
  }
  if (bracket != 0) {
    if (host.size() != bracket + 1) return bad();
    host = host.substr(1, bracket - 1);
  }
  const bool plain = std::all_of(host.begin(), host.end(), [](unsigned char c) {
    return std::isalnum(c) != 0 || c == '.' || c == '-' || c == ':' || c == '_' || c == '%';
  });
  if (host.empty() || !plain) return bad();
  origin.host = std::string(host);
  return origin;
}

struct ApiClient::Impl {
  explicit Impl(ApiClientConfig c) : config(std::move(c)) {}

  // Runs one asynchronous step to its end. Steps are asynchronous only because blocking ones know
  // no time limit.
  template <typename Start>
  absl::Status Do(std::string_view what, Start start) {
    std::optional<error_code> result;
    if (stopping) return absl::CancelledError("stopping");
    start([&result](const error_code& ec, auto&&...) { result = ec; });
    context.restart();
    while (!result) context.run_one();
    if (stopping) return absl::CancelledError("stopping");
    return *result ? ToStatus(*result, what) : absl::OkStatus();
  }

  absl::Status Connect(PlainStream& stream) {
    Tcp::resolver::results_type addresses;
    KVR_RETURN_IF_ERROR(Do("resolve", [&](auto done) {
      resolver.async_resolve(config.origin.host, std::to_string(config.origin.port),
                             [&addresses, done](const error_code& ec, auto results) mutable {
                               addresses = std::move(results);
                               done(ec);
                             });
    }));
    KVR_RETURN_IF_ERROR(Do("connect", [&](auto done) { stream.async_connect(addresses, done); }));
    KeepAlive(stream.socket());
    return absl::OkStatus();
  }

  absl::Status SetUpTls(ssl::context& tls) const {
    error_code ec;
    tls.set_verify_mode(ssl::verify_peer, ec);
    if (!ec && config.ca_file.empty()) {
      tls.set_default_verify_paths(ec);
    } else if (!ec) {
      tls.load_verify_file(config.ca_file, ec);
    }
    if (ec)
      return absl::UnavailableError(fmt::format("CA file {}: {}", config.ca_file, ec.message()));
    return absl::OkStatus();
  }

  template <typename Stream>
  absl::StatusOr<Answer> Exchange(Stream& stream, const Question& question, const OnBody& on_body) {
    http::request<http::empty_body> request(http::verb::get, question.target, 11);
    const bool v6 = config.origin.host.find(':') != std::string::npos;
    request.set(http::field::host, fmt::format(fmt::runtime(v6 ? "[{}]:{}" : "{}:{}"),
                                               config.origin.host, config.origin.port));
    request.set(http::field::user_agent, "kvrouterd");
    request.set(http::field::accept, question.accept);
    request.set(http::field::connection, "close");
    if (config.origin.tls && !config.token_file.empty()) {
      const std::string token = ReadToken(config.token_file);
      if (!token.empty()) request.set(http::field::authorization, "Bearer " + token);
    }
    KVR_RETURN_IF_ERROR(Do("send", [&](auto done) { http::async_write(stream, request, done); }));

    beast::flat_buffer buffer(kPieceBytes + kMaxHeaderBytes);
    buffer.reserve(
        kPieceBytes);  // else it reads 512 bytes at a time: what is sent at once comes at once
    http::response_parser<http::buffer_body> parser;
    parser.header_limit(kMaxHeaderBytes);
    if (question.max_body_bytes > 0) {
      parser.body_limit(question.max_body_bytes);
    } else {
      parser.body_limit(boost::none);
    }
    KVR_RETURN_IF_ERROR(Do("read the answer's header", [&](auto done) {
      http::async_read_header(stream, buffer, parser, done);
    }));
    Answer answer{.status = static_cast<int>(parser.get().result_int())};
    const auto retry = parser.get()[http::field::retry_after];
    answer.retry_after = RetryAfter({retry.data(), retry.size()});
    if (answer.status != 200) return answer;
    if (question.on_open) question.on_open();

    std::array<char, kPieceBytes> piece;
    while (!parser.is_done()) {
      parser.get().body().data = piece.data();
      parser.get().body().size = piece.size();
      parser.get().body().more = true;
      if (question.silence.count() > 0)
        beast::get_lowest_layer(stream).expires_after(question.silence);
      const absl::Status read = Do("read the answer", [&](auto done) {
        http::async_read_some(stream, buffer, parser, [done](error_code ec, size_t) mutable {
          if (ec == http::error::need_buffer) ec = {};
          done(ec);
        });
      });
      // What came before an error is still good.
      const size_t length = piece.size() - parser.get().body().size;
      if (length > 0) KVR_RETURN_IF_ERROR(on_body({piece.data(), length}));
      KVR_RETURN_IF_ERROR(read);
    }
    return answer;
  }

  absl::StatusOr<Answer> GetPlain(const Question& question, const OnBody& on_body) {
    PlainStream stream(context);
    const StreamScope scope(this, &stream);
    stream.expires_after(question.timeout);
    KVR_RETURN_IF_ERROR(Connect(stream));
    return Exchange(stream, question, on_body);
  }

  absl::StatusOr<Answer> GetTls(const Question& question, const OnBody& on_body) {
    ssl::context tls(ssl::context::tls_client);
    KVR_RETURN_IF_ERROR(SetUpTls(tls));
    TlsStream stream(context, tls);
    PlainStream& lowest = beast::get_lowest_layer(stream);
    const StreamScope scope(this, &lowest);
    error_code ec;
    stream.set_verify_callback(ssl::host_name_verification(config.origin.host), ec);
    (void)SSL_set_tlsext_host_name(stream.native_handle(), config.origin.host.c_str());
    lowest.expires_after(question.timeout);
    KVR_RETURN_IF_ERROR(Connect(lowest));
    KVR_RETURN_IF_ERROR(Do("TLS handshake", [&](auto done) {
      stream.async_handshake(ssl::stream_base::client, done);
    }));
    return Exchange(stream, question, on_body);
  }

  // Makes the stream known to Stop for as long as it lives. Only within the thread of Get, which
  // also runs what Stop posts.
  struct StreamScope {
    StreamScope(Impl* i, PlainStream* stream) : impl(i) { impl->open = stream; }
    ~StreamScope() { impl->open = nullptr; }
    Impl* const impl;
  };

  const ApiClientConfig config;
  asio::io_context context{1};
  Tcp::resolver resolver{context};
  PlainStream* open = nullptr;
  std::atomic<bool> stopping{false};
};

ApiClient::ApiClient(ApiClientConfig config) : impl_(std::make_unique<Impl>(std::move(config))) {}

ApiClient::~ApiClient() = default;

absl::StatusOr<ApiClient::Answer> ApiClient::Get(const Question& question, const OnBody& on_body) {
  return impl_->config.origin.tls ? impl_->GetTls(question, on_body)
                                  : impl_->GetPlain(question, on_body);
}

void ApiClient::Stop() {
  impl_->stopping = true;
  asio::post(impl_->context, [impl = impl_.get()] {
    impl->resolver.cancel();
    if (impl->open != nullptr) impl->open->close();
  });
}

}  // namespace kvrouter
