#ifndef KVROUTER_ADAPTERS_OPENAI_HTTP_CLIENT_REPLY_H_
#define KVROUTER_ADAPTERS_OPENAI_HTTP_CLIENT_REPLY_H_

#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "adapters/http/http_server.h"
#include "dispatch/client_reply.h"

namespace kvrouter {

// The client of a dispatched request, on a connection of our HTTP server. Headers that say how a
// message is framed are the server's own and left out. A reply that is dropped is cut, or answered
// 500 if nothing was sent.
//
// Thread safety: as ClientReply.
class HttpClientReply final : public ClientReply {
 public:
  explicit HttpClientReply(std::shared_ptr<HttpResponder> responder)
      : responder_(std::move(responder)) {}

  void Complete(int status, HeaderList headers, std::string body) override;
  void Begin(int status, HeaderList headers) override;
  bool Write(std::string_view piece) override;
  void End() override;
  void Cut() override;
  void OnGone(std::function<void()> gone) override;
  void OnDrained(std::function<void()> drained) override;

 private:
  std::shared_ptr<HttpResponder> responder_;  // null: cut
};

}  // namespace kvrouter

#endif  // KVROUTER_ADAPTERS_OPENAI_HTTP_CLIENT_REPLY_H_
