#include <fmt/format.h>

#include <map>
#include <string>

#include "ctl/doctor/diagnose.h"
#include "ctl/doctor/figures.h"

namespace kvrouter::ctl {
namespace {

template <typename Visit>
void ForEachFeed(const Observations& seen, const Visit& visit) {
  for (const SeenWorker& worker : seen.workers) {
    for (const SeenFeed& feed : worker.feeds) visit(worker, feed);
  }
}

size_t FeedCount(const Observations& seen) {
  size_t feeds = 0;
  for (const SeenWorker& worker : seen.workers) feeds += worker.feeds.size();
  return feeds;
}

std::string Of(size_t part, size_t whole) { return fmt::format("{} of {} ranks", part, whole); }

void CheckStates(const Observations& seen, std::vector<Finding>* out) {
  Names none, connecting, recovering;
  std::map<std::string, Names> degraded, no_broker;  // by reason
  size_t degraded_ranks = 0;
  ForEachFeed(seen, [&](const SeenWorker& worker, const SeenFeed& feed) {
    if (feed.state == "none") none.Add(worker, feed.dp_rank);
    if (feed.state == "connecting") {
      // Without a socket of its own a rank is heard over a broker, or a stream of its publisher.
      const auto endpoints = worker.events.find(feed.dp_rank);
      const bool has_socket = endpoints != worker.events.end() && !endpoints->second.live.empty();
      (has_socket ? connecting : no_broker[feed.detail]).Add(worker, feed.dp_rank);
    }
    if (feed.state == "recovering") recovering.Add(worker, feed.dp_rank);
    if (feed.state != "degraded") return;
    ++degraded_ranks;
    degraded[feed.detail.empty() ? "no reason given" : feed.detail].Add(worker, feed.dp_rank);
  });
  const size_t all = FeedCount(seen);
  if (!none.empty()) {
    out->push_back(
        {Severity::kWarning,
         "no_event_feed",
         fmt::format("ranks {} have no event feed: they are routed to by load alone", none.Text()),
         {{"feeds in state none", Of(none.count(), all), "0"}},
         "give kv_events_endpoint (vLLM: --kv-events-config), or publish with "
         "KvEvents.Publish"});
  }
  if (!connecting.empty()) {
    out->push_back(
        {Severity::kWarning,
         "feed_not_connected",
         fmt::format("the event sockets of ranks {} cannot be reached", connecting.Text()),
         {{"feeds in state connecting", Of(connecting.count(), all), "0"}},
         "is the engine up, and does its --kv-events-config bind an address that can be "
         "reached (tcp://*:PORT, not 127.0.0.1)? Firewalls and network policies"});
  }
  for (const auto& [reason, ranks] : no_broker) {
    out->push_back({ranks.count() == all ? Severity::kCritical : Severity::kWarning,
                    "broker_down",
                    fmt::format("the event plane or stream that ranks {} are heard over is not "
                                "connected{}{}",
                                ranks.Text(), reason.empty() ? "" : ": ", reason),
                    {{"feeds in state connecting", Of(ranks.count(), all), "0"}},
                    "the broker's address and credentials (event_plane, nats_* settings), or the "
                    "publisher's KvEvents.Publish stream; the daemon goes on trying"});
  }
  if (!recovering.empty()) {
    out->push_back({Severity::kNote,
                    "feed_recovering",
                    fmt::format("ranks {} are being replayed", recovering.Text()),
                    {{"feeds in state recovering", Of(recovering.count(), all), "-"}},
                    "ends by itself; replay_timeout_ms without progress makes it degraded"});
  }
  for (const auto& [reason, ranks] : degraded) {
    out->push_back(
        {degraded_ranks == all ? Severity::kCritical : Severity::kWarning,
         "feed_degraded",
         fmt::format("ranks {} are degraded, blocks may be missing: {}", ranks.Text(), reason),
         {{"feeds in state degraded", Of(ranks.count(), all), "0"}},
         "docs/operations.md#failures; a replay_endpoint with a larger buffer_steps lets "
         "it repair itself"});
  }
}

void CheckReplay(const Observations& seen, std::vector<Finding>* out) {
  Names missing;
  for (const SeenWorker& worker : seen.workers) {
    for (const auto& [rank, endpoints] : worker.events) {
      if (!endpoints.live.empty() && endpoints.replay.empty()) missing.Add(worker, rank);
    }
  }
  if (missing.empty()) return;
  out->push_back({Severity::kWarning,
                  "replay_missing",
                  fmt::format("ranks {} have no replay endpoint: a lost message or a restart of "
                              "the router costs their whole picture",
                              missing.Text()),
                  {{"ranks without replay_endpoint", std::to_string(missing.count()), "0"}},
                  "replay_endpoint of the worker, and vLLM's --kv-events-config "
                  "'{\"replay_endpoint\":\"tcp://*:5657\"}'"});
}

// Requests are booked, the socket is connected, and nothing comes.
void CheckSilence(const Observations& seen, std::vector<Finding>* out) {
  constexpr double kEnoughTokens = 1000;  // looked up in the engine's cache
  constexpr double kEnoughRequests = 100;
  const double booked = Total(seen.metrics, "dynamo_component_router_requests_started_total");
  Names silent, empty;
  ForEachFeed(seen, [&](const SeenWorker& worker, const SeenFeed& feed) {
    if (feed.state != "live" && feed.state != "degraded") return;
    const double asked =
        worker.engine ? Total(worker.engine->metrics, "vllm:prefix_cache_queries_total") : 0;
    // Counts come with the feed's next report, blocks at once: either is a sign of life.
    const bool nothing_came = feed.events_applied == 0 && feed.index_blocks == 0;
    if (nothing_came && (asked >= kEnoughTokens || booked >= kEnoughRequests)) {
      silent.Add(worker, feed.dp_rank);
    } else if (feed.events_applied > 0 && feed.index_blocks == 0 && asked > 0 &&
               Total(worker.engine->metrics, "vllm:prefix_cache_hits_total") > 0) {
      empty.Add(worker, feed.dp_rank);
    }
  });
  if (!silent.empty()) {
    out->push_back({Severity::kCritical,
                    "silent_publisher",
                    fmt::format("ranks {} are connected and serve requests, but announce nothing",
                                silent.Text()),
                    {{"events applied", "0", "> 0"}, {"requests booked", Figure(booked), "-"}},
                    "vLLM: --kv-events-config '{\"enable_kv_cache_events\":true,...}' and "
                    "--enable-prefix-caching; is the port that of the PUB socket?"});
  }
  if (!empty.empty()) {
    out->push_back({Severity::kWarning,
                    "index_empty",
                    fmt::format("the index holds nothing of ranks {}, though their engines find "
                                "cached tokens",
                                empty.Text()),
                    {{"kvrouter_worker_index_blocks", "0", "> 0"}},
                    "kvrouter_feed_skipped_total says by reason what was not taken; compare "
                    "block_size"});
  }
}

}  // namespace

void CheckFeeds(const Observations& seen, std::vector<Finding>* out) {
  CheckStates(seen, out);
  CheckReplay(seen, out);
  CheckSilence(seen, out);
}

}  // namespace kvrouter::ctl
