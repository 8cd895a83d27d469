#ifndef KVROUTER_ADAPTERS_ENGINE_HTTP_NAME_RESOLVER_H_
#define KVROUTER_ADAPTERS_ENGINE_HTTP_NAME_RESOLVER_H_

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "adapters/engine_http/engine_link_figures.h"

namespace kvrouter {

// What a host name stands for.
struct HostAddresses {
  std::vector<std::string> addresses;  // IPv4 and IPv6 as text, in the order to try them
  std::string problem;                 // why there are none
};

// Asks the system's resolver, which blocks and cannot be interrupted, on two threads of its own
// that exist from the first question on. Equal questions are asked once, answers are believed for a
// while, failures shortly.
//
// Thread safety: thread-safe.
class NameResolver {
 public:
  using Done = std::function<void(const HostAddresses&)>;

  NameResolver(std::chrono::nanoseconds ttl, std::shared_ptr<EngineLinkFigures> figures);
  // Waits a moment for a question on its way, then leaves it alone: its thread ends by itself when
  // the name server has answered. No `done` runs after it, nor is one running.
  ~NameResolver();
  NameResolver(const NameResolver&) = delete;
  NameResolver& operator=(const NameResolver&) = delete;

  // `done` runs once: at once if the answer is known, else on a thread of the resolver. It must not
  // block.
  void Resolve(const std::string& host, Done done);
  // The next question about this host is asked anew.
  void Forget(const std::string& host);

 private:
  struct State;
  std::shared_ptr<State> state_;
};

}  // namespace kvrouter

#endif  // KVROUTER_ADAPTERS_ENGINE_HTTP_NAME_RESOLVER_H_
