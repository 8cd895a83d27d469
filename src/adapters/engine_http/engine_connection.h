#ifndef KVROUTER_ADAPTERS_ENGINE_HTTP_ENGINE_CONNECTION_H_
#define KVROUTER_ADAPTERS_ENGINE_HTTP_ENGINE_CONNECTION_H_

#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/steady_timer.hpp>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "adapters/engine_http/answer_parser.h"
#include "adapters/engine_http/engine_stream.h"
#include "adapters/engine_http/http_engine_exchange.h"
#include "adapters/engine_http/name_resolver.h"

namespace kvrouter {

class EngineLane;
class EnginePool;

// One socket to an engine, with at most one exchange on it.
//
//   kConnecting ──> kBusy <──> kIdle (in the pool)
//        └────────────┴──────────┴──> kClosed
//
// The request is written and the answer read side by side: an engine may refuse a request before
// it has read it. At most one wait for each of the two directions is outstanding; what it was for
// is looked up when it ends. In kIdle the wait for readability tells that the engine closes.
//
// Everything runs on the lane's thread. A closed connection refers to nothing.
class EngineConnection : public std::enable_shared_from_this<EngineConnection> {
 public:
  EngineConnection(EngineLane* lane, EnginePool* pool, uint64_t life);
  ~EngineConnection();

  uint64_t life() const { return life_; }
  bool Connecting() const { return stage_ == Stage::kConnecting; }

  // A new one: connects, then sends.
  void Open(std::shared_ptr<HttpEngineExchange> exchange);
  // A kept one. REQUIRES: StillOpen.
  void Take(std::shared_ptr<HttpEngineExchange> exchange);
  // A kept one: the engine has neither closed it nor sent anything.
  bool StillOpen();

  void AwaitReadable();
  // As far as there is something and the exchange is not paused.
  void ReadMore();

  // Closes it and ends its exchange, if it has one.
  void Fail(EngineEnd end, std::string_view detail);
  // Closes it; its exchange, if it has one, knows.
  void Abandon();

 private:
  using Tcp = boost::asio::ip::tcp;
  using ErrorCode = boost::system::error_code;
  using TimePoint = std::chrono::steady_clock::time_point;
  enum class Stage : uint8_t { kConnecting, kBusy, kIdle, kClosed };

  void OnNames(const HostAddresses& names);
  void ConnectNext();
  void ArmConnectTimer(TimePoint deadline);
  void OnConnectTimeout();
  void OnConnected(ErrorCode error);
  void ShakeHands();
  void OnEstablished();

  void BeginRequest();
  void SendMore();
  void AwaitWritable();
  void OnWritable();
  void OnWriteFailed();

  void OnReadable();
  void OnIdleReadable();
  void OnBytes(std::string_view bytes);
  void OnPeerDone(EngineStream::Result result);
  void OnAnswered();
  bool SentAll() const;
  // The exchange that was on it.
  std::shared_ptr<HttpEngineExchange> Close();

  EngineLane* const lane_;
  EnginePool* const pool_;
  const uint64_t life_;
  EngineStream stream_;
  Stage stage_ = Stage::kConnecting;
  bool awaits_readable_ = false;
  bool awaits_writable_ = false;
  bool used_before_ = false;   // the exchange is not its first
  bool answer_began_ = false;  // a byte of it came
  bool write_failed_ = false;
  bool read_wants_writable_ = false;   // TLS
  bool write_wants_readable_ = false;  // TLS
  std::shared_ptr<HttpEngineExchange> exchange_;
  size_t request_bytes_ = 0;
  size_t sent_bytes_ = 0;
  std::unique_ptr<AnswerParser> parser_;

  // While it connects.
  struct Attempts {
    std::vector<Tcp::endpoint> endpoints;
    size_t next = 0;
    TimePoint deadline;
    std::string problem;       // of the last attempt
    bool handshaking = false;  // TLS on a connection that stands
    uint64_t round = 0;        // what belongs to an older one is void
    boost::asio::steady_timer timer;
  };
  std::unique_ptr<Attempts> attempts_;
};

}  // namespace kvrouter

#endif  // KVROUTER_ADAPTERS_ENGINE_HTTP_ENGINE_CONNECTION_H_
