#include "adapters/http/http_server.h"

#include <fmt/format.h>
#include <pthread.h>

#include <algorithm>
#include <boost/asio/executor_work_guard.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/post.hpp>
#include <chrono>
#include <optional>
#include <thread>

#include "adapters/http/http_acceptor.h"
#include "adapters/http/http_connection.h"
#include "adapters/http/http_server_state.h"
#include "base/check.h"
#include "base/status_macros.h"

namespace kvrouter {

namespace asio = boost::asio;

struct HttpServer::Impl {
  explicit Impl(HttpServerConfig config) : state(std::move(config)), acceptor(&io, &state) {}

  HttpServerState state;
  asio::io_context io;
  HttpAcceptor acceptor;
  std::optional<asio::executor_work_guard<asio::io_context::executor_type>> work;
  std::vector<std::jthread> threads;
};

HttpServerCounters& HttpServerCounters::operator+=(const HttpServerCounters& other) {
  requests += other.requests;
  unrouted += other.unrouted;
  connections += other.connections;
  buffered_bytes += other.buffered_bytes;
  connections_accepted += other.connections_accepted;
  connections_refused += other.connections_refused;
  connections_evicted += other.connections_evicted;
  accept_failures += other.accept_failures;
  idle_timeouts += other.idle_timeouts;
  head_timeouts += other.head_timeouts;
  body_timeouts += other.body_timeouts;
  write_timeouts += other.write_timeouts;
  malformed += other.malformed;
  heads_too_large += other.heads_too_large;
  bodies_too_large += other.bodies_too_large;
  bodies_without_room += other.bodies_without_room;
  answers_without_room += other.answers_without_room;
  streams_overflowed += other.streams_overflowed;
  streams_paused += other.streams_paused;
  tls_handshakes_failed += other.tls_handshakes_failed;
  tls_reloads += other.tls_reloads;
  tls_reloads_failed += other.tls_reloads_failed;
  return *this;
}

HttpServer::HttpServer(HttpServerConfig config)
    : impl_(std::make_unique<Impl>(std::move(config))) {}

HttpServer::~HttpServer() { Stop(std::chrono::milliseconds(0)); }

void HttpServer::Route(std::string method, std::string path, SimpleHandler handler) {
  RouteAsync(std::move(method), std::move(path),
             [handler = std::move(handler)](const HttpRequest& request,
                                            const std::shared_ptr<HttpResponder>& responder) {
               responder->Complete(handler(request));
             });
}

void HttpServer::RouteAsync(std::string method, std::string path, Handler handler) {
  KVR_CHECK(impl_->threads.empty(), "route {} {} added after Start", method, path);
  impl_->state.routes.Add(path, std::move(method), std::move(handler));
}

absl::Status HttpServer::Start() {
  if (const TlsServerConfig& tls = impl_->state.config.tls; tls.Enabled()) {
    KVR_ASSIGN_OR_RETURN(impl_->state.tls, TlsServer::Create(tls));
  }
  if (absl::Status status = impl_->acceptor.Listen(); !status.ok()) return status;
  impl_->work.emplace(impl_->io.get_executor());
  impl_->acceptor.Accept();
  const uint32_t count = std::max(1u, impl_->state.config.threads);
  for (uint32_t i = 0; i < count; ++i) {
    impl_->threads.emplace_back([this, i] {
      pthread_setname_np(pthread_self(), fmt::format("kvr-http-{}", i).c_str());
      impl_->io.run();
    });
  }
  return absl::OkStatus();
}

std::string HttpServer::Address() const { return impl_->acceptor.Address(); }

void HttpServer::Stop(std::chrono::milliseconds grace) {
  if (impl_->threads.empty()) return;
  HttpServerState& state = impl_->state;
  state.stopping.store(true);
  impl_->acceptor.Close();
  for (const auto& connection : state.connections.All()) {
    asio::post(connection->executor(), [connection] { connection->Retire(); });
  }
  state.connections.WaitUntilEmpty(std::chrono::steady_clock::now() + grace);
  for (const auto& connection : state.connections.All()) {
    asio::post(connection->executor(), [connection] { connection->Close(); });
  }
  impl_->work.reset();
  impl_->threads.clear();  // joins: run() returns when every connection is closed
}

HttpServerCounters HttpServer::Counters() const {
  const HttpServerState& state = impl_->state;
  return {.requests = state.requests.load(),
          .unrouted = state.unrouted.load(),
          .connections = state.connections.Size(),
          .buffered_bytes = state.buffers.Taken(),
          .connections_accepted = state.connections_accepted.load(),
          .connections_refused = state.connections_refused.load(),
          .connections_evicted = state.connections_evicted.load(),
          .accept_failures = state.accept_failures.load(),
          .idle_timeouts = state.idle_timeouts.load(),
          .head_timeouts = state.head_timeouts.load(),
          .body_timeouts = state.body_timeouts.load(),
          .write_timeouts = state.write_timeouts.load(),
          .malformed = state.malformed.load(),
          .heads_too_large = state.heads_too_large.load(),
          .bodies_too_large = state.bodies_too_large.load(),
          .bodies_without_room = state.bodies_without_room.load(),
          .answers_without_room = state.answers_without_room.load(),
          .streams_overflowed = state.streams_overflowed.load(),
          .streams_paused = state.streams_paused.load(),
          .tls_handshakes_failed = state.tls_handshakes_failed.load(),
          .tls_reloads = state.tls == nullptr ? 0 : state.tls->Reloads(),
          .tls_reloads_failed = state.tls == nullptr ? 0 : state.tls->FailedReloads()};
}

std::string_view HttpRequest::Header(std::string_view name) const {
  for (const auto& [key, value] : headers) {
    if (key == name) return value;
  }
  return {};
}

}  // namespace kvrouter
