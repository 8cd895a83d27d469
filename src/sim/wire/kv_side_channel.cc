#include "sim/wire/kv_side_channel.h"

#include <fmt/format.h>

#include <boost/asio/executor_work_guard.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/beast/core.hpp>
#include <boost/beast/http.hpp>
#include <nlohmann/json.hpp>
#include <thread>
#include <utility>

namespace kvrouter::sim {
namespace {

namespace asio = boost::asio;
namespace beast = boost::beast;
namespace http = boost::beast::http;

// One request on a connection of its own. Owned by its own pending operation.
class Call : public std::enable_shared_from_this<Call> {
 public:
  Call(asio::io_context* io, const KvSource& source, std::string body, KvSideChannel::Done done)
      : resolver_(*io),
        stream_(*io),
        host_(source.host),
        port_(std::to_string(source.port)),
        message_(http::verb::post, "/kv_pull", 11),
        done_(std::move(done)) {
    message_.set(http::field::host, host_ + ":" + port_);
    message_.set(http::field::content_type, "application/json");
    message_.keep_alive(false);
    message_.body() = std::move(body);
    message_.prepare_payload();
  }

  void Start(std::chrono::milliseconds timeout) {
    stream_.expires_after(timeout);
    resolver_.async_resolve(host_, port_,
                            [self = shared_from_this()](beast::error_code error, auto results) {
                              if (error) return self->Fail("resolve", error);
                              self->Connect(results);
                            });
  }

 private:
  void Connect(const asio::ip::tcp::resolver::results_type& results) {
    stream_.async_connect(results, [self = shared_from_this()](beast::error_code error, auto&&) {
      if (error) return self->Fail("connect", error);
      http::async_write(self->stream_, self->message_, [self](beast::error_code failed, size_t) {
        if (failed) return self->Fail("send", failed);
        self->Read();
      });
    });
  }

  void Read() {
    http::async_read(
        stream_, buffer_, answer_, [self = shared_from_this()](beast::error_code error, size_t) {
          if (error) return self->Fail("read", error);
          self->done_(self->answer_.result() == http::status::ok
                          ? ""
                          : fmt::format("{}:{} answered {}: {}", self->host_, self->port_,
                                        self->answer_.result_int(), self->answer_.body()));
        });
  }

  void Fail(const char* step, beast::error_code error) {
    done_(fmt::format("{}:{}: {}: {}", host_, port_, step, error.message()));
  }

  asio::ip::tcp::resolver resolver_;
  beast::tcp_stream stream_;
  std::string host_;
  std::string port_;
  http::request<http::string_body> message_;
  beast::flat_buffer buffer_;
  http::response<http::string_body> answer_;
  KvSideChannel::Done done_;
};

}  // namespace

struct KvSideChannel::Impl {
  std::chrono::milliseconds timeout;
  asio::io_context io;
  asio::executor_work_guard<asio::io_context::executor_type> work = asio::make_work_guard(io);
  std::jthread thread;

  explicit Impl(std::chrono::milliseconds limit) : timeout(limit), thread([this] { io.run(); }) {}

  void Post(const KvSource& source, const nlohmann::json& body, Done done) {
    auto call = std::make_shared<Call>(&io, source, body.dump(), std::move(done));
    asio::post(io, [this, call = std::move(call)] { call->Start(timeout); });
  }
};

KvSideChannel::KvSideChannel(std::chrono::milliseconds timeout)
    : impl_(std::make_unique<Impl>(timeout)) {}

KvSideChannel::~KvSideChannel() {
  impl_->io.stop();
  impl_->thread.join();
}

void KvSideChannel::Begin(const KvSource& source, const std::string& compatibility, Done done) {
  impl_->Post(source,
              {{"engine_id", source.engine_id},
               {"request_id", source.request_id},
               {"compatibility", compatibility},
               {"step", "begin"}},
              std::move(done));
}

void KvSideChannel::End(const KvSource& source) {
  // A source that cannot be told releases the blocks when their lease ends.
  impl_->Post(source,
              {{"engine_id", source.engine_id}, {"request_id", source.request_id}, {"step", "end"}},
              [](const std::string&) {});
}

void KvSideChannel::After(std::chrono::milliseconds delay, std::function<void()> task) {
  asio::post(impl_->io, [io = &impl_->io, delay, task = std::move(task)] {
    auto timer = std::make_shared<asio::steady_timer>(*io, delay);
    timer->async_wait([timer, task](beast::error_code error) {
      if (!error) task();
    });
  });
}

}  // namespace kvrouter::sim
