#include "ctl/doctor/gather.h"

#include <algorithm>
#include <atomic>
#include <map>
#include <nlohmann/json.hpp>
#include <string_view>
#include <thread>
#include <utility>

#include "client/http_get.h"
#include "client/router_client.h"

namespace kvrouter::ctl {
namespace {

using std::chrono::milliseconds;
using std::chrono::steady_clock;

std::string Text(const absl::Status& status) {
  return {status.message().data(), status.message().size()};
}

// Runs `ask` and remembers the slowest.
template <typename Ask>
auto Timed(Observations* seen, const Ask& ask) {
  const auto begin = steady_clock::now();
  auto answer = ask();
  const auto took = std::chrono::duration_cast<milliseconds>(steady_clock::now() - begin);
  if (answer.ok()) seen->slowest_answer = std::max(seen->slowest_answer, took);
  return answer;
}

SeenWorker ToSeen(const v1::Worker& worker) {
  const v1::WorkerSpec& spec = worker.spec();
  SeenWorker seen{.worker_id = spec.worker_id(),
                  .model_name = spec.model_name(),
                  .routing_group = spec.routing_group(),
                  .address = spec.address(),
                  .block_size_tokens = spec.block_size_tokens(),
                  .draining = worker.draining(),
                  .events = {},
                  .feeds = {},
                  .engine = {}};
  for (const auto& [rank, endpoints] : spec.events())
    seen.events[rank] = {.live = endpoints.live(), .replay = endpoints.replay()};
  for (const v1::FeedStatus& feed : worker.feeds()) {
    seen.feeds.push_back({.dp_rank = feed.dp_rank(),
                          .state = feed.state(),
                          .detail = feed.detail(),
                          .index_blocks = feed.index_blocks(),
                          .events_applied = feed.events_applied()});
  }
  return seen;
}

void AskReady(const Connection& connection, Observations* seen) {
  const auto answer =
      Timed(seen, [&] { return client::HttpFetch(connection.http, "/ready", connection.timeout); });
  if (!answer.ok()) {
    seen->http_error = Text(answer.status());
    return;
  }
  if (answer->status != 200 && answer->status != 503) return;  // no kvrouterd
  seen->ready = answer->status == 200;
  const auto json = nlohmann::json::parse(answer->body, nullptr, /*allow_exceptions=*/false);
  if (json.is_object() && json.contains("error") && json["error"].is_string())
    seen->not_ready_reason = json["error"].get<std::string>();
}

std::vector<client::Sample> AskMetrics(const Connection& connection, Observations* seen) {
  const auto text =
      Timed(seen, [&] { return client::HttpGet(connection.http, "/metrics", connection.timeout); });
  if (text.ok()) return client::ParseExposition(*text);
  seen->http_error = Text(text.status());
  return {};
}

SeenEngine AskEngine(const std::string& host_port, milliseconds timeout) {
  SeenEngine engine;
  const auto health = client::HttpFetch(host_port, "/health", timeout);
  if (!health.ok()) {
    engine.error = Text(health.status());
    return engine;
  }
  engine.health_status = health->status;
  const auto metrics = client::HttpFetch(host_port, "/metrics", timeout);
  if (metrics.ok() && metrics->status == 200)
    engine.metrics = client::ParseExposition(metrics->body);
  return engine;
}

void AskWorkers(milliseconds timeout, std::vector<SeenWorker>* workers) {
  std::atomic<size_t> next{0};
  const auto ask = [&] {
    for (size_t i = next++; i < workers->size(); i = next++) {
      SeenWorker& worker = (*workers)[i];
      if (const auto host_port = HostPortOf(worker.address))
        worker.engine = AskEngine(*host_port, timeout);
    }
  };
  std::vector<std::jthread> threads;
  for (size_t i = 0; i < std::min(kWorkersAtOnce, workers->size()); ++i) threads.emplace_back(ask);
}

}  // namespace

std::optional<std::string> HostPortOf(const std::string& address) {
  constexpr std::string_view kScheme = "http://";
  if (address.compare(0, kScheme.size(), kScheme) != 0) return std::nullopt;
  const std::string rest = address.substr(kScheme.size());
  std::string host_port = rest.substr(0, rest.find_first_of("/?#"));
  if (host_port.empty() || host_port.find('@') != std::string::npos) return std::nullopt;
  const size_t colon = host_port.rfind(':');
  const size_t bracket = host_port.rfind(']');
  const bool has_port =
      colon != std::string::npos && (bracket == std::string::npos || colon > bracket);
  return has_port ? host_port : host_port + ":80";
}

std::vector<client::Sample> CountedSince(const std::vector<client::Sample>& earlier,
                                         std::vector<client::Sample> later) {
  using Key = std::pair<std::string, std::map<std::string, std::string>>;
  const auto counts = [](const std::string& name) {
    const std::string_view text = name;
    return text.ends_with("_total") || text == "dynamo_component_kv_cache_events_applied" ||
           text == "dynamo_component_kv_cache_event_warnings";
  };
  std::map<Key, double> before;
  for (const client::Sample& sample : earlier) {
    if (counts(sample.name)) before[{sample.name, sample.labels}] = sample.value;
  }
  for (client::Sample& sample : later) {
    const auto known = before.find({sample.name, sample.labels});
    if (known != before.end() && known->second <= sample.value) sample.value -= known->second;
  }
  return later;
}

Observations Gather(const Connection& connection, const DoctorOptions& options) {
  Observations seen;
  seen.grpc_address = connection.grpc;
  seen.http_address = connection.http;
  std::vector<client::Sample> before;
  if (options.window.count() > 0) {
    before = AskMetrics(connection, &seen);
    if (seen.http_error.empty()) std::this_thread::sleep_for(options.window);
  }
  if (seen.http_error.empty()) AskReady(connection, &seen);
  if (seen.http_error.empty()) seen.metrics = AskMetrics(connection, &seen);
  seen.recent = CountedSince(before, seen.metrics);
  seen.now_unix_seconds =
      std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();

  client::RouterClient client(connection.grpc, connection.timeout);
  const auto workers = Timed(&seen, [&] { return client.ListWorkers(); });
  if (!workers.ok()) {
    seen.grpc_error = Text(workers.status());
    return seen;
  }
  for (const v1::Worker& worker : workers->workers()) seen.workers.push_back(ToSeen(worker));
  if (!options.skip_workers) {
    constexpr milliseconds kLongest{2000};  // a thousand dead workers must not take an hour
    AskWorkers(std::min(connection.timeout, kLongest), &seen.workers);
  }
  return seen;
}

}  // namespace kvrouter::ctl
