#include <fmt/format.h>

#include <boost/asio/ip/address.hpp>
#include <utility>

#include "adapters/engine_http/engine_connection.h"
#include "adapters/engine_http/engine_lane.h"
#include "adapters/engine_http/engine_pool.h"

// From an address to a connection that can be used.

namespace kvrouter {

namespace asio = boost::asio;
using SteadyClock = std::chrono::steady_clock;

namespace {

// A shortage of this process or machine speaks against no engine, and another address has it, too.
bool IsOurShortage(const boost::system::error_code& error) {
  namespace errc = boost::system::errc;
  return error == errc::too_many_files_open || error == errc::too_many_files_open_in_system ||
         error == errc::no_buffer_space || error == errc::not_enough_memory;
}

}  // namespace

void EngineConnection::Open(std::shared_ptr<HttpEngineExchange> exchange) {
  exchange->SetConnection(this);
  exchange_ = std::move(exchange);
  attempts_ = std::make_unique<Attempts>(
      Attempts{.endpoints = {},
               .deadline = SteadyClock::now() + lane_->config().connect_timeout,
               .problem = {},
               .timer = asio::steady_timer(lane_->io())});
  const EngineUrl& url = pool_->url();
  ErrorCode no_literal;
  const asio::ip::address literal = asio::ip::make_address(url.host, no_literal);
  if (!no_literal) {
    attempts_->endpoints.emplace_back(literal, url.port);
    return ConnectNext();
  }
  attempts_->problem = fmt::format("host name {}: no answer", url.host);
  ArmConnectTimer(attempts_->deadline);
  lane_->names().Resolve(url.host,
                         [lane = lane_, weak = weak_from_this()](const HostAddresses& names) {
                           lane->Post([weak, names] {
                             if (const auto self = weak.lock()) self->OnNames(names);
                           });
                         });
}

void EngineConnection::OnNames(const HostAddresses& names) {
  if (stage_ != Stage::kConnecting || !attempts_->endpoints.empty()) return;
  if (names.addresses.empty()) return Fail(EngineEnd::kConnectFailed, names.problem);
  for (const std::string& text : names.addresses) {
    ErrorCode error;
    const asio::ip::address address = asio::ip::make_address(text, error);
    if (!error) attempts_->endpoints.emplace_back(address, pool_->url().port);
  }
  ConnectNext();
}

// One address after the other, each with its share of the time that is left.
void EngineConnection::ConnectNext() {
  Attempts& attempts = *attempts_;
  const TimePoint now = SteadyClock::now();
  const size_t left = attempts.endpoints.size() - attempts.next;
  if (left == 0 || now >= attempts.deadline) {
    return Fail(EngineEnd::kConnectFailed, std::string(attempts.problem));
  }
  stream_.Close();
  const Tcp::endpoint& endpoint = attempts.endpoints[attempts.next++];
  ++attempts.round;
  ArmConnectTimer(now + (attempts.deadline - now) / static_cast<int64_t>(left));
  stream_.socket().async_connect(
      endpoint, [self = shared_from_this(), round = attempts.round](ErrorCode error) {
        if (self->stage_ != Stage::kConnecting || round != self->attempts_->round) return;
        self->OnConnected(error);
      });
}

void EngineConnection::ArmConnectTimer(TimePoint deadline) {
  attempts_->timer.expires_at(deadline);
  attempts_->timer.async_wait(
      [self = shared_from_this(), round = attempts_->round](ErrorCode error) {
        if (error || self->stage_ != Stage::kConnecting || round != self->attempts_->round) return;
        self->OnConnectTimeout();
      });
}

void EngineConnection::OnConnectTimeout() {
  ++attempts_->round;
  if (attempts_->handshaking) {
    return Fail(EngineEnd::kConnectFailed, "TLS: no handshake in time");
  }
  if (attempts_->next > 0) {
    attempts_->problem =
        fmt::format("{}: not connected in time",
                    attempts_->endpoints[attempts_->next - 1].address().to_string());
  }
  ConnectNext();
}

void EngineConnection::OnConnected(ErrorCode error) {
  if (!error && !stream_.Establish()) error = asio::error::not_socket;
  if (IsOurShortage(error)) {
    return Fail(EngineEnd::kOverloaded, fmt::format("the router: {}", error.message()));
  }
  if (error) {
    attempts_->problem = fmt::format(
        "{}: {}", attempts_->endpoints[attempts_->next - 1].address().to_string(), error.message());
    return ConnectNext();
  }
  if (!pool_->url().tls) return OnEstablished();
  if (!stream_.UseTls(
          lane_->tls().NewSession(pool_->url().host, stream_.socket().native_handle()))) {
    return Fail(EngineEnd::kConnectFailed, "no TLS session can be made");
  }
  ++attempts_->round;
  attempts_->handshaking = true;
  ArmConnectTimer(attempts_->deadline);
  ShakeHands();
}

// Another address is not tried when this fails: they are one engine's.
void EngineConnection::ShakeHands() {
  switch (stream_.Handshake()) {
    case EngineStream::Result::kDone:
      return OnEstablished();
    case EngineStream::Result::kWantRead:
      return AwaitReadable();
    case EngineStream::Result::kWantWrite:
      return AwaitWritable();
    default:
      return Fail(EngineEnd::kConnectFailed, fmt::format("TLS: {}", stream_.Problem()));
  }
}

void EngineConnection::OnEstablished() {
  attempts_.reset();
  Count(&lane_->figures().connections_opened);
  BeginRequest();
}

}  // namespace kvrouter
