#include "adapters/http/http_server.h"

#include <fmt/format.h>
#include <pthread.h>

#include <atomic>
#include <boost/asio.hpp>
#include <boost/beast/core/flat_buffer.hpp>
#include <boost/beast/http.hpp>
#include <exception>
#include <map>
#include <optional>
#include <set>
#include <thread>

#include "adapters/http/http_format.h"
#include "adapters/http/http_routes.h"
#include "base/check.h"
#include "base/mutex.h"

namespace kvrouter {
namespace {

namespace asio = boost::asio;
namespace beast = boost::beast;
namespace http = boost::beast::http;
using boost::system::error_code;
using tcp = asio::ip::tcp;

constexpr size_t kReadBytes = 16 * 1024;
constexpr size_t kKeptBufferBytes = 64 * 1024;  // a kept connection gives larger ones back
// How long a refused client may go on sending before its connection is reset under it.
constexpr std::chrono::milliseconds kDrainTimeout{1000};
constexpr std::chrono::milliseconds kAcceptRetry{100};

class Connection;

// What the connections share with the server. Outlives them: the threads are joined before it goes.
struct Shared {
  const HttpServerConfig config;
  HttpRoutes routes;  // fixed before Start

  std::atomic<uint64_t> requests{0};
  std::atomic<uint64_t> connections_refused{0};
  std::atomic<uint64_t> timeouts{0};
  std::atomic<uint64_t> bad_requests{0};
  std::atomic<uint64_t> streams_overflowed{0};
  std::atomic<bool> stopping{false};

  Mutex mu;
  CondVar none_left;
  std::set<std::shared_ptr<Connection>> connections ABSL_GUARDED_BY(mu);
};

// One request being answered: the meeting point of the responder (any thread) and the connection
// (its strand). Calls are checked for order here and then posted to the strand. Detach cuts the
// tie; nothing is posted after it returns, which is what lets a responder outlive the server.
class Exchange {
 public:
  enum class Step : uint8_t { kComplete, kBegin, kWrite, kEnd, kAbort };

  explicit Exchange(std::shared_ptr<Connection> connection) : connection_(std::move(connection)) {}

  void Send(Step step, HttpResponse response);
  void Drop();  // the responder is gone
  void Detach();
  bool Cancelled() const { return cancelled_.load(std::memory_order_relaxed); }
  bool Finished() const;

 private:
  enum class State : uint8_t { kOpen, kStreaming, kFinished };

  void PostLocked(Step step, HttpResponse response) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);

  mutable Mutex mu_;
  State state_ ABSL_GUARDED_BY(mu_) = State::kOpen;
  std::shared_ptr<Connection> connection_ ABSL_GUARDED_BY(mu_);
  std::atomic<bool> cancelled_{false};
};

class Responder final : public HttpResponder {
 public:
  explicit Responder(std::shared_ptr<Exchange> exchange) : exchange_(std::move(exchange)) {}
  ~Responder() override { exchange_->Drop(); }
  void Complete(HttpResponse response) override {
    exchange_->Send(Exchange::Step::kComplete, std::move(response));
  }
  void Begin(HttpResponse head) override {
    exchange_->Send(Exchange::Step::kBegin, std::move(head));
  }
  void Write(std::string chunk) override {
    exchange_->Send(Exchange::Step::kWrite, {.headers = {}, .body = std::move(chunk)});
  }
  void End() override { exchange_->Send(Exchange::Step::kEnd, {}); }
  bool Cancelled() const override { return exchange_->Cancelled(); }

 private:
  const std::shared_ptr<Exchange> exchange_;
};

// One client. Everything but the constructor runs on the socket's strand.
//
//   kIdle ──first byte──> kReading ──request──> kAnswering ──sent──> kIdle
//                            └── refused ──> kAnswering ──sent──> kDraining ──> closed
// A plain read of the socket (StartRead) is outstanding in kIdle, kDraining, and in kAnswering
// while an answer is awaited: that is how a leaving client is noticed. It is only started on an
// empty buffer, so the next request's first bytes end it, and it never runs beside the parser's own
// reads (kReading).
class Connection : public std::enable_shared_from_this<Connection> {
 public:
  Connection(Shared* shared, tcp::socket socket)
      : shared_(shared),
        socket_(std::move(socket)),
        read_timer_(socket_.get_executor()),
        write_timer_(socket_.get_executor()) {}

  auto executor() { return socket_.get_executor(); }

  void Start() {
    error_code ignored;
    socket_.set_option(tcp::no_delay(true), ignored);
    AwaitRequest();
  }

  void OnStep(Exchange::Step step, HttpResponse response);

  // The server stops: at once if nothing is being received or answered, else after the answer.
  void Retire() {
    if (phase_ == Phase::kIdle || phase_ == Phase::kDraining) Close();
  }

  void Close();

 private:
  enum class Phase : uint8_t { kIdle, kReading, kAnswering, kDraining, kClosed };

  void AwaitRequest();
  void StartRead();
  void OnRead(error_code error, size_t bytes);
  void ReadRequest();
  void OnHeader(error_code error);
  void ReadBody();
  void OnRequest(error_code error);
  void Refuse(error_code error);
  void Dispatch();
  void Append(std::string_view text);
  void WriteMore();
  void OnWritten(error_code error, size_t bytes);
  void AnswerSent();
  void Drain();
  void ArmReadTimer(std::chrono::milliseconds timeout);
  void ArmWriteTimer();
  void OnReadTimeout();

  Shared* const shared_;
  tcp::socket socket_;
  Phase phase_ = Phase::kIdle;

  // Receiving.
  beast::flat_buffer buffer_;
  std::optional<http::request_parser<http::string_body>> parser_;
  bool reading_ = false;         // a plain read is outstanding
  bool read_timed_out_ = false;  // the parser's read was cancelled by the timer
  bool client_done_ = false;     // it closed its side while the finished answer was on its way
  asio::steady_timer read_timer_;
  // An expiry that was queued before a re-arm belongs to an older round.
  uint64_t read_timer_round_ = 0;

  // Answering.
  std::shared_ptr<Exchange> exchange_;
  bool keep_alive_ = false;
  bool http_1_0_ = false;
  bool head_only_ = false;
  BodyFraming framing_ = BodyFraming::kContentLength;
  bool answer_complete_ = false;  // everything is in pending_ or in_flight_
  std::string pending_;           // to be sent after in_flight_
  std::string in_flight_;
  size_t in_flight_sent_bytes_ = 0;
  bool writing_ = false;
  asio::steady_timer write_timer_;
  uint64_t write_timer_round_ = 0;
};

// ---- Exchange ----

void Exchange::PostLocked(Step step, HttpResponse response) {
  if (connection_ == nullptr) return;
  asio::post(connection_->executor(),
             [connection = connection_, step, response = std::move(response)]() mutable {
               connection->OnStep(step, std::move(response));
             });
}

void Exchange::Send(Step step, HttpResponse response) {
  MutexLock lock(mu_);
  switch (step) {
    case Step::kComplete:
      if (state_ != State::kOpen) return;
      state_ = State::kFinished;
      break;
    case Step::kBegin:
      if (state_ != State::kOpen) return;
      state_ = State::kStreaming;
      break;
    case Step::kWrite:
      if (state_ != State::kStreaming) return;
      break;
    case Step::kEnd:
    case Step::kAbort:
      if (state_ != State::kStreaming) return;
      state_ = State::kFinished;
      break;
  }
  PostLocked(step, std::move(response));
}

void Exchange::Drop() {
  MutexLock lock(mu_);
  if (state_ == State::kFinished) return;
  const bool began = state_ == State::kStreaming;
  state_ = State::kFinished;
  if (began) {
    PostLocked(Step::kAbort, {});
  } else {
    PostLocked(Step::kComplete, ErrorResponse(500, "the request was not answered"));
  }
}

void Exchange::Detach() {
  std::shared_ptr<Connection> last;  // released after the lock
  MutexLock lock(mu_);
  cancelled_.store(state_ != State::kFinished, std::memory_order_relaxed);
  last.swap(connection_);
}

bool Exchange::Finished() const {
  MutexLock lock(mu_);
  return state_ == State::kFinished;
}

// ---- Connection: receiving ----

void Connection::AwaitRequest() {
  phase_ = Phase::kIdle;
  if (buffer_.size() > 0) return ReadRequest();
  if (shared_->stopping.load()) return Close();
  ArmReadTimer(shared_->config.idle_timeout);
  StartRead();
}

void Connection::StartRead() {
  if (reading_) return;
  reading_ = true;
  socket_.async_read_some(
      buffer_.prepare(kReadBytes),
      [self = shared_from_this()](error_code error, size_t bytes) { self->OnRead(error, bytes); });
}

void Connection::OnRead(error_code error, size_t bytes) {
  reading_ = false;
  if (phase_ == Phase::kClosed) return;
  if (error) {
    // A client may close its sending side once it has asked; the answer that is ready still goes
    // out.
    const bool answer_is_ready = exchange_ == nullptr || exchange_->Finished();
    if (phase_ == Phase::kAnswering && answer_is_ready && error == asio::error::eof) {
      client_done_ = true;
      return;
    }
    return Close();
  }
  if (phase_ == Phase::kDraining) return StartRead();  // not committed: thrown away
  buffer_.commit(bytes);
  if (phase_ == Phase::kIdle) ReadRequest();
}

void Connection::ReadRequest() {
  phase_ = Phase::kReading;
  read_timed_out_ = false;
  parser_.emplace();
  parser_->header_limit(shared_->config.max_header_bytes);
  parser_->body_limit(shared_->config.max_body_bytes);
  ArmReadTimer(shared_->config.read_timeout);
  http::async_read_header(
      socket_, buffer_, *parser_,
      [self = shared_from_this()](error_code error, size_t) { self->OnHeader(error); });
}

void Connection::OnHeader(error_code error) {
  if (phase_ == Phase::kClosed) return;
  if (error) return Refuse(error);
  if (!beast::iequals(parser_->get()[http::field::expect], "100-continue")) return ReadBody();
  static constexpr std::string_view kContinue = "HTTP/1.1 100 Continue\r\n\r\n";
  asio::async_write(socket_, asio::buffer(kContinue),
                    [self = shared_from_this()](error_code write_error, size_t) {
                      if (self->phase_ == Phase::kClosed) return;
                      if (write_error) return self->Refuse(write_error);
                      self->ReadBody();
                    });
}

void Connection::ReadBody() {
  // Here nothing of it has been received yet, so making room for a reader's padding copies nothing.
  if (const auto length_bytes = parser_->content_length())
    parser_->get().body().reserve(*length_bytes + kBodyPaddingBytes);
  http::async_read(
      socket_, buffer_, *parser_,
      [self = shared_from_this()](error_code error, size_t) { self->OnRequest(error); });
}

void Connection::OnRequest(error_code error) {
  if (phase_ == Phase::kClosed) return;
  if (error) return Refuse(error);
  ++read_timer_round_;
  read_timer_.cancel();
  phase_ = Phase::kAnswering;
  shared_->requests.fetch_add(1, std::memory_order_relaxed);
  Dispatch();
}

// Says why where the client may still be listening, then closes.
void Connection::Refuse(error_code error) {
  ++read_timer_round_;
  read_timer_.cancel();
  HttpResponse answer;
  if (read_timed_out_) {
    answer = ErrorResponse(
        408, fmt::format("request not complete after {} ms", shared_->config.read_timeout.count()));
  } else if (error == http::error::body_limit) {
    answer = ErrorResponse(413, fmt::format("body over {} bytes", shared_->config.max_body_bytes));
  } else if (error == http::error::header_limit || error == http::error::buffer_overflow) {
    answer =
        ErrorResponse(431, fmt::format("headers over {} bytes", shared_->config.max_header_bytes));
  } else if (error.category() == http::make_error_code(http::error::bad_method).category() &&
             error != http::error::end_of_stream && error != http::error::partial_message) {
    answer = ErrorResponse(400, fmt::format("malformed request: {}", error.message()));
  } else {
    return Close();  // the client left in the middle
  }
  if (!read_timed_out_) shared_->bad_requests.fetch_add(1, std::memory_order_relaxed);
  phase_ = Phase::kAnswering;
  keep_alive_ = false;
  answer_complete_ = true;
  Append(FormatHead(answer, {.keep_alive = false}));
  Append(answer.body);
  WriteMore();
}

// ---- Connection: answering ----

void Connection::Dispatch() {
  auto& message = parser_->get();
  HttpRequest request;
  request.method = std::string(message.method_string());
  RequestTarget target = SplitTarget({message.target().data(), message.target().size()});
  request.path = std::move(target.path);
  request.query = std::move(target.query);
  for (const auto& field : message) {
    std::string name(field.name_string());
    for (char& c : name) {
      if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
    }
    request.headers.emplace_back(std::move(name), std::string(field.value()));
  }
  request.body = std::move(message.body());
  keep_alive_ = message.keep_alive();
  http_1_0_ = message.version() < 11;
  head_only_ = request.method == "HEAD";
  answer_complete_ = false;
  parser_.reset();

  exchange_ = std::make_shared<Exchange>(shared_from_this());
  auto responder = std::make_shared<Responder>(exchange_);
  const HttpRoutes::Methods* methods = shared_->routes.Find(request.path, &request.path_parameters);
  if (methods == nullptr) {
    responder->Complete(ErrorResponse(404, "route not found"));
  } else if (const auto handler = methods->find(head_only_ ? "GET" : request.method);
             handler == methods->end()) {
    HttpResponse answer = ErrorResponse(405, "method not allowed");
    std::string allowed;
    for (const auto& [method, unused] : *methods) {
      allowed += fmt::format("{}{}{}", allowed.empty() ? "" : ", ", method,
                             method == "GET" ? ", HEAD" : "");
    }
    answer.headers.emplace_back("Allow", std::move(allowed));
    responder->Complete(std::move(answer));
  } else {
    try {
      handler->second(request, responder);
    } catch (const std::exception& e) {  // of a library below the handler
      responder->Complete(ErrorResponse(500, e.what()));
    }
  }
  responder.reset();
  if (!exchange_->Finished() && buffer_.size() == 0) StartRead();
}

void Connection::OnStep(Exchange::Step step, HttpResponse response) {
  if (phase_ != Phase::kAnswering) return;
  if (shared_->stopping.load()) keep_alive_ = false;
  switch (step) {
    case Exchange::Step::kComplete:
      Append(FormatHead(response, {.keep_alive = keep_alive_, .http_1_0 = http_1_0_}));
      if (!head_only_) Append(response.body);
      answer_complete_ = true;
      break;
    case Exchange::Step::kBegin:
      framing_ = http_1_0_ ? BodyFraming::kUntilClose : BodyFraming::kChunked;
      if (http_1_0_) keep_alive_ = false;
      Append(FormatHead(response,
                        {.framing = framing_, .keep_alive = keep_alive_, .http_1_0 = http_1_0_}));
      [[fallthrough]];
    case Exchange::Step::kWrite:
      if (head_only_) break;
      Append(framing_ == BodyFraming::kChunked ? FormatChunk(response.body)
                                               : std::move(response.body));
      if (pending_.size() > shared_->config.max_unsent_bytes) {
        shared_->streams_overflowed.fetch_add(1, std::memory_order_relaxed);
        return Close();
      }
      break;
    case Exchange::Step::kEnd:
      if (!head_only_ && framing_ == BodyFraming::kChunked) Append(kLastChunk);
      answer_complete_ = true;
      break;
    case Exchange::Step::kAbort:
      return Close();
  }
  WriteMore();
}

void Connection::Append(std::string_view text) { pending_.append(text); }

void Connection::WriteMore() {
  if (writing_) return;
  if (in_flight_sent_bytes_ == in_flight_.size()) {
    in_flight_.clear();
    in_flight_sent_bytes_ = 0;
    std::swap(in_flight_, pending_);
    if (in_flight_.empty()) {
      if (answer_complete_) AnswerSent();
      return;
    }
  }
  writing_ = true;
  ArmWriteTimer();
  socket_.async_write_some(asio::buffer(in_flight_) + in_flight_sent_bytes_,
                           [self = shared_from_this()](error_code error, size_t bytes) {
                             self->OnWritten(error, bytes);
                           });
}

void Connection::OnWritten(error_code error, size_t bytes) {
  writing_ = false;
  ++write_timer_round_;
  write_timer_.cancel();
  if (phase_ == Phase::kClosed) return;
  if (error) return Close();
  in_flight_sent_bytes_ += bytes;
  WriteMore();
}

void Connection::AnswerSent() {
  if (exchange_ != nullptr) exchange_->Detach();
  exchange_.reset();
  answer_complete_ = false;
  if (in_flight_.capacity() > kKeptBufferBytes) in_flight_.shrink_to_fit();
  if (pending_.capacity() > kKeptBufferBytes) pending_.shrink_to_fit();
  if (client_done_ && buffer_.size() == 0) return Close();
  if (!keep_alive_ || shared_->stopping.load()) return Drain();
  AwaitRequest();
}

// Closing a socket with unread input resets it, and the reset can overtake the answer: read on
// until the client closes.
void Connection::Drain() {
  phase_ = Phase::kDraining;
  error_code error;
  socket_.shutdown(tcp::socket::shutdown_send, error);
  if (error) return Close();
  ArmReadTimer(kDrainTimeout);
  StartRead();
}

void Connection::Close() {
  if (phase_ == Phase::kClosed) return;
  phase_ = Phase::kClosed;
  if (exchange_ != nullptr) exchange_->Detach();
  exchange_.reset();
  ++read_timer_round_;
  ++write_timer_round_;
  read_timer_.cancel();
  write_timer_.cancel();
  error_code ignored;
  socket_.close(ignored);
  const auto self = shared_from_this();  // the set may hold the last reference
  MutexLock lock(shared_->mu);
  shared_->connections.erase(self);
  if (shared_->connections.empty()) shared_->none_left.NotifyAll();
}

// ---- Connection: time-outs ----

void Connection::ArmReadTimer(std::chrono::milliseconds timeout) {
  const uint64_t round = ++read_timer_round_;
  read_timer_.expires_after(timeout);
  read_timer_.async_wait([self = shared_from_this(), round](error_code error) {
    if (!error && round == self->read_timer_round_) self->OnReadTimeout();
  });
}

void Connection::OnReadTimeout() {
  if (phase_ != Phase::kReading) return Close();  // idle, or drained long enough
  if (read_timed_out_) return Close();
  shared_->timeouts.fetch_add(1, std::memory_order_relaxed);
  read_timed_out_ = true;
  ArmReadTimer(kDrainTimeout);  // the cancellation may meet the parser between two reads
  error_code ignored;
  socket_.cancel(ignored);  // the parser's read ends with an error and Refuse says why
}

void Connection::ArmWriteTimer() {
  const uint64_t round = ++write_timer_round_;
  write_timer_.expires_after(shared_->config.write_timeout);
  write_timer_.async_wait([self = shared_from_this(), round](error_code error) {
    if (error || round != self->write_timer_round_) return;
    self->shared_->timeouts.fetch_add(1, std::memory_order_relaxed);
    self->Close();
  });
}

absl::Status ListenError(const HttpServerConfig& config, const error_code& error) {
  return absl::UnavailableError(
      fmt::format("cannot listen on {} (HTTP): {}", config.listen, error.message()));
}

}  // namespace

// ---- HttpServer ----

struct HttpServer::Impl {
  explicit Impl(HttpServerConfig config)
      : shared{.config = std::move(config),
               .routes = {},
               .mu = {},
               .none_left = {},
               .connections = {}},
        acceptor(asio::make_strand(io)),
        retry(acceptor.get_executor()) {}

  absl::Status Listen();
  void Accept();
  void OnAccept(error_code error, tcp::socket socket);
  std::set<std::shared_ptr<Connection>> Connections() {
    MutexLock lock(shared.mu);
    return shared.connections;
  }

  Shared shared;
  asio::io_context io;
  tcp::acceptor acceptor;
  asio::steady_timer retry;  // after a failed accept
  std::optional<asio::executor_work_guard<asio::io_context::executor_type>> work;
  std::string address;
  std::vector<std::jthread> threads;
};

absl::Status HttpServer::Impl::Listen() {
  absl::StatusOr<HostPort> parsed = ParseHostPort(shared.config.listen);
  if (!parsed.ok()) return parsed.status();
  error_code error;
  tcp::resolver resolver(io);
  const auto endpoints =
      resolver.resolve(parsed->host, fmt::format("{}", parsed->port),
                       tcp::resolver::passive | tcp::resolver::numeric_service, error);
  if (error) return ListenError(shared.config, error);
  const tcp::endpoint endpoint = endpoints.begin()->endpoint();
  acceptor.open(endpoint.protocol(), error);
  // SO_REUSEADDR gets past TIME_WAIT after a restart; Linux still refuses a port that somebody
  // listens on.
  if (!error) acceptor.set_option(tcp::acceptor::reuse_address(true), error);
  if (!error) acceptor.bind(endpoint, error);
  if (!error) acceptor.listen(asio::socket_base::max_listen_connections, error);
  if (error) return ListenError(shared.config, error);
  const tcp::endpoint bound = acceptor.local_endpoint(error);
  if (error) return ListenError(shared.config, error);
  const std::string host = bound.address().to_string();
  address = bound.address().is_v6() ? fmt::format("[{}]:{}", host, bound.port())
                                    : fmt::format("{}:{}", host, bound.port());
  return absl::OkStatus();
}

void HttpServer::Impl::Accept() {
  acceptor.async_accept(asio::make_strand(io), [this](error_code error, tcp::socket socket) {
    OnAccept(error, std::move(socket));
  });
}

void HttpServer::Impl::OnAccept(error_code error, tcp::socket socket) {
  if (shared.stopping.load() || !acceptor.is_open()) return;
  if (error) {  // mostly: no file descriptors left. Trying again at once would spin
    retry.expires_after(kAcceptRetry);
    retry.async_wait([this](error_code wait_error) {
      if (!wait_error && acceptor.is_open()) Accept();
    });
    return;
  }
  std::shared_ptr<Connection> connection;
  {
    MutexLock lock(shared.mu);
    if (shared.connections.size() < shared.config.max_connections) {
      connection = std::make_shared<Connection>(&shared, std::move(socket));
      shared.connections.insert(connection);
    }
  }
  if (connection == nullptr) {
    shared.connections_refused.fetch_add(1, std::memory_order_relaxed);
  } else {
    asio::post(connection->executor(), [connection] { connection->Start(); });
  }
  Accept();
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
  impl_->shared.routes.Add(path, std::move(method), std::move(handler));
}

absl::Status HttpServer::Start() {
  if (absl::Status status = impl_->Listen(); !status.ok()) return status;
  impl_->work.emplace(impl_->io.get_executor());
  impl_->Accept();
  const uint32_t count = std::max(1u, impl_->shared.config.threads);
  for (uint32_t i = 0; i < count; ++i) {
    impl_->threads.emplace_back([this, i] {
      pthread_setname_np(pthread_self(), fmt::format("kvr-http-{}", i).c_str());
      impl_->io.run();
    });
  }
  return absl::OkStatus();
}

std::string HttpServer::Address() const { return impl_->address; }

void HttpServer::Stop(std::chrono::milliseconds grace) {
  if (impl_->threads.empty()) return;
  Shared& shared = impl_->shared;
  shared.stopping.store(true);
  asio::post(impl_->acceptor.get_executor(), [this] {
    error_code ignored;
    impl_->acceptor.close(ignored);
    impl_->retry.cancel();
  });
  for (const auto& connection : impl_->Connections()) {
    asio::post(connection->executor(), [connection] { connection->Retire(); });
  }
  const auto deadline = std::chrono::steady_clock::now() + grace;
  {
    MutexLock lock(shared.mu);
    while (!shared.connections.empty()) {
      const auto left = deadline - std::chrono::steady_clock::now();
      if (left <= std::chrono::nanoseconds(0)) break;
      shared.none_left.WaitFor(shared.mu, left);
    }
  }
  for (const auto& connection : impl_->Connections()) {
    asio::post(connection->executor(), [connection] { connection->Close(); });
  }
  impl_->work.reset();
  impl_->threads.clear();  // joins: run() returns when every connection is closed
}

HttpServerCounters HttpServer::Counters() const {
  const Shared& shared = impl_->shared;
  return {.requests = shared.requests.load(),
          .connections_refused = shared.connections_refused.load(),
          .timeouts = shared.timeouts.load(),
          .bad_requests = shared.bad_requests.load(),
          .streams_overflowed = shared.streams_overflowed.load()};
}

std::string_view HttpRequest::Header(std::string_view name) const {
  for (const auto& [key, value] : headers) {
    if (key == name) return value;
  }
  return {};
}

}  // namespace kvrouter
