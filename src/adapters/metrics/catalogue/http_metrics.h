#ifndef KVROUTER_ADAPTERS_METRICS_CATALOGUE_HTTP_METRICS_H_
#define KVROUTER_ADAPTERS_METRICS_CATALOGUE_HTTP_METRICS_H_

#include <array>

#include "adapters/metrics/catalogue/row_words.h"

namespace kvrouter::catalogue {

// The HTTP doors and what they keep for the selection API.

// clang-format off
inline constexpr auto kHttpMetrics = std::to_array<MetricInfo>({
{.metric = Metric::kHttpRequests, .name = "kvrouter_http_requests_total", .type = kCounter,
 .unit = "calls", .weighting = kEach, .origin = kOurs,
 .meaning = "HTTP requests answered.",
 .moves = "With every answer, probes and scrapes included."},
{.metric = Metric::kHttpUnrouted, .name = "kvrouter_http_unrouted_total", .type = kCounter,
 .unit = "calls", .weighting = kEach, .origin = kOurs,
 .meaning = "HTTP requests of a path or method that nothing serves.",
 .moves = "With every 404 or 405 for that reason."},
{.metric = Metric::kHttpConnections, .name = "kvrouter_http_connections", .type = kGauge,
 .unit = "connections", .weighting = kLevel, .origin = kOurs,
 .meaning = "Open HTTP connections, idle ones included.",
 .moves = "With every connection that opens or closes."},
{.metric = Metric::kHttpBufferedBytes, .name = "kvrouter_http_buffered_bytes", .type = kGauge,
 .unit = "bytes", .weighting = kLevel, .origin = kOurs,
 .meaning = "Request bodies, announced ones included, and large answers that all HTTP connections "
            "hold together.",
 .moves = "With every body and every large answer that begins or ends."},
{.metric = Metric::kHttpConnectionsAccepted, .name = "kvrouter_http_connections_accepted_total",
 .type = kCounter, .unit = "connections", .weighting = kEach, .origin = kOurs,
 .meaning = "HTTP connections that clients opened, those refused at once included.",
 .moves = "With every new connection."},
{.metric = Metric::kHttpConnectionsRefused, .name = "kvrouter_http_connections_refused_total",
 .type = kCounter, .unit = "connections", .weighting = kEach, .origin = kOurs,
 .meaning = "HTTP connections closed at once: too many were open and all were busy.",
 .moves = "With every connection refused."},
{.metric = Metric::kHttpConnectionsEvicted, .name = "kvrouter_http_connections_evicted_total",
 .type = kCounter, .unit = "connections", .weighting = kEach, .origin = kOurs,
 .meaning = "HTTP connections closed while they waited for a request, to make room for a new one.",
 .moves = "With every connection closed so."},
{.metric = Metric::kHttpAcceptFailures, .name = "kvrouter_http_accept_failures_total",
 .type = kCounter, .unit = "connections", .weighting = kEach, .origin = kOurs,
 .meaning = "Attempts to take a new HTTP connection that failed, mostly for want of file "
            "descriptors.",
 .moves = "With every failure; tried again after 100 ms."},
{.metric = Metric::kHttpTimeouts, .name = "kvrouter_http_timeouts_total", .type = kCounter,
 .labels = "phase", .unit = "connections", .weighting = kEach, .origin = kOurs,
 .meaning = "HTTP connections ended by a time-out: without a next request (idle), headers or body "
            "not complete (head, body), answer not taken (write).",
 .moves = "With every connection ended so."},
{.metric = Metric::kHttpBadRequests, .name = "kvrouter_http_bad_requests_total", .type = kCounter,
 .labels = "reason", .unit = "calls", .weighting = kEach, .origin = kOurs,
 .meaning = "HTTP requests refused before they were one: malformed, or over a size limit.",
 .moves = "With every such answer."},
{.metric = Metric::kHttpBuffersFull, .name = "kvrouter_http_buffers_full_total", .type = kCounter,
 .labels = "what", .unit = "calls", .weighting = kEach, .origin = kOurs,
 .meaning = "HTTP requests answered 503 because all connections together held too much of bodies "
            "and answers: their body, or their answer, had no room.",
 .moves = "With every such answer."},
{.metric = Metric::kHttpStreamsOverflowed, .name = "kvrouter_http_streams_overflowed_total",
 .type = kCounter, .unit = "streams", .weighting = kEach, .origin = kOurs,
 .meaning = "Streamed HTTP answers cut because the client did not keep up.",
 .moves = "With every stream cut."},
{.metric = Metric::kHttpStreamsPaused, .name = "kvrouter_http_streams_paused_total",
 .type = kCounter, .unit = "pauses", .weighting = kEach, .origin = kOurs,
 .meaning = "Times a streamed HTTP answer waited for its client: 64 KiB of it were not with the "
            "kernel.",
 .moves = "With every pause of a stream whose source can wait."},
{.metric = Metric::kHttpTlsHandshakesFailed, .name = "kvrouter_http_tls_handshakes_failed_total",
 .type = kCounter, .unit = "connections", .weighting = kEach, .origin = kOurs,
 .meaning = "HTTP connections ended since they did not come to speak TLS with us: plain text, no "
            "common version, a client's certificate that is missing or not ours, or too slow.",
 .moves = "With every such connection."},
{.metric = Metric::kHttpTlsReloads, .name = "kvrouter_http_tls_reloads_total", .type = kCounter,
 .labels = "result", .unit = "reloads", .weighting = kEach, .origin = kOurs,
 .meaning = "Changed files of the OpenAI door's certificate: taken, or not usable (failed), when "
            "those before serve on.",
 .moves = "When such a change is noticed."},
{.metric = Metric::kHttpSelectionRequests, .name = "kvrouter_http_selection_requests_total",
 .type = kCounter, .labels = "method, route, status", .unit = "calls", .weighting = kEach,
 .origin = kOurs,
 .meaning = "Requests of the selection API, by route and class of the answer's status.",
 .moves = "With every answer of a route; what has no route or is no request counts elsewhere."},
{.metric = Metric::kHttpIndexerRequests, .name = "kvrouter_http_indexer_requests_total",
 .type = kCounter, .labels = "method, route, status", .unit = "calls", .weighting = kEach,
 .origin = kOurs,
 .meaning = "Requests of the indexer's API (`indexer_listen`), by route and class of the answer's "
            "status.",
 .moves = "With every answer of a route; no series while that API is not served."},
{.metric = Metric::kSelectionsCached, .name = "kvrouter_selections_cached", .type = kGauge,
 .unit = "selections", .weighting = kLevel, .origin = kOurs,
 .meaning = "Inputs of /select calls kept for a later booking by selection_id.",
 .moves = "With every /select that names an id, and when such an input is booked or leaves."},
{.metric = Metric::kSelectionsCachedBytes, .name = "kvrouter_selections_cached_bytes",
 .type = kGauge, .unit = "bytes", .weighting = kLevel, .origin = kOurs,
 .meaning = "Memory of the kept inputs of /select calls.",
 .moves = "As kvrouter_selections_cached."},
{.metric = Metric::kSelectionsEvicted, .name = "kvrouter_selections_evicted_total",
 .type = kCounter, .unit = "selections", .weighting = kEach, .origin = kOurs,
 .meaning = "Kept inputs of /select calls dropped before their time: too many, or too large.",
 .moves = "With every input dropped."},
{.metric = Metric::kSelectionsExpired, .name = "kvrouter_selections_expired_total",
 .type = kCounter, .unit = "selections", .weighting = kEach, .origin = kOurs,
 .meaning = "Kept inputs of /select calls that nobody booked in time.",
 .moves = "With every input whose time is over."},
});
// clang-format on

}  // namespace kvrouter::catalogue

#endif  // KVROUTER_ADAPTERS_METRICS_CATALOGUE_HTTP_METRICS_H_
