#ifndef KVROUTER_TESTS_INTEGRATION_NATS_NATS_HARNESS_H_
#define KVROUTER_TESTS_INTEGRATION_NATS_NATS_HARNESS_H_

#include <gtest/gtest.h>
#include <nats/nats.h>

#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "adapters/nats/nats_event_source.h"
#include "base/clock.h"
#include "integration/nats/nats_server_process.h"
#include "kvrouter/router.h"
#include "service/feed_monitor.h"
#include "service/plane_intake.h"
#include "service/reported_loads.h"
#include "support/plane_payload.h"

namespace kvrouter {

inline constexpr const char* kPlaneSubject =
    "namespace.dynamo.component.backend.endpoint.generate.kv-events";

// A connection of its own for publishing, as workers have.
class NatsPublisher {
 public:
  explicit NatsPublisher(const std::string& url) : url_(url) {}
  ~NatsPublisher() { natsConnection_Destroy(connection_); }
  NatsPublisher(const NatsPublisher&) = delete;
  NatsPublisher& operator=(const NatsPublisher&) = delete;

  bool Connect() {
    natsConnection_Destroy(connection_);
    connection_ = nullptr;
    return natsConnection_ConnectTo(&connection_, url_.c_str()) == NATS_OK;
  }
  bool Publish(const std::string& subject, const std::string& bytes) {
    return connection_ != nullptr &&
           natsConnection_Publish(connection_, subject.c_str(), bytes.data(),
                                  static_cast<int>(bytes.size())) == NATS_OK;
  }
  bool Flush() {
    return connection_ != nullptr && natsConnection_FlushTimeout(connection_, 20000) == NATS_OK;
  }

 private:
  const std::string url_;
  natsConnection* connection_ = nullptr;
};

// What one rank's worker holds and says. Root blocks whose names are their contents.
class PlaneRank {
 public:
  PlaneRank(uint64_t worker_id, uint64_t publisher_id)
      : worker_id_(worker_id), publisher_id_(publisher_id) {}

  std::string Store(uint64_t block) {
    held_.insert(block);
    return Say(PlaneStored({}, {{block, block}}));
  }
  std::string Remove(uint64_t block) {
    held_.erase(block);
    return Say(PlaneRemoved({block}));
  }
  std::string Clear() {
    held_.clear();
    return Say(PlaneCleared());
  }
  // A worker that has just been started, or cleared its cache.
  std::vector<std::string> SayAllAnew() {
    const std::set<uint64_t> held = held_;
    std::vector<std::string> messages{Clear()};
    for (const uint64_t block : held) messages.push_back(Store(block));
    return messages;
  }
  const std::set<uint64_t>& held() const { return held_; }

 private:
  std::string Say(const std::string& data) {
    return EventsEnvelope(publisher_id_, sequence_++,
                          {{.worker_id = worker_id_, .event_id = next_id_++, .data = data}});
  }

  const uint64_t worker_id_;
  const uint64_t publisher_id_;
  std::set<uint64_t> held_;
  uint64_t next_id_ = 0;
  uint64_t sequence_ = 0;
};

// Core, intake and source around a server that may or may not be there.
class NatsHarness : public testing::Test {
 protected:
  NatsHarness() : router_(RouterConfig{}, nullptr) {}
  ~NatsHarness() override {
    if (source_) source_->Stop();
    if (intake_) intake_->Stop();
  }

  NatsEventSourceConfig Config() const {
    NatsEventSourceConfig config;
    config.servers = {server_.Url()};
    config.subjects = {"namespace.dynamo.component.*.endpoint.*.kv-events",
                       "namespace.dynamo.component.*.endpoint.*.kv_metrics"};
    config.reconnect_min = std::chrono::milliseconds(5);
    config.reconnect_max = std::chrono::milliseconds(20);
    return config;
  }
  void MakeSource(const NatsEventSourceConfig& config, const PlaneIntakeConfig& intake = {}) {
    intake_ = std::make_unique<PlaneIntake>(intake, &router_, &monitor_, &loads_, &SteadyClock());
    source_ = std::make_unique<NatsEventSource>(config, intake_.get());
  }
  void StartSource(const NatsEventSourceConfig& config, const PlaneIntakeConfig& intake = {}) {
    MakeSource(config, intake);
    ASSERT_TRUE(intake_->Start().ok());
    const absl::Status status = source_->Start();
    ASSERT_TRUE(status.ok()) << status;
  }
  void StartSource() { StartSource(Config()); }

  void Register(uint64_t id, uint64_t incarnation = 1) {
    WorkerSpec spec;
    spec.id = WorkerId{id};
    spec.incarnation = Incarnation{incarnation};
    spec.address = "http://127.0.0.1:1";
    spec.block_size_tokens = 4;
    ASSERT_TRUE(router_.UpsertWorker(spec).ok());
    intake_->OnWorkerChanged(spec);
  }

  // Blocks 1..limit that the index believes the worker holds, each at the start of a prompt.
  std::set<uint64_t> Held(uint64_t worker, uint64_t limit) {
    std::set<uint64_t> held;
    for (uint64_t block = 1; block <= limit; ++block) {
      RouteRequest request;
      const std::vector<LocalBlockHash> local{LocalBlockHash{block}};
      const std::vector<SequenceHash> sequence{SequenceHash{block}};
      request.prompt =
          HashPrompt{.local_hashes = local, .sequence_hashes = sequence, .isl_tokens = 4};
      const auto overlaps = router_.FindOverlap(request);
      if (!overlaps.ok()) continue;
      for (const TargetOverlap& overlap : *overlaps) {
        if (overlap.target.worker == WorkerId{worker} && overlap.device_blocks == 1)
          held.insert(block);
      }
    }
    return held;
  }
  uint64_t IndexBlocks(uint64_t worker) {
    for (const PartitionSnapshot& partition : router_.Snapshot()) {
      for (const TargetLoad& load : partition.loads) {
        if (load.target.worker == WorkerId{worker}) return load.index_blocks;
      }
    }
    return 0;
  }
  std::optional<FeedReport> Report(uint64_t worker) {
    for (const FeedReport& report : monitor_.Reports()) {
      if (report.target.worker == WorkerId{worker}) return report;
    }
    return std::nullopt;
  }
  bool InState(uint64_t worker, FeedState state) {
    const auto report = Report(worker);
    return report && report->state == state;
  }
  std::string Detail(uint64_t worker) {
    const auto report = Report(worker);
    return report ? report->detail : "no report";
  }

  static bool Eventually(const std::function<bool()>& condition,
                         std::chrono::milliseconds deadline = std::chrono::seconds(30)) {
    const auto until = std::chrono::steady_clock::now() + deadline;
    while (!condition()) {
      if (std::chrono::steady_clock::now() > until) return false;
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
    }
    return true;
  }

  NatsServerProcess server_;
  Router router_;
  FeedMonitor monitor_;
  ReportedLoads loads_;
  std::unique_ptr<PlaneIntake> intake_;
  std::unique_ptr<NatsEventSource> source_;
};

}  // namespace kvrouter

#endif  // KVROUTER_TESTS_INTEGRATION_NATS_NATS_HARNESS_H_
