#ifndef KVROUTER_ADAPTERS_METRICS_HTTP_FIGURES_H_
#define KVROUTER_ADAPTERS_METRICS_HTTP_FIGURES_H_

#include <cstdint>
#include <string>
#include <vector>

namespace kvrouter {

// Answers of one route of an API.
struct HttpRouteFigure {
  std::string method;
  std::string route;
  std::string status_class;  // "2xx", "4xx", "5xx"
  uint64_t answers = 0;
};

// What the HTTP doors count together, handed over by the daemon since adapters do not know each
// other.
struct HttpFigures {
  uint64_t requests = 0;
  uint64_t unrouted = 0;
  uint64_t connections = 0;
  uint64_t buffered_bytes = 0;
  uint64_t connections_accepted = 0;
  uint64_t connections_refused = 0;
  uint64_t connections_evicted = 0;
  uint64_t accept_failures = 0;
  uint64_t idle_timeouts = 0;
  uint64_t head_timeouts = 0;
  uint64_t body_timeouts = 0;
  uint64_t write_timeouts = 0;
  uint64_t malformed = 0;
  uint64_t heads_too_large = 0;
  uint64_t bodies_too_large = 0;
  uint64_t bodies_without_room = 0;
  uint64_t answers_without_room = 0;
  uint64_t streams_overflowed = 0;
  uint64_t streams_paused = 0;
  uint64_t tls_handshakes_failed = 0;
  uint64_t tls_reloads = 0;
  uint64_t tls_reloads_failed = 0;
  std::vector<HttpRouteFigure> selection_answers;
  std::vector<HttpRouteFigure> indexer_answers = {};  // none if that API is not served
  std::vector<HttpRouteFigure> route_text_answers = {};
  // Of the selection API's cache of /select inputs.
  uint64_t selections_cached = 0;
  uint64_t selections_cached_bytes = 0;
  uint64_t selections_evicted = 0;
  uint64_t selections_expired = 0;
};

}  // namespace kvrouter

#endif  // KVROUTER_ADAPTERS_METRICS_HTTP_FIGURES_H_
