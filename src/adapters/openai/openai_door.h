#ifndef KVROUTER_ADAPTERS_OPENAI_OPENAI_DOOR_H_
#define KVROUTER_ADAPTERS_OPENAI_OPENAI_DOOR_H_

#include <chrono>
#include <functional>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "adapters/http/http_server.h"
#include "dispatch/client_reply.h"
#include "dispatch/dispatcher.h"

namespace kvrouter {

// The OpenAI-compatible door: an HTTP server of its own whose requests go to the dispatcher as they
// are.
//
//   POST /v1/completions, /v1/chat/completions     by the plan of the router
//   POST /v1/embeddings, /tokenize, /detokenize    passed through to one worker
//   GET  /v1/models                                the same
//
// What the server itself refuses (malformed, too large, too slow, no such route) is said in
// OpenAI's shape, {"error":{"message":…,"type":…,"param":null,"code":…}}.
//
// Thread safety: Start from one thread, Stop and the readers from any.
class OpenAiDoor {
 public:
  // Dispatcher::Serve; called on the server's threads, must not block.
  using Serve = std::function<void(DispatchRequest, std::shared_ptr<ClientReply>)>;

  // `config.error_body` is the door's own.
  OpenAiDoor(HttpServerConfig config, Serve serve);

  absl::Status Start() { return server_.Start(); }
  std::string Address() const { return server_.Address(); }
  // As HttpServer::Stop.
  void Stop(std::chrono::milliseconds grace) { server_.Stop(grace); }

  HttpServerCounters Counters() const { return server_.Counters(); }

 private:
  HttpServer server_;
};

}  // namespace kvrouter

#endif  // KVROUTER_ADAPTERS_OPENAI_OPENAI_DOOR_H_
