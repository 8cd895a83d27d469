#ifndef KVROUTER_ADAPTERS_HTTP_HTTP_CONNECTION_H_
#define KVROUTER_ADAPTERS_HTTP_HTTP_CONNECTION_H_

#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/beast/core/flat_buffer.hpp>
#include <boost/beast/http/parser.hpp>
#include <boost/beast/http/string_body.hpp>
#include <chrono>
#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <string>

#include "adapters/http/http_exchange.h"
#include "adapters/http/http_format.h"
#include "adapters/http/http_server_state.h"
#include "adapters/http/http_stream.h"

namespace kvrouter {

// One client. Everything but the constructor runs on the socket's strand.
//
// With TLS a phase kHandshaking comes first.
//
//   kIdle ──first byte──> kReading ──request──> kAnswering ──sent──> kIdle
//                            └── refused ──> kAnswering ──sent──> kDraining ──> closed
// In kIdle the connection waits for the socket to become readable and holds no buffer, so that many
// idle ones cost little. A plain read of the socket (StartRead) is outstanding in kDraining, and in
// kAnswering while an answer is awaited: that is how a leaving client is noticed. It is only
// started on an empty buffer, so the next request's first bytes end it, and it never runs beside
// the reads of kReading.
//
// A body whose length was announced is read from the socket straight into its string.
class HttpConnection : public std::enable_shared_from_this<HttpConnection> {
 public:
  using Tcp = boost::asio::ip::tcp;

  HttpConnection(HttpServerState* server, Tcp::socket socket)
      : server_(server),
        stream_(std::move(socket)),
        buffer_(BufferLimit(server->config)),
        read_timer_(stream_.get_executor()),
        write_timer_(stream_.get_executor()) {}

  auto executor() { return stream_.get_executor(); }

  void Start();

  // The server stops: at once if nothing is being received or answered, else after the answer.
  void Retire();

  // To make room for others: at once if no request's head is complete, else after the answer.
  void Evict();

  void Close();

 private:
  using ErrorCode = boost::system::error_code;
  // Room for the next request's first bytes while an answer is awaited.
  static constexpr size_t kNoticeBytes = 512;

  enum class Phase : uint8_t { kHandshaking, kIdle, kReading, kAnswering, kDraining, kClosed };

  void ShakeHands();
  void AwaitRequest();
  void StartRead(size_t bytes);
  // Some clients send one behind a body; it is no next request, and must not hide that they leave.
  void SkipEmptyLines();
  void OnRead(ErrorCode error, size_t bytes);
  void ReadRequest();
  void OnHeader(ErrorCode error);
  void ReadBody();
  void ReadAnnouncedBody();
  void ReadChunks();
  bool MakeRoom(uint64_t body_bytes);
  void OnRequest();
  void OnReadError(ErrorCode error);
  void Refuse(const HttpResponse& answer);
  void ReturnBody();

  void Dispatch();
  void OnStep(HttpExchange::Step step, HttpResponse response);
  bool HoldAnswer(uint64_t bytes);
  void Append(std::string text);
  void TellQueued(size_t arrived_bytes);
  void WriteMore();
  void OnWritten(ErrorCode error, size_t bytes);
  void AnswerSent();
  void Cut();
  void Drain();

  void ArmReadTimer(std::chrono::milliseconds timeout);
  void DisarmReadTimer();
  void ArmWriteTimer();
  void DisarmWriteTimer();
  void OnReadTimeout();

  static size_t BufferLimit(const HttpServerConfig& config);

  HttpServerState* const server_;
  HttpStream stream_;
  Phase phase_ = Phase::kIdle;

  // Receiving.
  boost::beast::flat_buffer buffer_;
  std::optional<boost::beast::http::request_parser<boost::beast::http::string_body>> parser_;
  std::string body_;
  size_t body_received_bytes_ = 0;
  uint64_t body_room_bytes_ = 0;  // taken from the server's buffers
  bool head_done_ = false;
  bool reading_ = false;         // a plain read is outstanding
  bool read_timed_out_ = false;  // the parser's read was cancelled by the timer
  bool client_done_ = false;     // it closed its side while the finished answer was on its way
  boost::asio::steady_timer read_timer_;
  // An expiry that was queued before a re-arm belongs to an older round.
  uint64_t read_timer_round_ = 0;

  // Answering.
  std::shared_ptr<HttpExchange> exchange_;
  bool keep_alive_ = false;
  bool evicted_ = false;
  bool http_1_0_ = false;
  bool head_only_ = false;
  BodyFraming framing_ = BodyFraming::kContentLength;
  bool answer_complete_ = false;     // everything is in pending_ or in_flight_
  bool cut_ = false;                 // it is not whole
  std::deque<std::string> pending_;  // to be sent after in_flight_
  size_t pending_bytes_ = 0;
  std::string in_flight_;
  size_t in_flight_sent_bytes_ = 0;
  uint64_t answer_room_bytes_ = 0;  // taken from the server's buffers
  size_t progress_bytes_ = 0;       // sent since the write timer was armed
  bool writing_ = false;
  bool write_timer_armed_ = false;
  boost::asio::steady_timer write_timer_;
  uint64_t write_timer_round_ = 0;
};

}  // namespace kvrouter

#endif  // KVROUTER_ADAPTERS_HTTP_HTTP_CONNECTION_H_
