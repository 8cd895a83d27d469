#include "sim/wire/engine_metrics.h"

#include <fmt/format.h>

#include <iterator>
#include <string_view>

namespace kvrouter::sim {
namespace {

std::string EscapeLabel(std::string_view value) {
  std::string escaped;
  for (const char c : value) {
    if (c == '\\' || c == '"') escaped += '\\';
    if (c == '\n') {
      escaped += "\\n";
    } else {
      escaped += c;
    }
  }
  return escaped;
}

class ExpositionText {
 public:
  explicit ExpositionText(std::string labels) : labels_(std::move(labels)) {}

  void Counter(std::string_view name, std::string_view help, uint64_t value) {
    Family(name, help, "counter", static_cast<double>(value));
  }
  void Gauge(std::string_view name, std::string_view help, double value) {
    Family(name, help, "gauge", value);
  }
  // One gauge that is always 1: what it says is in its labels.
  void Info(std::string_view name, std::string_view help, std::string_view more_labels) {
    fmt::format_to(std::back_inserter(text_),
                   "# HELP {0} {1}\n# TYPE {0} gauge\n{0}{{{2},{3}}} 1\n", name, help, more_labels,
                   labels_);
  }
  std::string Take() { return std::move(text_); }

 private:
  void Family(std::string_view name, std::string_view help, std::string_view type, double value) {
    fmt::format_to(std::back_inserter(text_), "# HELP {0} {1}\n# TYPE {0} {2}\n{0}{{{3}}} {4}\n",
                   name, help, type, labels_, value);
  }

  std::string labels_;
  std::string text_;
};

std::string CacheConfig(const EngineSnapshot& snapshot) {
  const std::string blocks =
      snapshot.capacity_blocks == 0 ? "None" : std::to_string(snapshot.capacity_blocks);
  return fmt::format("block_size=\"{}\",enable_prefix_caching=\"True\",num_gpu_blocks=\"{}\"",
                     snapshot.block_size_tokens, blocks);
}

void AddKvTransfer(const EngineSnapshot& snapshot, ExpositionText& out) {
  out.Counter("vllm:external_prefix_cache_queries_total",
              "Prompt tokens that were to come from another engine.",
              snapshot.totals.external_query_tokens);
  out.Counter("vllm:external_prefix_cache_hits_total",
              "Prompt tokens that came from another engine.", snapshot.totals.external_tokens);
  out.Gauge("kvrouter_sim_kv_pinned_requests",
            "Finished requests whose blocks are held for others.",
            static_cast<double>(snapshot.pinned_requests));
  out.Gauge("kvrouter_sim_kv_pinned_blocks", "Blocks held for others.",
            static_cast<double>(snapshot.pinned_blocks));
  out.Counter("kvrouter_sim_kv_pins_total", "Requests whose blocks were held for others.",
              snapshot.pins.added);
  out.Counter("kvrouter_sim_kv_pins_fetched_total", "Of them, fetched or given back.",
              snapshot.pins.fetched);
  out.Counter("kvrouter_sim_kv_pins_expired_total",
              "Of them, held until the lease ended: produced for nobody.", snapshot.pins.expired);
  out.Counter("kvrouter_sim_kv_pulls_total", "Requests whose KV was asked of another engine.",
              snapshot.consumed.pulls);
  out.Counter("kvrouter_sim_kv_pulled_blocks_total", "Blocks that came from other engines.",
              snapshot.consumed.blocks);
  out.Counter("kvrouter_sim_kv_pull_failures_total", "Requests whose KV could not be fetched.",
              snapshot.consumed.failures);
  out.Counter("kvrouter_sim_kv_handshakes_incomplete_total",
              "Requests that wait for KV from a source that is not named whole.",
              snapshot.consumed.handshakes_incomplete);
}

double Usage(const EngineSnapshot& snapshot) {
  if (snapshot.capacity_blocks == 0) return 0;
  return static_cast<double>(snapshot.gauges.active_blocks) /
         static_cast<double>(snapshot.capacity_blocks);
}

}  // namespace

std::string EngineMetricsText(const EngineSnapshot& snapshot, const PublisherCounters& events,
                              const std::string& model_name, uint32_t dp_rank) {
  ExpositionText out(
      fmt::format("model_name=\"{}\",engine=\"{}\"", EscapeLabel(model_name), dp_rank));
  const EngineTotals& totals = snapshot.totals;
  const EngineGauges& gauges = snapshot.gauges;
  out.Info("vllm:cache_config_info", "What the cache was configured to.", CacheConfig(snapshot));
  out.Gauge("vllm:num_requests_running", "Requests in prefill or decode.",
            static_cast<double>(gauges.running));
  out.Gauge("vllm:num_requests_waiting", "Requests whose prefill has not started.",
            static_cast<double>(gauges.waiting));
  out.Gauge("vllm:kv_cache_usage_perc",
            "Blocks referenced by live requests, as a fraction of all (0 to 1).", Usage(snapshot));
  out.Counter("vllm:prefix_cache_queries_total", "Prompt tokens looked up in the prefix cache.",
              totals.prefix_cache_query_tokens);
  out.Counter("vllm:prefix_cache_hits_total", "Prompt tokens found in the prefix cache.",
              totals.prefix_cache_hit_tokens);
  out.Counter("vllm:request_success_total", "Requests that ended, in whatever way.",
              totals.requests_finished + totals.requests_aborted);
  out.Counter("kvrouter_sim_computed_prefill_tokens_total",
              "Prompt tokens that had to be computed.", totals.computed_prefill_tokens);
  out.Counter("kvrouter_sim_requests_finished_total", "Requests answered to their end.",
              totals.requests_finished);
  out.Counter("kvrouter_sim_requests_aborted_total", "Requests whose client left.",
              totals.requests_aborted);
  out.Counter("kvrouter_sim_requests_refused_total", "Requests answered 503: too many live ones.",
              snapshot.requests_refused);
  AddKvTransfer(snapshot, out);
  out.Gauge("kvrouter_sim_cached_blocks", "Blocks in the prefix cache.",
            static_cast<double>(gauges.cached_blocks));
  out.Counter("kvrouter_sim_event_batches_total", "Sequence numbers given to event batches.",
              events.batches);
  out.Counter("kvrouter_sim_event_batches_refused_total",
              "Batches that never reached the socket: its queue was full.", events.batches_refused);
  out.Counter("kvrouter_sim_event_batches_lost_total",
              "Batches kept from the live socket on purpose.", events.batches_lost);
  out.Gauge("kvrouter_sim_event_subscriptions", "Subscriptions that the event socket knows of.",
            static_cast<double>(events.subscriptions));
  out.Counter("kvrouter_sim_replays_total", "Replay requests answered.", events.replays);
  return out.Take();
}

}  // namespace kvrouter::sim
