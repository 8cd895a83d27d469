#ifndef KVROUTER_DISPATCH_ENGINE_LINK_H_
#define KVROUTER_DISPATCH_ENGINE_LINK_H_

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace kvrouter {

// How the dispatcher speaks HTTP to engines, without knowing a socket: adapters/engine_http
// implements it, tests replace it by engines in virtual time.

using HeaderList = std::vector<std::pair<std::string, std::string>>;  // names in lower case

// One request to one engine.
struct EngineCall {
  std::string base_url;  // of the worker, as registered: http://10.0.0.1:8000 or https://…
  std::string method = "POST";
  std::string path;    // with its query, e.g. /v1/completions
  HeaderList headers;  // without those of the connection (host, content-length, connection, …)
  // Shared by the legs and attempts of a request that send the same bytes; null: no body.
  std::shared_ptr<const std::string> body;
  // From Send to the answer's head, connecting included; 0: the link's default.
  std::chrono::nanoseconds head_timeout{};
  // Between two pieces of the answer, while it is not paused; 0: the link's default.
  std::chrono::nanoseconds idle_timeout{};
};

struct EngineReplyHead {
  int status = 0;
  // In lower case, in their order, end-to-end ones only: content-length is left out, too, since a
  // body comes in pieces and may be passed on otherwise framed.
  HeaderList headers;
};

// How an exchange ended.
enum class EngineEnd : uint8_t {
  kComplete,       // the whole answer was there
  kBadAddress,     // the worker's address is not an http(s) URL
  kConnectFailed,  // refused, unreachable, TLS refused: nothing was sent
  // The connection went before the request was out whole: it was not executed. A request that went
  // out on a kept connection, which then ends without a byte of an answer, is sent once more by the
  // link itself.
  kNotSent,
  kHeadTimeout,  // no head in time
  kIdleTimeout,  // the answer stopped
  kCut,          // the connection went in the middle, or what came is not HTTP
  kOverloaded,   // a bound of the link: connections or waiting calls of this engine
  kShuttingDown,
};
inline constexpr int kEngineEndCount = 9;
// E.g. "connect_failed".
std::string_view EngineEndName(EngineEnd end);

// What an exchange tells. The calls of one exchange come one after another, on a thread of the
// link, under no lock of its: OnHead once, OnBody any number of times, OnEnd once and last; without
// a head, only OnEnd. Must not block.
class EngineReply {
 public:
  virtual ~EngineReply() = default;
  virtual void OnHead(EngineReplyHead head) = 0;
  virtual void OnBody(std::string_view piece) = 0;  // never empty; valid during the call
  // `detail`: one line for logs, naming address and cause; empty for kComplete.
  virtual void OnEnd(EngineEnd end, std::string_view detail) = 0;
};

// A request on its way. Dropping the handle does not cancel it.
class EngineExchange {
 public:
  virtual ~EngineExchange() = default;
  // Closes the connection, so that the engine aborts its work. At most one call of the reply that
  // had begun, or was about to, may still be running when it returns; no other follows, OnEnd
  // included. Inside a call of the reply it is the last one. Idempotent; nothing after the end. Any
  // thread, and also when the link is gone.
  virtual void Cancel() = 0;
  // Reads no more of the answer until Resume, so that a slow client slows its engine. The pieces of
  // one read (64 KiB) may still come, and with them OnEnd. The head's time goes on meanwhile.
  virtual void Pause() = 0;
  virtual void Resume() = 0;
};

// Thread safety: thread-safe.
class EngineLink {
 public:
  virtual ~EngineLink() = default;
  // Never blocks and never calls the reply before it has returned. The link owns `reply` until the
  // exchange is over.
  virtual std::shared_ptr<EngineExchange> Send(EngineCall call,
                                               std::shared_ptr<EngineReply> reply) = 0;
  // Runs `task` after `delay` on a thread of the link (at once with 0); the answer cancels it, and
  // does nothing when it has begun. Tasks must not block. Not run after shutdown.
  virtual std::function<void()> After(std::chrono::nanoseconds delay,
                                      std::function<void()> task) = 0;
  // The worker at this address is gone or replaced: its kept connections are closed. Running
  // exchanges go on.
  virtual void Forget(std::string_view base_url) = 0;
};

}  // namespace kvrouter

#endif  // KVROUTER_DISPATCH_ENGINE_LINK_H_
