#ifndef KVROUTER_SIM_PLAYER_COMPLETION_CLIENT_H_
#define KVROUTER_SIM_PLAYER_COMPLETION_CLIENT_H_

#include <boost/asio/io_context.hpp>
#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"

namespace kvrouter::sim {

// Streaming POSTs to /v1/completions of one engine, or of a router in front of engines, any number
// at a time, each on a kept connection of its own.
//
// Thread safety: used on the io_context's only thread, where the callbacks run too.
class CompletionClient {
 public:
  using Headers = std::vector<std::pair<std::string, std::string>>;
  struct Request {
    std::string body;     // JSON with "stream": true
    std::string dp_rank;  // header X-data-parallel-rank; empty: none
    Headers headers;      // more of them
    // The answer's headers, names in lower case, if it is one: at most once, before any token.
    std::function<void(const Headers&)> on_head;
    std::function<void()> on_first_token;       // at most once, before on_done
    std::function<void(absl::Status)> on_done;  // exactly once; OK only after the stream's [DONE]
  };

  // `address` is "http://HOST:PORT", as workers are registered. A step without progress for
  // `stall_timeout` fails the request.
  CompletionClient(boost::asio::io_context* io, const std::string& address,
                   std::chrono::milliseconds stall_timeout);
  ~CompletionClient();

  // Never calls back before it returns.
  void Post(Request request);

 private:
  struct Pool;
  std::shared_ptr<Pool> pool_;
};

}  // namespace kvrouter::sim

#endif  // KVROUTER_SIM_PLAYER_COMPLETION_CLIENT_H_
