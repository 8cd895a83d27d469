#ifndef KVROUTER_ADAPTERS_ENGINE_HTTP_HTTP_ENGINE_LINK_H_
#define KVROUTER_ADAPTERS_ENGINE_HTTP_HTTP_ENGINE_LINK_H_

#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "adapters/tls/tls_config.h"
#include "dispatch/engine_link.h"

namespace kvrouter {

// HTTP/1.1 to engines (Boost.Asio and Beast behind this header).
//
// Each engine address belongs to one of a few lanes, a thread with its own event loop: its kept
// connections, its bounds and its running exchanges are touched by that thread alone, so nothing on
// the way of a request takes a lock but the hand-over to the lane.
//
//   HttpEngineLink ── EngineLane (thread) ── EnginePool (address) ── EngineConnection (socket)
//                                                    └ waiting          └ HttpEngineExchange
//
// An answer is passed on as it is read, through one buffer of the lane: a connection that waits
// holds no buffer.
//
// A request that went out on a kept connection which then ends without one byte of an answer is
// sent once more on a new one, whatever its method: engines close kept connections when they like,
// and the request cannot have been answered. It may have been begun; engines abort what lost its
// connection, and completions change nothing that a second one could not. No time-out is retried
// here, and nothing on a new connection.

struct EngineLinkConfig {
  uint32_t threads = 2;
  // Bounds of one address. Beyond connections calls wait, beyond waiting ones they end kOverloaded.
  uint32_t max_connections = 1024;
  uint32_t max_waiting = 256;
  uint32_t max_idle_connections = 128;
  std::chrono::milliseconds connect_timeout{3000};  // name, all addresses and TLS together
  std::chrono::milliseconds head_timeout{300000};   // unless the call says
  std::chrono::milliseconds idle_timeout{300000};   // unless the call says
  // A kept connection is closed after this time without use. uvicorn closes after 5 s; to send into
  // its closing costs a retry.
  std::chrono::milliseconds keep_idle_timeout{4000};
  uint32_t max_head_bytes = 65536;   // of an answer
  uint32_t max_interim_answers = 8;  // 1xx before an answer
  // How long what a name server said is believed.
  std::chrono::milliseconds name_ttl{10000};
  TlsClientConfig tls{};  // of https addresses
};

struct EngineLinkCounters {
  uint64_t calls = 0;
  std::array<uint64_t, kEngineEndCount> ends{};  // by EngineEnd
  uint64_t cancelled = 0;
  uint64_t retried = 0;    // sent again, since a kept connection had ended without an answer
  uint64_t exchanges = 0;  // now: not ended yet
  uint64_t waiting = 0;    // now: of them, for a connection
  uint64_t connections_opened = 0;
  uint64_t connections_reused = 0;
  uint64_t connections = 0;       // now, being opened ones included
  uint64_t idle_connections = 0;  // now
  uint64_t idle_timeouts = 0;     // kept connections that were not used in time
  uint64_t idle_ended = 0;        // which the engine closed, or said something on unasked
  uint64_t idle_surplus = 0;      // closed since max_idle_connections were kept already
  uint64_t sent_bytes = 0;
  uint64_t received_bytes = 0;
  uint64_t names_asked = 0;  // of a name server
  uint64_t names_failed = 0;
};

// Thread safety: thread-safe; Start and Stop from one thread, which is none of the link's.
class HttpEngineLink : public EngineLink {
 public:
  explicit HttpEngineLink(EngineLinkConfig config);
  ~HttpEngineLink() override;

  // Before the first Send. Bad settings, or files of TLS that cannot be used, are an error.
  absl::Status Start();
  // Ends what runs with kShuttingDown and joins the threads; waits for no engine and no name
  // server. Replies of calls sent later are dropped uncalled. Again: nothing.
  void Stop();

  std::shared_ptr<EngineExchange> Send(EngineCall call,
                                       std::shared_ptr<EngineReply> reply) override;
  std::function<void()> After(std::chrono::nanoseconds delay, std::function<void()> task) override;
  void Forget(std::string_view base_url) override;

  EngineLinkCounters Counters() const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace kvrouter

#endif  // KVROUTER_ADAPTERS_ENGINE_HTTP_HTTP_ENGINE_LINK_H_
