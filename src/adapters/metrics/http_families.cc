#include "adapters/metrics/http_figures.h"
#include "adapters/metrics/scraped_families.h"

namespace kvrouter {

void ShowHttp(const HttpFigures& http, MetricFamilies* out) {
  out->Show(Metric::kHttpRequests, http.requests);
  out->Show(Metric::kHttpUnrouted, http.unrouted);
  out->Show(Metric::kHttpConnections, http.connections);
  out->Show(Metric::kHttpBufferedBytes, http.buffered_bytes);
  out->Show(Metric::kHttpConnectionsAccepted, http.connections_accepted);
  out->Show(Metric::kHttpConnectionsRefused, http.connections_refused);
  out->Show(Metric::kHttpConnectionsEvicted, http.connections_evicted);
  out->Show(Metric::kHttpAcceptFailures, http.accept_failures);
  out->Open(Metric::kHttpTimeouts);
  out->Add(http.idle_timeouts, {{"phase", "idle"}});
  out->Add(http.head_timeouts, {{"phase", "head"}});
  out->Add(http.body_timeouts, {{"phase", "body"}});
  out->Add(http.write_timeouts, {{"phase", "write"}});
  out->Open(Metric::kHttpBadRequests);
  out->Add(http.malformed, {{"reason", "malformed"}});
  out->Add(http.heads_too_large, {{"reason", "head_too_large"}});
  out->Add(http.bodies_too_large, {{"reason", "body_too_large"}});
  out->Open(Metric::kHttpBuffersFull);
  out->Add(http.bodies_without_room, {{"what", "body"}});
  out->Add(http.answers_without_room, {{"what", "answer"}});
  out->Show(Metric::kHttpStreamsOverflowed, http.streams_overflowed);
  out->Show(Metric::kHttpStreamsPaused, http.streams_paused);
  out->Show(Metric::kHttpTlsHandshakesFailed, http.tls_handshakes_failed);
  out->Open(Metric::kHttpTlsReloads);
  out->Add(http.tls_reloads, {{"result", "taken"}});
  out->Add(http.tls_reloads_failed, {{"result", "failed"}});
  const auto add_routes = [&](const std::vector<HttpRouteFigure>& figures) {
    for (const HttpRouteFigure& figure : figures) {
      out->Add(
          figure.answers,
          {{"method", figure.method}, {"route", figure.route}, {"status", figure.status_class}});
    }
  };
  out->Open(Metric::kHttpSelectionRequests);
  add_routes(http.selection_answers);
  add_routes(http.route_text_answers);
  out->Open(Metric::kHttpIndexerRequests);
  add_routes(http.indexer_answers);
  out->Show(Metric::kSelectionsCached, http.selections_cached);
  out->Show(Metric::kSelectionsCachedBytes, http.selections_cached_bytes);
  out->Show(Metric::kSelectionsEvicted, http.selections_evicted);
  out->Show(Metric::kSelectionsExpired, http.selections_expired);
}

}  // namespace kvrouter
