// Dynamo's event plane over the real nats-server.
#include "adapters/nats/nats_event_source.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdlib>
#include <fstream>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "integration/nats/nats_credentials.h"
#include "integration/nats/nats_harness.h"

namespace kvrouter {
namespace {

using std::chrono::milliseconds;

using NatsEventSourceTest = NatsHarness;

TEST_F(NatsEventSourceTest, EventsAndLoadsOfAWorkerArrive) {
  server_.Start();
  StartSource();
  Register(7);
  ASSERT_TRUE(Eventually([&] { return source_->Read().connects == 1; }));
  NatsPublisher publisher(server_.Url());
  ASSERT_TRUE(Eventually([&] { return publisher.Connect(); }));

  const std::vector<TokenId> tokens{1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12};
  const PlaneBlocks blocks = BlocksOfTokens(tokens, 4);
  ASSERT_TRUE(publisher.Publish(
      kPlaneSubject, EventsEnvelope(1, 0, {{.event_id = 0, .data = PlaneStored({}, blocks)}})));
  ASSERT_TRUE(publisher.Publish("namespace.dynamo.component.backend.endpoint.generate.kv_metrics",
                                EnvelopeBytes(1, 0, "kv_metrics",
                                              MsgpackWriter()
                                                  .Map(2)
                                                  .Str("worker_id")
                                                  .Uint(7)
                                                  .Str("kv_used_blocks")
                                                  .Uint(298)
                                                  .bytes())));
  ASSERT_TRUE(publisher.Publish("namespace.other.component.b.endpoint.g.kv-events",
                                EventsEnvelope(1, 1, {{.event_id = 1}})));
  ASSERT_TRUE(publisher.Flush());

  ASSERT_TRUE(Eventually([&] { return IndexBlocks(7) == 3; }));
  RouteRequest request;
  request.prompt = TokenPrompt{tokens};
  const auto overlaps = router_.FindOverlap(request);
  ASSERT_TRUE(overlaps.ok());
  ASSERT_EQ(overlaps->size(), 1u);
  EXPECT_EQ((*overlaps)[0].device_blocks, 3u);
  EXPECT_TRUE(Eventually([&] { return InState(7, FeedState::kLive); }));
  ASSERT_TRUE(Eventually([&] { return !loads_.List().empty(); }));
  EXPECT_EQ(loads_.List()[0].load.kv_used_blocks, 298u);
}

TEST_F(NatsEventSourceTest, BrokerAbsentAtStartStopsNothingAndIsFoundLater) {
  StartSource();
  Register(7);
  // The failed attempts are many, and routing goes on by load.
  ASSERT_TRUE(Eventually([&] { return source_->Read().failed_connects > 60; }));
  ASSERT_TRUE(Eventually([&] { return InState(7, FeedState::kConnecting); }));
  EXPECT_NE(Detail(7).find("127.0.0.1"), std::string::npos) << Detail(7);
  RouteRequest request;
  const std::vector<TokenId> tokens(16, 1);
  request.prompt = TokenPrompt{tokens};
  EXPECT_TRUE(router_.Submit(request, SteadyClock().Now()).ok());

  server_.Start();
  ASSERT_TRUE(Eventually([&] { return source_->Read().connects == 1; }));
  NatsPublisher publisher(server_.Url());
  ASSERT_TRUE(publisher.Connect());
  PlaneRank rank(7, 1);
  ASSERT_TRUE(publisher.Publish(kPlaneSubject, rank.Store(1)));
  EXPECT_TRUE(Eventually([&] { return InState(7, FeedState::kLive); }));
  EXPECT_EQ(Held(7, 1), rank.held());
}

// The server is killed and started again while workers publish. What was lost shows, nothing is
// held that a worker does not hold, and a worker that tells all anew is known in full.
TEST_F(NatsEventSourceTest, ServerKilledUnderLoadNeverLeavesAFalseBlock) {
  constexpr uint64_t kBlocks = 64;
  constexpr uint64_t kWorkers = 3;
  server_.Start();
  StartSource();
  std::vector<PlaneRank> ranks;
  for (uint64_t worker = 0; worker < kWorkers; ++worker) {
    Register(worker);
    ranks.emplace_back(worker, 100 + worker);
  }
  ASSERT_TRUE(Eventually([&] { return source_->Read().connects == 1; }));
  NatsPublisher publisher(server_.Url());
  ASSERT_TRUE(Eventually([&] { return publisher.Connect(); }));
  std::mt19937_64 random(4711);
  const auto say_something = [&](uint64_t worker) {
    PlaneRank& rank = ranks[worker];
    const uint64_t block = 1 + random() % kBlocks;
    // What cannot be sent is lost, as with a worker whose connection is down.
    (void)publisher.Publish(kPlaneSubject,
                            rank.held().contains(block) ? rank.Remove(block) : rank.Store(block));
  };
  for (int round = 0; round < 3; ++round) {
    for (int i = 0; i < 3000; ++i) say_something(random() % kWorkers);
    server_.Kill();
    for (int i = 0; i < 300; ++i) say_something(random() % kWorkers);
    server_.Start();
    const uint64_t connects = source_->Read().connects;
    ASSERT_TRUE(Eventually([&] { return publisher.Connect(); }));
    ASSERT_TRUE(Eventually([&] { return source_->Read().connects > connects; }) ||
                source_->Read().connects > static_cast<uint64_t>(round) + 1);
    ASSERT_TRUE(
        Eventually([&] { return source_->Read().connects >= static_cast<uint64_t>(round) + 2; }));
    for (uint64_t worker = 0; worker < kWorkers; ++worker) say_something(worker);
    for (int i = 0; i < 300; ++i) say_something(random() % kWorkers);
    ASSERT_TRUE(publisher.Flush());
    for (uint64_t worker = 0; worker < kWorkers; ++worker) {
      ASSERT_TRUE(Eventually([&] { return InState(worker, FeedState::kDegraded); }))
          << Detail(worker);
    }
    // Quiet: everything has arrived when the index stands still at a subset.
    for (uint64_t worker = 0; worker < kWorkers; ++worker) {
      const std::set<uint64_t>& truth = ranks[worker].held();
      EXPECT_TRUE(Eventually([&] {
        const std::set<uint64_t> held = Held(worker, kBlocks);
        return std::includes(truth.begin(), truth.end(), held.begin(), held.end());
      }));
    }
  }
  for (PlaneRank& rank : ranks) {
    for (const std::string& message : rank.SayAllAnew())
      ASSERT_TRUE(publisher.Publish(kPlaneSubject, message));
  }
  ASSERT_TRUE(publisher.Flush());
  for (uint64_t worker = 0; worker < kWorkers; ++worker) {
    EXPECT_TRUE(Eventually([&] {
      return InState(worker, FeedState::kLive) && Held(worker, kBlocks) == ranks[worker].held();
    }));
  }
  EXPECT_GT(monitor_.Totals().gaps, 0u);
  EXPECT_GE(monitor_.Totals().reconnects, kWorkers);
}

// 10^5 messages while nothing is taken out of the queue: memory stays bounded, what was dropped is
// counted and doubted, and the fleet's next words repair it.
TEST_F(NatsEventSourceTest, FloodOfASlowConsumerIsBoundedCountedAndRepaired) {
  constexpr uint64_t kMessages = 100'000;
  constexpr uint64_t kBlocks = 200;
  server_.Start();
  PlaneIntakeConfig intake;
  intake.max_queued_messages = 1000;
  MakeSource(Config(), intake);
  Register(7);
  Register(8);
  ASSERT_TRUE(source_->Start().ok());
  ASSERT_TRUE(Eventually([&] { return source_->Read().connects == 1; }));
  NatsPublisher publisher(server_.Url());
  ASSERT_TRUE(Eventually([&] { return publisher.Connect(); }));
  PlaneRank quiet(8, 2);  // says something before and is then heard no more
  ASSERT_TRUE(publisher.Publish(kPlaneSubject, quiet.Store(1)));
  PlaneRank rank(7, 1);
  std::mt19937_64 random(4711);
  for (uint64_t i = 0; i < kMessages; ++i) {
    const uint64_t block = 1 + random() % kBlocks;
    ASSERT_TRUE(publisher.Publish(
        kPlaneSubject, rank.held().contains(block) ? rank.Remove(block) : rank.Store(block)));
    if (i % 4096 == 0) {
      ASSERT_LE(intake_->QueuedMessages(), 1002u);
    }
  }
  ASSERT_TRUE(publisher.Flush());
  EXPECT_TRUE(Eventually([&] { return intake_->QueuedMessages() >= 1000; }));
  ASSERT_TRUE(intake_->Start().ok());
  ASSERT_TRUE(Eventually([&] { return monitor_.Totals().live_dropped > kMessages / 2; }));
  EXPECT_TRUE(Eventually(
      [&] { return InState(7, FeedState::kDegraded) && InState(8, FeedState::kDegraded); }));
  EXPECT_NE(Detail(8).find("dropped"), std::string::npos) << Detail(8);

  ASSERT_TRUE(publisher.Publish(kPlaneSubject, quiet.Store(2)));  // nothing of it was lost
  for (const std::string& message : rank.SayAllAnew())
    ASSERT_TRUE(publisher.Publish(kPlaneSubject, message));
  ASSERT_TRUE(publisher.Flush());
  EXPECT_TRUE(Eventually([&] {
    return InState(7, FeedState::kLive) && Held(7, kBlocks) == rank.held();
  })) << Detail(7);
  EXPECT_TRUE(Eventually([&] { return InState(8, FeedState::kLive); })) << Detail(8);
  EXPECT_EQ(Held(8, 2), quiet.held());
}

TEST_F(NatsEventSourceTest, MessagesThatTheLibraryDropsAreCounted) {
  server_.Start();
  NatsEventSourceConfig config = Config();
  config.max_pending_messages = 1;
  StartSource(config);
  Register(7);
  ASSERT_TRUE(Eventually([&] { return source_->Read().connects == 1; }));
  NatsPublisher publisher(server_.Url());
  ASSERT_TRUE(Eventually([&] { return publisher.Connect(); }));
  PlaneRank rank(7, 1);
  EXPECT_TRUE(Eventually([&] {
    for (int i = 0; i < 1000; ++i) (void)publisher.Publish(kPlaneSubject, rank.Store(1));
    return publisher.Flush() && monitor_.Totals().live_dropped > 0;
  }));
  EXPECT_TRUE(Eventually([&] { return InState(7, FeedState::kDegraded); })) << Detail(7);
}

TEST_F(NatsEventSourceTest, FrozenServerIsGivenUpByPings) {
  server_.Start();
  NatsEventSourceConfig config = Config();
  config.ping_interval = milliseconds(100);
  StartSource(config);
  Register(7);
  ASSERT_TRUE(Eventually([&] { return source_->Read().connects == 1; }));
  const uint64_t failed_before = source_->Read().failed_connects;  // while the server started
  server_.Freeze();
  EXPECT_TRUE(Eventually([&] { return source_->Read().failed_connects > failed_before; }));
  EXPECT_TRUE(Eventually([&] { return InState(7, FeedState::kConnecting); }));
  server_.Thaw();
  EXPECT_TRUE(Eventually([&] { return source_->Read().connects >= 2; }));
}

TEST_F(NatsEventSourceTest, SecondServerIsUsedWhenTheFirstIsNotThere) {
  server_.Start();
  NatsEventSourceConfig config = Config();
  config.servers = {fmt::format("nats://127.0.0.1:{}", FreePort()), server_.Url()};
  StartSource(config);
  EXPECT_TRUE(Eventually([&] { return source_->Read().connects == 1; }));
}

TEST_F(NatsEventSourceTest, StopDoesNotWaitForAServer) {
  StartSource();
  ASSERT_TRUE(Eventually([&] { return source_->Read().failed_connects > 0; }));
  const auto before = std::chrono::steady_clock::now();
  source_->Stop();
  EXPECT_LT(std::chrono::steady_clock::now() - before, std::chrono::seconds(4));
}

class NatsCredentialsTest : public NatsHarness {
 protected:
  // With the right credentials it connects; with the others the refusal shows, and attempts go on.
  void ExpectOnlyTheFirst(const NatsEventSourceConfig& right,
                          const std::vector<NatsEventSourceConfig>& wrong) {
    for (const NatsEventSourceConfig& config : wrong) {
      StartSource(config);
      Register(7);
      EXPECT_TRUE(Eventually([&] { return source_->Read().failed_connects > 3; }));
      EXPECT_EQ(source_->Read().connects, 0u);
      EXPECT_TRUE(Eventually([&] { return Detail(7).find("uthorization") != std::string::npos; }))
          << Detail(7);
      EXPECT_EQ(Detail(7).find("secret"), std::string::npos) << Detail(7);
      source_->Stop();
      intake_->Stop();
      monitor_.Remove({WorkerId{7}, 0}, FeedSource::kEventPlane);
    }
    StartSource(right);
    EXPECT_TRUE(Eventually([&] { return source_->Read().connects > 0; }));
    EXPECT_EQ(source_->Read().failed_connects, 0u);
  }
  void AwaitServer() {
    ASSERT_TRUE(
        Eventually([&] { return server_.Log().find("Server is ready") != std::string::npos; }));
  }
};

TEST_F(NatsCredentialsTest, UserAndPassword) {
  server_.Start("authorization { user: u, password: secret }");
  AwaitServer();
  NatsEventSourceConfig right = Config();
  right.username = "u";
  right.password = "secret";
  NatsEventSourceConfig wrong = right;
  wrong.password = "secret2";
  NatsEventSourceConfig in_url = Config();
  in_url.servers = {server_.Url("u:secret3@")};
  ExpectOnlyTheFirst(right, {wrong, Config(), in_url});
}

TEST_F(NatsCredentialsTest, UserInTheUrl) {
  server_.Start("authorization { user: u, password: secret }");
  AwaitServer();
  NatsEventSourceConfig right = Config();
  right.servers = {server_.Url("u:secret@")};
  ExpectOnlyTheFirst(right, {});
}

TEST_F(NatsCredentialsTest, Token) {
  server_.Start("authorization { token: secret }");
  AwaitServer();
  NatsEventSourceConfig right = Config();
  right.token = "secret";
  NatsEventSourceConfig wrong = right;
  wrong.token = "secret2";
  ExpectOnlyTheFirst(right, {wrong});
}

TEST_F(NatsCredentialsTest, CredentialsFile) {
  const NatsCredentials credentials = MakeNatsCredentials();
  server_.Start(credentials.server_config);
  AwaitServer();
  const auto with_file = [this](const std::string& name, const std::string& text) {
    NatsEventSourceConfig config = Config();
    config.credentials_file = server_.File(name);
    std::ofstream(config.credentials_file) << text;
    return config;
  };
  ExpectOnlyTheFirst(with_file("right.creds", credentials.file),
                     {with_file("wrong.creds", MakeNatsCredentials().file), Config()});
}

// Seed and key as NATS' own documentation prints them; the server checks the signature.
TEST_F(NatsCredentialsTest, Nkey) {
  server_.Start(
      "authorization { users: [ { nkey: UDXU4RCSJNZOIQHZNWXHXORDPRTGNJAHAHFRGZNEEJCPQTT2M7NLCNF4 } "
      "] "
      "}");
  AwaitServer();
  NatsEventSourceConfig right = Config();
  right.nkey_seed = "SUACSSL3UAHUDXKFSNVUZRF5UHPMWZ6BFDTJ7M6USDXIEDNPPQYYYCU3VY";
  ExpectOnlyTheFirst(right, {Config()});
}

TEST_F(NatsCredentialsTest, SubscriptionThatIsNotAllowedShows) {
  server_.Start(
      "authorization { users: [ { user: u, password: p, permissions: { subscribe: \"other\" } } ] "
      "}");
  AwaitServer();
  NatsEventSourceConfig config = Config();
  config.username = "u";
  config.password = "p";
  StartSource(config);
  Register(7);
  EXPECT_TRUE(Eventually([&] { return Detail(7).find("ermissions") != std::string::npos; }))
      << Detail(7);
}

// It lets us connect, so nothing but the wait between the attempts spares it.
TEST_F(NatsCredentialsTest, AServerThatRefusesSubscriptionsIsAskedAtGrowingIntervals) {
  server_.Start(
      "authorization { users: [ { user: u, password: p, permissions: { subscribe: \"other\" } } ] "
      "}");
  AwaitServer();
  NatsEventSourceConfig config = Config();
  config.username = "u";
  config.password = "p";
  config.reconnect_min = milliseconds(40);
  config.reconnect_max = milliseconds(10'000);
  const MonotonicTime begin = SteadyClock().Now();
  StartSource(config);
  ASSERT_TRUE(Eventually([&] { return source_->Read().connects >= 6; }));
  // 40, 80, ... 640 ms, up to half of it less for the jitter.
  EXPECT_GE(SteadyClock().Now() - begin, milliseconds(620));
}

class NatsTlsTest : public NatsCredentialsTest {
 protected:
  // A CA, and a server certificate for the names given, by the openssl command.
  void MakeCertificates(const std::string& subject_names) {
    const std::string dir = server_.File("");
    const std::string script = fmt::format(
        "cd {} && "
        "openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 2 -subj /CN=ca "
        "-keyout ca.key -out ca.pem && "
        "openssl req -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -subj /CN=server "
        "-keyout server.key -out server.csr && "
        "printf 'subjectAltName={}' > san && "
        "openssl x509 -req -in server.csr -CA ca.pem -CAkey ca.key -CAcreateserial -days 2 "
        "-extfile san -out server.pem && "
        "openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 2 "
        "-subj /CN=other -keyout other.key -out other.pem",
        dir, subject_names);
    ASSERT_EQ(std::system(fmt::format("({}) >/dev/null 2>&1", script).c_str()), 0);
  }
  void StartServer() {
    server_.Start(fmt::format("tls {{ cert_file: \"{}\", key_file: \"{}\", timeout: 20 }}",
                              server_.File("server.pem"), server_.File("server.key")));
    AwaitServer();
  }
  // What the attempts fail with.
  void ExpectRefused(const NatsEventSourceConfig& config) {
    StartSource(config);
    Register(7);
    EXPECT_TRUE(Eventually([&] { return source_->Read().failed_connects > 2; }));
    EXPECT_EQ(source_->Read().connects, 0u);
    EXPECT_TRUE(Eventually([&] { return InState(7, FeedState::kConnecting); }));
    source_->Stop();
    intake_->Stop();
  }
};

TEST_F(NatsTlsTest, CertificateOfTheGivenAuthorityIsTrustedAndNoOther) {
  ASSERT_NO_FATAL_FAILURE(MakeCertificates("IP:127.0.0.1,DNS:localhost"));
  StartServer();
  NatsEventSourceConfig wrong_authority = Config();
  wrong_authority.tls_ca_cert_path = server_.File("other.pem");
  ExpectRefused(wrong_authority);
  NatsEventSourceConfig systems_own = Config();
  systems_own.servers = {fmt::format("tls://127.0.0.1:{}", server_.port())};
  ExpectRefused(systems_own);

  for (const char* host : {"127.0.0.1", "localhost"}) {
    NatsEventSourceConfig right = Config();
    right.tls_ca_cert_path = server_.File("ca.pem");
    right.servers = {fmt::format("nats://{}:{}", host, server_.port())};
    StartSource(right);
    EXPECT_TRUE(Eventually([&] { return source_->Read().connects == 1; })) << host;
    source_->Stop();
  }
}

TEST_F(NatsTlsTest, CertificateOfAnotherHostIsRefusedUnlessUnchecked) {
  ASSERT_NO_FATAL_FAILURE(MakeCertificates("DNS:elsewhere"));
  StartServer();
  NatsEventSourceConfig config = Config();
  config.tls_ca_cert_path = server_.File("ca.pem");
  ExpectRefused(config);
  NatsEventSourceConfig unchecked = Config();
  unchecked.tls_insecure = true;
  StartSource(unchecked);
  EXPECT_TRUE(Eventually([&] { return source_->Read().connects == 1; }));
}

TEST(NatsSettingsTest, UnusableSettingsAreNamedAndSecretsAreNot) {
  const auto refusal = [](const auto& change) {
    NatsEventSourceConfig config;
    config.subjects = {"s"};
    change(&config);
    return std::string(Validate(config).message());
  };
  EXPECT_EQ(refusal([](NatsEventSourceConfig*) {}), "");
  EXPECT_NE(refusal([](auto* c) { c->servers = {}; }).find("nats_server"), std::string::npos);
  EXPECT_NE(refusal([](auto* c) { c->servers = {"nats://u:hush-hush@"}; }).find("no host"),
            std::string::npos);
  EXPECT_NE(refusal([](auto* c) { c->nkey_seed = "hush-hush"; }).find("nats_auth_nkey"),
            std::string::npos);
  EXPECT_NE(refusal([](auto* c) { c->credentials_file = "/nowhere"; }).find("/nowhere"),
            std::string::npos);
  EXPECT_NE(
      refusal([](auto* c) { c->tls_ca_cert_path = "/nowhere"; }).find("nats_tls_ca_cert_path"),
      std::string::npos);
  EXPECT_NE(refusal([](auto* c) { c->password = "hush-hush"; }).find("nats_auth_username"),
            std::string::npos);
  EXPECT_NE(refusal([](auto* c) { c->username = "u", c->token = "hush-hush"; }).find("exclude"),
            std::string::npos);
  for (const auto& text : {refusal([](auto* c) { c->servers = {"nats://u:hush-hush@"}; }),
                           refusal([](auto* c) { c->nkey_seed = "hush-hush"; }),
                           refusal([](auto* c) { c->password = "hush-hush"; })}) {
    EXPECT_EQ(text.find("hush-hush"), std::string::npos) << text;
  }
}

}  // namespace
}  // namespace kvrouter
