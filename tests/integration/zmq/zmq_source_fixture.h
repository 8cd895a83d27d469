#ifndef KVROUTER_TESTS_INTEGRATION_ZMQ_ZMQ_SOURCE_FIXTURE_H_
#define KVROUTER_TESTS_INTEGRATION_ZMQ_ZMQ_SOURCE_FIXTURE_H_

#include <gtest/gtest.h>

#include <chrono>
#include <memory>
#include <numeric>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "adapters/zmq/zmq_event_source.h"
#include "base/clock.h"
#include "integration/zmq/engine_process.h"
#include "kvrouter/router.h"
#include "service/feed_monitor.h"
#include "support/eventually.h"
#include "support/rank_views.h"

namespace kvrouter {

using std::chrono::milliseconds;
using Json = nlohmann::json;

inline constexpr WorkerId kWorker{1};

inline std::vector<TokenId> TokenRun(TokenId first, size_t count) {
  std::vector<TokenId> tokens(count);
  std::iota(tokens.begin(), tokens.end(), first);
  return tokens;
}

// A store of whole blocks of 4 tokens.
inline Json Store(Json hashes, Json parent, TokenId first_token) {
  const auto tokens = TokenRun(first_token, 4 * hashes.size());
  return {{"store", std::move(hashes)},
          {"parent", std::move(parent)},
          {"tokens", tokens},
          {"block_size", 4}};
}

// A router, an event source, and an engine of another implementation beside them.
class ZmqSourceFixture : public testing::Test {
 protected:
  ZmqSourceFixture() : router_(RouterConfig{}, nullptr) {}

  void StartSource(milliseconds replay_timeout = milliseconds(3000),
                   const Clock& clock = SteadyClock(), ReplayTurns* turns = nullptr) {
    ZmqEventSourceConfig config;
    config.threads = 2;
    config.replay_timeout = replay_timeout;
    config.reconnect_min = milliseconds(20);
    config.reconnect_max = milliseconds(100);
    source_ = std::make_unique<ZmqEventSource>(config, &router_, &monitor_, &clock, turns);
    ASSERT_TRUE(source_->Start().ok());
  }

  static WorkerSpec Spec(WorkerId id, std::vector<EventEndpoints> by_rank,
                         uint64_t incarnation = 1) {
    WorkerSpec spec;
    spec.id = id;
    spec.incarnation = Incarnation{incarnation};
    spec.address = "http://127.0.0.1:1";
    spec.block_size_tokens = 4;
    spec.dp_size = static_cast<uint32_t>(by_rank.size());
    for (uint32_t rank = 0; rank < by_rank.size(); ++rank) spec.events[rank] = by_rank[rank];
    return spec;
  }
  static EventEndpoints Endpoints(const Json& bound) { return {bound["live"], bound["replay"]}; }

  // As the registry does it: the core first.
  void Register(const WorkerSpec& spec) {
    ASSERT_TRUE(router_.UpsertWorker(spec).ok());
    source_->OnWorkerChanged(spec);
  }
  void Remove(WorkerId id, uint64_t incarnation = 1) {
    ASSERT_TRUE(router_.RemoveWorker(id));
    source_->OnWorkerRemoved(id, Incarnation{incarnation});
  }

  uint32_t Overlap(const std::vector<TokenId>& tokens, WorkerId worker = kWorker,
                   uint32_t rank = 0) {
    RouteRequest request;
    request.prompt = TokenPrompt{tokens};
    const auto overlaps = router_.FindOverlap(request);
    if (!overlaps.ok()) return 0;
    for (const TargetOverlap& overlap : *overlaps) {
      if (overlap.target == Target{worker, rank}) return overlap.device_blocks;
    }
    return 0;
  }
  uint64_t IndexBlocks(WorkerId worker = kWorker, uint32_t rank = 0) {
    return IndexBlocksOf(router_, {worker, rank});
  }
  std::optional<FeedReport> Report(WorkerId worker = kWorker, uint32_t rank = 0) {
    return ReportOf(monitor_, {worker, rank});
  }
  FeedCounters Counters(WorkerId worker = kWorker, uint32_t rank = 0) {
    const auto report = Report(worker, rank);
    return report ? report->counters : FeedCounters{};
  }
  bool InState(FeedState state, WorkerId worker = kWorker, uint32_t rank = 0) {
    const auto report = Report(worker, rank);
    return report && report->state == state;
  }

  Router router_;
  FeedMonitor monitor_;
  EngineProcess engine_;
  std::unique_ptr<ZmqEventSource> source_;
};

}  // namespace kvrouter

#endif  // KVROUTER_TESTS_INTEGRATION_ZMQ_ZMQ_SOURCE_FIXTURE_H_
