#ifndef KVROUTER_TESTS_INTEGRATION_NATS_NATS_HARNESS_H_
#define KVROUTER_TESTS_INTEGRATION_NATS_NATS_HARNESS_H_

#include <nats/nats.h>

#include <chrono>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "adapters/nats/nats_event_source.h"
#include "integration/nats/nats_server_process.h"
#include "support/plane_fixture.h"
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
class NatsHarness : public PlaneFixture {
 protected:
  ~NatsHarness() override {
    if (source_) source_->Stop();
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
  void MakeSource(const NatsEventSourceConfig& config, const PlaneIntakeConfig& intake = {},
                  std::vector<const RankHistory*> histories = {}) {
    MakeIntake(intake, std::move(histories));
    source_ = std::make_unique<NatsEventSource>(config, intake_.get());
  }
  void StartSource(const NatsEventSourceConfig& config, const PlaneIntakeConfig& intake = {},
                   std::vector<const RankHistory*> histories = {}) {
    MakeSource(config, intake, std::move(histories));
    ASSERT_TRUE(intake_->Start().ok());
    const absl::Status status = source_->Start();
    ASSERT_TRUE(status.ok()) << status;
  }
  void StartSource() { StartSource(Config()); }

  NatsServerProcess server_;
  std::unique_ptr<NatsEventSource> source_;
};

}  // namespace kvrouter

#endif  // KVROUTER_TESTS_INTEGRATION_NATS_NATS_HARNESS_H_
