#include "adapters/metrics/http_figures.h"
#include "adapters/metrics/scraped_families.h"

namespace kvrouter {

void ShowHttp(const HttpFigures& http, MetricFamilies* out) {
  out->Show(Metric::kHttpRequests, http.requests);
  out->Show(Metric::kHttpConnectionsRefused, http.connections_refused);
  out->Show(Metric::kHttpTimeouts, http.timeouts);
  out->Show(Metric::kHttpBadRequests, http.bad_requests);
  out->Show(Metric::kHttpStreamsOverflowed, http.streams_overflowed);
  out->Open(Metric::kHttpSelectionRequests);
  for (const HttpRouteFigure& figure : http.selection_answers) {
    out->Add(figure.answers,
             {{"method", figure.method}, {"route", figure.route}, {"status", figure.status_class}});
  }
  out->Show(Metric::kSelectionsCached, http.selections_cached);
  out->Show(Metric::kSelectionsCachedBytes, http.selections_cached_bytes);
  out->Show(Metric::kSelectionsEvicted, http.selections_evicted);
  out->Show(Metric::kSelectionsExpired, http.selections_expired);
}

}  // namespace kvrouter
