#include "sim/player/completion_client.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/post.hpp>
#include <boost/beast/core.hpp>
#include <boost/beast/http.hpp>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

#include "base/ascii.h"

namespace kvrouter::sim {
namespace {

namespace asio = boost::asio;
namespace beast = boost::beast;
namespace http = boost::beast::http;

constexpr size_t kReadBytes = 16 * 1024;
constexpr size_t kErrorTextBytes = 300;
// Idle connections kept per engine; more are closed.
constexpr size_t kMaxIdleConnections = 1024;

struct HostPort {
  std::string host;
  std::string port;
};

HostPort SplitAddress(std::string_view address) {
  if (const size_t scheme = address.find("://"); scheme != std::string_view::npos) {
    address.remove_prefix(scheme + 3);
  }
  address = address.substr(0, address.find('/'));
  const size_t colon = address.rfind(':');
  if (colon == std::string_view::npos) return {std::string(address), "80"};
  return {std::string(address.substr(0, colon)), std::string(address.substr(colon + 1))};
}

// Server-sent events, as far as needed: has the first one come, has [DONE].
class EventScan {
 public:
  void Add(std::string_view bytes) {
    for (const char c : bytes) {
      if (c != '\n') {
        // Only the start of a line matters; token texts may be long.
        if (line_.size() < kDone.size()) line_ += c;
        continue;
      }
      if (line_.starts_with("data:")) {
        first_seen_ = true;
        done_ = done_ || line_ == kDone;
      }
      line_.clear();
    }
  }
  bool first_seen() const { return first_seen_; }
  bool done() const { return done_; }

 private:
  static constexpr std::string_view kDone = "data: [DONE]";
  std::string line_;
  bool first_seen_ = false;
  bool done_ = false;
};

}  // namespace

struct CompletionClient::Pool : std::enable_shared_from_this<Pool> {
  Pool(asio::io_context* context, HostPort where, std::chrono::milliseconds stall)
      : io(context), to(std::move(where)), stall_timeout(stall) {}

  asio::io_context* io;
  HostPort to;
  std::chrono::milliseconds stall_timeout;
  std::vector<std::unique_ptr<beast::tcp_stream>> idle;

  class Exchange;
};

// One request and its answer. Owned by its own pending operation.
class CompletionClient::Pool::Exchange : public std::enable_shared_from_this<Exchange> {
 public:
  Exchange(std::shared_ptr<Pool> pool, Request request)
      : pool_(std::move(pool)),
        request_(std::move(request)),
        resolver_(*pool_->io),
        message_(http::verb::post, "/v1/completions", 11) {
    message_.set(http::field::host, pool_->to.host + ":" + pool_->to.port);
    message_.set(http::field::content_type, "application/json");
    for (const auto& [name, value] : request_.headers) message_.set(name, value);
    if (!request_.dp_rank.empty()) message_.set("X-data-parallel-rank", request_.dp_rank);
    message_.body() = std::move(request_.body);
    message_.prepare_payload();
  }

  void Start() {
    asio::post(*pool_->io, [self = shared_from_this()] {
      if (self->pool_->idle.empty()) {
        self->Connect();
        return;
      }
      self->stream_ = std::move(self->pool_->idle.back());
      self->pool_->idle.pop_back();
      self->reused_ = true;
      self->Send();
    });
  }

 private:
  void Connect() {
    stream_ = std::make_unique<beast::tcp_stream>(*pool_->io);
    resolver_.async_resolve(
        pool_->to.host, pool_->to.port,
        [self = shared_from_this()](beast::error_code error, auto results) {
          if (error) return self->Fail("resolve", error);
          self->Limit();
          self->stream_->async_connect(results, [self](beast::error_code failed, auto&&) {
            if (failed) return self->Fail("connect", failed);
            self->stream_->socket().set_option(asio::ip::tcp::no_delay(true));
            self->Send();
          });
        });
  }

  void Send() {
    parser_.emplace();
    parser_->body_limit(boost::none);
    Limit();
    http::async_write(*stream_, message_,
                      [self = shared_from_this()](beast::error_code error, size_t) {
                        if (error) return self->RetryOrFail("send", error);
                        self->ReadHead();
                      });
  }

  void ReadHead() {
    Limit();
    http::async_read_header(*stream_, buffer_, *parser_,
                            [self = shared_from_this()](beast::error_code error, size_t) {
                              if (error) return self->RetryOrFail("read", error);
                              self->TakeHead();
                              self->ReadBody();
                            });
  }

  void TakeHead() {
    if (!request_.on_head || parser_->get().result() != http::status::ok) return;
    Headers headers;
    for (const auto& field : parser_->get()) {
      headers.emplace_back(AsciiLower({field.name_string().data(), field.name_string().size()}),
                           std::string(field.value().data(), field.value().size()));
    }
    request_.on_head(headers);
  }

  void ReadBody() {
    if (parser_->is_done()) return Finish();
    parser_->get().body().data = chunk_.data();
    parser_->get().body().size = chunk_.size();
    parser_->get().body().more = true;
    Limit();
    http::async_read_some(*stream_, buffer_, *parser_,
                          [self = shared_from_this()](beast::error_code error, size_t) {
                            if (error && error != http::error::need_buffer)
                              return self->Fail("read", error);
                            self->TakeChunk();
                            self->ReadBody();
                          });
  }

  void TakeChunk() {
    const std::string_view bytes(chunk_.data(), chunk_.size() - parser_->get().body().size);
    if (parser_->get().result() != http::status::ok) {
      error_text_.append(
          bytes.substr(0, kErrorTextBytes - std::min(kErrorTextBytes, error_text_.size())));
      return;
    }
    const bool had_first = scan_.first_seen();
    scan_.Add(bytes);
    if (!had_first && scan_.first_seen()) request_.on_first_token();
  }

  void Finish() {
    if (parser_->get().result() != http::status::ok) {
      return Done(absl::UnknownError(
          fmt::format("{} answered {}: {}", Where(), parser_->get().result_int(), error_text_)));
    }
    if (!scan_.done())
      return Done(absl::DataLossError(fmt::format("{}: stream without [DONE]", Where())));
    if (parser_->get().keep_alive() && pool_->idle.size() < kMaxIdleConnections) {
      stream_->expires_never();
      pool_->idle.push_back(std::move(stream_));
    }
    Done(absl::OkStatus());
  }

  // A kept connection may have been closed by the server meanwhile; nothing of an answer came, so
  // trying once more on a new one repeats nothing.
  void RetryOrFail(std::string_view step, beast::error_code error) {
    if (!std::exchange(reused_, false)) return Fail(step, error);
    buffer_.clear();
    Connect();
  }

  void Fail(std::string_view step, beast::error_code error) {
    Done(absl::UnavailableError(fmt::format("{}: {}: {}", Where(), step, error.message())));
  }

  void Done(absl::Status status) { request_.on_done(std::move(status)); }
  void Limit() { stream_->expires_after(pool_->stall_timeout); }
  std::string Where() const { return fmt::format("http://{}:{}", pool_->to.host, pool_->to.port); }

  std::shared_ptr<Pool> pool_;
  Request request_;
  asio::ip::tcp::resolver resolver_;
  http::request<http::string_body> message_;
  std::unique_ptr<beast::tcp_stream> stream_;
  bool reused_ = false;
  beast::flat_buffer buffer_;
  std::optional<http::response_parser<http::buffer_body>> parser_;
  std::array<char, kReadBytes> chunk_;
  EventScan scan_;
  std::string error_text_;
};

CompletionClient::CompletionClient(asio::io_context* io, const std::string& address,
                                   std::chrono::milliseconds stall_timeout)
    : pool_(std::make_shared<Pool>(io, SplitAddress(address), stall_timeout)) {}

CompletionClient::~CompletionClient() = default;

void CompletionClient::Post(Request request) {
  std::make_shared<Pool::Exchange>(pool_, std::move(request))->Start();
}

}  // namespace kvrouter::sim
