#ifndef KVROUTER_ADAPTERS_ENGINE_HTTP_HTTP_ENGINE_EXCHANGE_H_
#define KVROUTER_ADAPTERS_ENGINE_HTTP_HTTP_ENGINE_EXCHANGE_H_

#include <array>
#include <atomic>
#include <boost/asio/buffer.hpp>
#include <boost/asio/steady_timer.hpp>
#include <chrono>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "adapters/engine_http/answer_parser.h"
#include "dispatch/engine_link.h"

namespace kvrouter {

class EngineConnection;
class EngineLane;
class EnginePool;

// One call from Send to its end: the request while it may have to be sent (again), the reply, the
// time that is left.
//
//   kStarting ──> kWaiting (for a connection) ──> kOnConnection ──> kOver
//                       └───────────────── End, Cancel ──────────────^
//
// Thread safety: Cancel, Pause and Resume from any thread, everything else on the lane's.
class HttpEngineExchange final : public EngineExchange,
                                 public AnswerSink,
                                 public std::enable_shared_from_this<HttpEngineExchange> {
 public:
  HttpEngineExchange(std::shared_ptr<EngineLane> lane, EngineCall call,
                     std::shared_ptr<EngineReply> reply);
  ~HttpEngineExchange() override;

  void Cancel() override;
  void Pause() override { paused_.store(true); }
  void Resume() override;

  void Start();
  // Instead, when the lane has stopped: the reply is not told.
  void Drop();

  // Of the pool.
  void SetWaiting();
  void SetConnection(EngineConnection* connection);

  // Of the connection. The request, while it is kept.
  std::array<boost::asio::const_buffer, 2> Request() const;
  bool IsHeadRequest() const { return head_request_; }
  bool Paused() const { return paused_.load(); }
  // It begins once more; false if it has done so already.
  bool MayStartAgain();
  // The answer began and the request is out: it is not sent again.
  void DropRequest();
  // A piece came: the next one has its time again.
  void Progressed();

  void OnHead(EngineReplyHead head) override;
  void OnPiece(std::string_view piece) override;
  // `detail` without the address.
  void End(EngineEnd end, std::string_view detail);

 private:
  using TimePoint = std::chrono::steady_clock::time_point;
  enum class Stage : uint8_t { kStarting, kWaiting, kOnConnection, kOver };

  void CancelOnLane();
  void LeaveStage();
  void Expect(TimePoint deadline);
  void ArmTimer();
  void OnTimer();
  void OnHeadTimeout();

  const std::shared_ptr<EngineLane> lane_;
  EngineCall call_;
  std::shared_ptr<EngineReply> reply_;
  std::atomic<bool> cancelled_{false};
  std::atomic<bool> paused_{false};

  Stage stage_ = Stage::kStarting;
  bool head_request_ = false;
  bool head_came_ = false;
  bool started_again_ = false;
  bool timer_armed_ = false;
  EnginePool* pool_ = nullptr;              // from kWaiting on
  EngineConnection* connection_ = nullptr;  // in kOnConnection
  std::string request_head_;
  std::chrono::nanoseconds idle_timeout_{};
  // The timer fires at the time it was once armed for and then looks whether more was granted: a
  // stream moves its deadline with each piece.
  TimePoint deadline_;
  boost::asio::steady_timer timer_;
};

}  // namespace kvrouter

#endif  // KVROUTER_ADAPTERS_ENGINE_HTTP_HTTP_ENGINE_EXCHANGE_H_
