#ifndef KVROUTER_DISPATCH_DISPATCHER_H_
#define KVROUTER_DISPATCH_DISPATCHER_H_

#include <array>
#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/clock.h"
#include "dispatch/client_reply.h"
#include "dispatch/dispatch_config.h"
#include "dispatch/dispatch_observer.h"
#include "dispatch/engine_link.h"
#include "kvrouter/decision.h"
#include "service/routing_service.h"
#include "service/worker_registry.h"

namespace kvrouter {

// A client's request, as its door read it.
struct DispatchRequest {
  std::string method = "POST";
  std::string path;    // without the query
  std::string query;   // behind the '?'; empty: none
  HeaderList headers;  // names in lower case
  // Read in place if there are 64 bytes of capacity behind its text, else copied once.
  std::string body;
};

// A request in OpenAI's words that is only to be routed.
struct RouteTextRequest {
  std::string path = "/v1/completions";  // or /v1/chat/completions: which kind of body it is
  HeaderList headers;                    // as of a DispatchRequest
  std::string body;
  bool book = true;                // false: advice
  std::string request_id;          // empty: that of the headers, else a generated one
  std::string routing_group = {};  // empty: as the headers or the settings say
};

struct RouteTextAnswer {
  std::string request_id;  // under which it is booked
  RouteDecision decision;
  // Null: there were none, and the request was routed by load alone.
  std::shared_ptr<const std::vector<TokenId>> token_ids;
};

struct DispatchCounters {
  uint64_t live = 0;
  uint64_t started = 0;
  std::array<uint64_t, kDispatchOutcomeCount> ended = {};  // by DispatchOutcome
  uint64_t tokenize_cache_entries = 0;
  uint64_t tokenize_cache_bytes = 0;
  uint64_t tokenize_cache_evicted = 0;
  uint64_t tokenize_in_flight = 0;
  uint64_t breakers_open = 0;
};

// Serves OpenAI requests by the fleet: reads, tokenises, asks the routing service, sends the legs
// of its plan, falls back, and passes the answer on.
//
//   identify ─> tokenise ─> route ─> [prefill or kv_source leg] ─> serve or decode leg ─> end
//                             ▲         └ fails: without it ──────┐    │
//                             └───── another worker ──────────────┴────┘ fails before first byte
//
// Knows no socket, thread or clock but those behind its interfaces. A request's events run one
// after another (serial_events.h), on whatever thread they come, and call out under no lock.
//
// Invariants, whatever fails: a client that stays gets exactly one answer, within the total time;
// each booking is given back exactly once; no exchange outlives its request.
//
// Thread safety: thread-safe.
class Dispatcher {
 public:
  // All outlive the dispatcher; `observer` may be null. REQUIRES: Validate(config).ok().
  struct Parts {
    RoutingService* routing = nullptr;
    const WorkerRegistry* workers = nullptr;
    EngineLink* link = nullptr;
    const Clock* clock = nullptr;
    DispatchObserver* observer = nullptr;
  };
  Dispatcher(DispatchConfig config, const Parts& parts);
  // Calls Stop(0).
  ~Dispatcher();
  Dispatcher(const Dispatcher&) = delete;
  Dispatcher& operator=(const Dispatcher&) = delete;

  // /v1/completions and /v1/chat/completions by the plan of the router; anything else goes to one
  // worker of the body's model as it is. Never blocks. Its door refuses what it does not serve.
  void Serve(DispatchRequest request, std::shared_ptr<ClientReply> reply);

  // Decides as for Serve, but sends nothing: whoever asked reports and frees as after
  // RoutingService::Submit. `done` runs once, perhaps before this returns, unless the answer was
  // called before: who leaves calls it, and what was booked meanwhile is given back.
  using RouteTextDone = std::function<void(absl::StatusOr<RouteTextAnswer>)>;
  std::function<void()> RouteText(RouteTextRequest request, RouteTextDone done);

  // Settings for the requests that come from now on (dispatch_settings.h).
  absl::Status CheckChange(const DispatchConfig& config) const;
  // REQUIRES: CheckChange(config).ok().
  void Change(const DispatchConfig& config);

  // Takes no more requests; waits until those that run have ended, but no longer than `grace`, and
  // ends the rest with an error. Blocks; not from a callback. Idempotent. The link must still work.
  void Stop(std::chrono::nanoseconds grace);

  DispatchCounters Counters() const;

 private:
  class Impl;
  const std::unique_ptr<Impl> impl_;
};

// Dispatcher::RouteText, for doors that need no more of it.
using RouteTextFunction =
    std::function<std::function<void()>(RouteTextRequest, Dispatcher::RouteTextDone)>;

// What a client gets for a status of the router: 400, 404, 429, …
int HttpStatusOf(const absl::Status& status);
// {"error":{"message":…,"type":…,"param":…,"code":…}}, as OpenAI's clients read it. `param` empty:
// null.
std::string OpenAiError(int http_status, std::string_view message, std::string_view code,
                        std::string_view param = {});

}  // namespace kvrouter

#endif  // KVROUTER_DISPATCH_DISPATCHER_H_
