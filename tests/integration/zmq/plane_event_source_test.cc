// Dynamo's event plane over real ZMQ sockets: workers that bind a publisher each, and brokers.
#include "adapters/zmq/plane_event_source.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <chrono>
#include <memory>
#include <string>
#include <vector>
#include <zmq.hpp>

#include "support/plane_fixture.h"
#include "support/plane_payload.h"

namespace kvrouter {
namespace {

constexpr const char* kSubject = "namespace.dynamo.component.backend.endpoint.generate.kv-events";

class PlaneEventSourceTest : public PlaneFixture {
 protected:
  ~PlaneEventSourceTest() override {
    if (source_) source_->Stop();
  }

  void StartSource(const PlaneEventSourceConfig& wanted, MonotonicTime gap_wait = {}) {
    PlaneEventSourceConfig config = wanted;
    config.scope.dynamo_namespace = "dynamo";
    config.reconnect_min = std::chrono::milliseconds(20);
    config.reconnect_max = std::chrono::milliseconds(100);
    PlaneIntakeConfig intake;
    intake.feed.rank.gap_wait = gap_wait;
    MakeIntake(intake);
    source_ = std::make_unique<PlaneEventSource>(config, intake_.get());
    ASSERT_TRUE(intake_->Start().ok());
    const absl::Status status = source_->Start();
    ASSERT_TRUE(status.ok()) << status;
  }
  static std::string Bind(zmq::socket_t* socket) {
    socket->set(zmq::sockopt::linger, 0);
    socket->bind("tcp://127.0.0.1:*");
    return socket->get(zmq::sockopt::last_endpoint);
  }
  static void Send(zmq::socket_t* socket, const std::string& subject, const std::string& envelope,
                   uint64_t publisher, uint64_t sequence) {
    socket->send(zmq::buffer(subject), zmq::send_flags::sndmore);
    socket->send(zmq::buffer(BigEndian64(publisher)), zmq::send_flags::sndmore);
    socket->send(zmq::buffer(BigEndian64(sequence)), zmq::send_flags::sndmore);
    socket->send(zmq::buffer(PlaneFrame(envelope)));
  }
  // A root block named by its event's id.
  static std::string Store(uint64_t worker, uint64_t id, uint64_t publisher = 1) {
    return EventsEnvelope(
        publisher, id,
        {{.worker_id = worker, .event_id = id, .data = PlaneStored({}, {{100 + id, 100 + id}})}});
  }

  std::unique_ptr<PlaneEventSource> source_;
  zmq::context_t context_;
};

TEST_F(PlaneEventSourceTest, PublishersAreHeardEachOnASocketOfItsOwn) {
  zmq::socket_t first(context_, zmq::socket_type::xpub);
  zmq::socket_t second(context_, zmq::socket_type::xpub);
  PlaneEventSourceConfig config;
  config.publishers = {Bind(&first), Bind(&second)};
  StartSource(config);
  Register(7);
  Register(8);
  for (zmq::socket_t* socket : {&first, &second}) {
    zmq::message_t subscription;  // two of them: one per topic
    ASSERT_TRUE(socket->recv(subscription));
    ASSERT_TRUE(socket->recv(subscription));
  }
  Send(&first, "kv-events", Store(7, 0), 1, 0);
  Send(&first, "kv-events-of-another-kind", Store(7, 1), 1, 1);
  Send(&second, "kv-events", Store(8, 0, 2), 2, 0);
  Send(&second, "kv_metrics",
       EnvelopeBytes(
           2, 1, "kv_metrics",
           MsgpackWriter().Map(2).Str("worker_id").Uint(8).Str("kv_used_blocks").Uint(5).bytes()),
       2, 1);
  Send(&second, "kv-events", Store(8, 1, 2), 2, 2);
  EXPECT_TRUE(Eventually([&] { return IndexBlocks(7) == 1 && IndexBlocks(8) == 2; }));
  EXPECT_TRUE(Eventually([&] { return InState(7, FeedState::kLive); }));
  EXPECT_TRUE(Eventually([&] { return !loads_.List().empty(); }));

  // One of them goes: its rank shows it, the other's does not.
  const std::string endpoint = config.publishers[1];
  second.close();
  EXPECT_TRUE(Eventually([&] { return InState(8, FeedState::kConnecting); }));
  EXPECT_NE(Report(8)->detail.find(endpoint), std::string::npos) << Report(8)->detail;
  EXPECT_TRUE(InState(7, FeedState::kLive));
  EXPECT_EQ(IndexBlocks(8), 2u);
  // A new life of the worker at the same place.
  zmq::socket_t again(context_, zmq::socket_type::xpub);
  again.set(zmq::sockopt::linger, 0);
  ASSERT_TRUE(Eventually([&] { return zmq_bind(again.handle(), endpoint.c_str()) == 0; }));
  EXPECT_TRUE(Eventually([&] { return InState(8, FeedState::kDegraded); }));
  EXPECT_TRUE(Eventually([&] {
    Send(&again, "kv-events", Store(8, 0, 3), 3, 0);
    return IndexBlocks(8) == 1 && InState(8, FeedState::kLive);
  }));
}

TEST_F(PlaneEventSourceTest, MessagesOfAnotherShapeAreCounted) {
  zmq::socket_t socket(context_, zmq::socket_type::xpub);
  PlaneEventSourceConfig config;
  config.publishers = {Bind(&socket)};
  StartSource(config);
  Register(7);
  zmq::message_t subscription;
  ASSERT_TRUE(socket.recv(subscription));
  ASSERT_TRUE(socket.recv(subscription));
  socket.send(zmq::buffer(std::string_view("kv-events")), zmq::send_flags::sndmore);
  socket.send(zmq::buffer(std::string_view("a native engine's sequence")), zmq::send_flags::none);
  Send(&socket, "kv-events", "no envelope", 1, 0);
  const auto skipped = [this](SkipReason reason) {
    return monitor_.Totals().skipped[static_cast<size_t>(reason)];
  };
  EXPECT_TRUE(Eventually([&] { return skipped(SkipReason::kBadFraming) == 1; }));
  EXPECT_TRUE(Eventually([&] { return skipped(SkipReason::kBadEnvelope) == 1; }));
}

// An XSUB/XPUB proxy, as Dynamo's broker is. Sockets of workers are connected to its XSUB side.
class Broker {
 public:
  explicit Broker(zmq::context_t* context)
      : front_(*context, zmq::socket_type::xsub),
        back_(*context, zmq::socket_type::xpub),
        control_(*context, zmq::socket_type::pair),
        stop_(*context, zmq::socket_type::pair) {
    for (zmq::socket_t* socket : {&front_, &back_}) {
      socket->set(zmq::sockopt::linger, 0);
      socket->bind("tcp://127.0.0.1:*");
    }
    publishers_end_ = front_.get(zmq::sockopt::last_endpoint);
    subscribers_end_ = back_.get(zmq::sockopt::last_endpoint);
    const std::string address = fmt::format("inproc://{}", publishers_end_);
    control_.bind(address);
    stop_.connect(address);
    thread_ =
        std::jthread([this] { zmq::proxy_steerable(front_, back_, zmq::socket_ref(), control_); });
  }
  ~Broker() { stop_.send(zmq::buffer(std::string_view("TERMINATE")), zmq::send_flags::none); }

  const std::string& publishers_end() const { return publishers_end_; }
  const std::string& subscribers_end() const { return subscribers_end_; }

 private:
  zmq::socket_t front_;
  zmq::socket_t back_;
  zmq::socket_t control_;
  zmq::socket_t stop_;
  std::string publishers_end_;
  std::string subscribers_end_;
  std::jthread thread_;
};

TEST_F(PlaneEventSourceTest, TwoBrokersCarryEverythingAndOneIsEnough) {
  auto first = std::make_unique<Broker>(&context_);
  Broker second(&context_);
  PlaneEventSourceConfig config;
  config.brokers = {first->subscribers_end(), second.subscribers_end()};
  StartSource(config, std::chrono::seconds(60));
  Register(7);
  // One socket for each broker, so that the test decides which of them loses what.
  zmq::socket_t to_first(context_, zmq::socket_type::xpub);
  zmq::socket_t to_second(context_, zmq::socket_type::xpub);
  to_first.set(zmq::sockopt::linger, 0);
  to_second.set(zmq::sockopt::linger, 0);
  to_first.connect(first->publishers_end());
  to_second.connect(second.publishers_end());
  zmq::message_t subscription;
  ASSERT_TRUE(to_first.recv(subscription));
  ASSERT_TRUE(to_second.recv(subscription));
  EXPECT_EQ(subscription.to_string(), "\x01namespace.dynamo.");

  for (zmq::socket_t* socket : {&to_first, &to_second}) Send(socket, kSubject, Store(7, 0), 1, 0);
  ASSERT_TRUE(Eventually([&] { return IndexBlocks(7) == 1; }));
  Send(&to_first, kSubject, Store(7, 2), 1, 2);
  Send(&to_first, "namespace.dynamo.component.backend.endpoint.generate.other", Store(7, 9), 1, 9);
  EXPECT_TRUE(Eventually([&] { return InState(7, FeedState::kRecovering); }));
  Send(&to_second, kSubject, Store(7, 1), 1, 1);
  EXPECT_TRUE(Eventually([&] { return InState(7, FeedState::kLive) && IndexBlocks(7) == 3; }));
  EXPECT_EQ(monitor_.Totals().gaps, 1u);

  first.reset();
  Send(&to_second, kSubject, Store(7, 3), 1, 3);
  EXPECT_TRUE(Eventually([&] { return InState(7, FeedState::kLive) && IndexBlocks(7) == 4; }));
}

TEST(PlaneEventSourceConfigTest, EndpointsAreChecked) {
  EXPECT_FALSE(Validate(PlaneEventSourceConfig{}).ok());
  PlaneEventSourceConfig config;
  config.publishers = {"tcp://10.0.0.1:5555", "ipc:///run/x"};
  EXPECT_TRUE(Validate(config).ok());
  for (const char* bad :
       {"10.0.0.1:5555", "tcp://10.0.0.1", "tcp://:5", "tcp://h:p", "ipc://", ""}) {
    config.publishers = {bad};
    EXPECT_FALSE(Validate(config).ok()) << bad;
  }
  config.publishers = {"tcp://a:1"};
  config.brokers = {"tcp://a:2"};
  EXPECT_FALSE(Validate(config).ok());
}

}  // namespace
}  // namespace kvrouter
