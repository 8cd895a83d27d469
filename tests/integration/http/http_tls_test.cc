// The server with TLS: against OpenSSL's own sockets and Python's standard library.

#include <gtest/gtest.h>
#include <signal.h>

#include <array>
#include <atomic>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <memory>
#include <thread>
#include <vector>

#include "adapters/http/http_server.h"
#include "base/mutex.h"
#include "blocking_client.h"
#include "support/test_certificates.h"
#include "tls_blocking_client.h"

namespace kvrouter {
namespace {

using std::chrono::milliseconds;

constexpr std::string_view kGet = "GET /short HTTP/1.1\r\nHost: t\r\n\r\n";

class HttpTlsTest : public testing::Test {
 protected:
  static void SetUpTestSuite() {
    signal(SIGPIPE, SIG_IGN);  // OpenSSL's own sockets raise it
    certificates_ = new TestCertificates();
    certificates_->Make("server", "DNS:localhost,IP:127.0.0.1");
    certificates_->Make("client", "DNS:client");
  }
  static void TearDownTestSuite() {
    delete certificates_;
    certificates_ = nullptr;
  }

  static HttpServerConfig Config() {
    HttpServerConfig config;
    config.tls.certificate_file = certificates_->CertificateFile("server");
    config.tls.key_file = certificates_->KeyFile("server");
    return config;
  }
  void Start(HttpServerConfig config) {
    server_ = std::make_unique<HttpServer>(std::move(config));
    server_->Route("GET", "/short",
                   [](const HttpRequest&) { return HttpResponse{.headers = {}, .body = "short"}; });
    server_->Route("POST", "/echo", [](const HttpRequest& request) {
      return HttpResponse{.headers = {}, .body = request.body};
    });
    server_->RouteAsync("GET", "/stream",
                        [](const HttpRequest&, std::shared_ptr<HttpResponder> responder) {
                          responder->Begin({.headers = {}, .body = ""});
                          for (int i = 0; i < 1000; ++i) {
                            responder->Write("data: " + std::to_string(i) + "\n\n");
                          }
                          responder->End();
                        });
    server_->RouteAsync("GET", "/held",
                        [this](const HttpRequest&, std::shared_ptr<HttpResponder> responder) {
                          MutexLock lock(mu_);
                          held_ = std::move(responder);
                        });
    ASSERT_TRUE(server_->Start().ok());
  }
  std::shared_ptr<HttpResponder> TakeResponder() {
    std::shared_ptr<HttpResponder> taken;
    EXPECT_TRUE(Eventually([&] {
      MutexLock lock(mu_);
      if (held_ != nullptr) taken = std::move(held_);
      return taken != nullptr;
    }));
    return taken;
  }
  std::string Port() const {
    const std::string address = server_->Address();
    return address.substr(address.rfind(':') + 1);
  }
  std::string SerialNumber() const {
    const TlsBlockingClient client(server_->Address());
    EXPECT_TRUE(client.Connected());
    return client.Connected() ? client.SerialNumber() : "";
  }

  static TestCertificates* certificates_;
  Mutex mu_;
  std::shared_ptr<HttpResponder> held_ ABSL_GUARDED_BY(mu_);
  std::unique_ptr<HttpServer> server_;
};
TestCertificates* HttpTlsTest::certificates_ = nullptr;

TEST_F(HttpTlsTest, PythonsClientIsServedOnOneConnection) {
  Start(Config());
  const std::string command = "/usr/bin/python3 tests/integration/http/tls_client.py " + Port() +
                              " " + certificates_->CaFile() + " 2>&1";
  FILE* client = popen(command.c_str(), "r");
  ASSERT_NE(client, nullptr);
  std::string said;
  std::array<char, 4096> room{};
  while (fgets(room.data(), room.size(), client) != nullptr) said += room.data();
  EXPECT_EQ(pclose(client), 0);
  EXPECT_EQ(said, "ok\n");
  EXPECT_EQ(server_->Counters().connections_accepted, 1u);
  EXPECT_EQ(server_->Counters().tls_handshakes_failed, 0u);
}

// The second request is decrypted already when the first one's body has been taken: the socket does
// not tell of it.
TEST_F(HttpTlsTest, RequestsOfOneRecordAreAllAnswered) {
  Start(Config());
  TlsBlockingClient client(server_->Address());
  ASSERT_TRUE(client.Connected());
  const std::string body(12000, 'b');
  ASSERT_TRUE(client.Send("POST /echo HTTP/1.1\r\nHost: t\r\nContent-Length: 12000\r\n\r\n" + body +
                          std::string(kGet) + std::string(kGet)));
  client.ReadUntil("\r\n\r\n");
  EXPECT_EQ(client.Read(body.size()), body);
  EXPECT_NE(client.ReadUntil("short").find("200 OK"), std::string::npos);
  EXPECT_NE(client.ReadUntil("short").find("200 OK"), std::string::npos);
}

TEST_F(HttpTlsTest, ClosingAnswerEndsTheStreamCleanly) {
  Start(Config());
  TlsBlockingClient client(server_->Address());
  client.Send("GET /short HTTP/1.1\r\nHost: t\r\nConnection: close\r\n\r\n");
  EXPECT_NE(client.ReadUntil("short").find("200 OK"), std::string::npos);
  EXPECT_TRUE(client.EndedCleanly());
}

TEST_F(HttpTlsTest, PlainTextIsNotAnswered) {
  Start(Config());
  BlockingClient client(server_->Address());
  client.Send(kGet);
  EXPECT_EQ(client.ReadAll().find("HTTP/1.1 2"), std::string::npos);
  EXPECT_TRUE(Eventually([this] { return server_->Counters().connections == 0; }));
  EXPECT_EQ(server_->Counters().tls_handshakes_failed, 1u);
  EXPECT_EQ(server_->Counters().requests, 0u);
}

TEST_F(HttpTlsTest, SilentClientHasTheTimeOfARequest) {
  HttpServerConfig config = Config();
  config.read_timeout = milliseconds(100);
  Start(config);
  BlockingClient client(server_->Address());
  EXPECT_EQ(client.ReadAll(), "");
  EXPECT_TRUE(Eventually([this] { return server_->Counters().tls_handshakes_failed == 1; }));
  // In the middle of a request it is told, as in plain text.
  config.read_timeout = milliseconds(2000);  // a slow machine needs some of it for the handshake
  Start(config);
  TlsBlockingClient slow(server_->Address());
  slow.Send("GET /short HT");
  EXPECT_NE(slow.ReadUntil("\r\n\r\n").find("408"), std::string::npos);
}

TEST_F(HttpTlsTest, ClientsShowACertificateWhereItIsAsked) {
  HttpServerConfig config = Config();
  config.tls.client_ca_file = certificates_->CaFile();
  Start(config);
  TlsBlockingClient stranger(server_->Address());
  stranger.Send(kGet);  // TLS 1.3: a client learns of its refusal when it reads
  EXPECT_EQ(stranger.ReadUntil("short"), "");
  TlsBlockingClient known(server_->Address(), certificates_->CertificateFile("client"),
                          certificates_->KeyFile("client"));
  known.Send(kGet);
  EXPECT_NE(known.ReadUntil("short").find("200 OK"), std::string::npos);
  EXPECT_TRUE(Eventually([this] { return server_->Counters().tls_handshakes_failed == 1; }));
  EXPECT_EQ(server_->Counters().requests, 1u);
}

TEST_F(HttpTlsTest, ChangedCertificateIsShownToLaterClients) {
  HttpServerConfig config = Config();
  Mutex mu;
  std::vector<absl::Status> told;
  config.tls.on_reload = [&](const absl::Status& reloaded) {
    MutexLock lock(mu);
    told.push_back(reloaded);
  };
  Start(config);
  const std::string before = SerialNumber();
  TlsBlockingClient kept(server_->Address());
  certificates_->Make("server", "DNS:localhost,IP:127.0.0.1");
  EXPECT_TRUE(Eventually([&] { return SerialNumber() != before; }));
  EXPECT_EQ(server_->Counters().tls_reloads, 1u);
  const std::string after = SerialNumber();
  std::ofstream(certificates_->CertificateFile("server")) << "no certificate";
  EXPECT_TRUE(Eventually([&] {
    EXPECT_EQ(SerialNumber(), after);
    return server_->Counters().tls_reloads_failed == 1;
  }));
  certificates_->Make("server", "DNS:localhost,IP:127.0.0.1");
  EXPECT_TRUE(Eventually([&] { return SerialNumber() != after; }));
  kept.Send(kGet);
  EXPECT_NE(kept.ReadUntil("short").find("200 OK"), std::string::npos);
  server_->Stop({});
  MutexLock lock(mu);
  ASSERT_GE(told.size(), 3u);
  EXPECT_TRUE(told.front().ok());
  EXPECT_NE(told[1].message().find(certificates_->CertificateFile("server")), std::string::npos)
      << told[1];
  EXPECT_TRUE(told.back().ok());
}

TEST_F(HttpTlsTest, FilesThatCannotBeUsedAreNamedAtTheStart) {
  HttpServerConfig config = Config();
  config.tls.key_file = certificates_->KeyFile("client");
  const std::string mismatch(HttpServer(config).Start().message());
  EXPECT_NE(mismatch.find("key file " + config.tls.key_file), std::string::npos) << mismatch;
  config.tls.key_file.clear();
  const std::string none(HttpServer(config).Start().message());
  EXPECT_NE(none.find("needs a certificate file and a key file"), std::string::npos) << none;
}

TEST_F(HttpTlsTest, StreamIsPacedByItsClient) {
  Start(Config());
  TlsBlockingClient client(server_->Address(), "", "", 8192);
  client.Send("GET /held HTTP/1.1\r\nHost: t\r\n\r\n");
  const auto responder = TakeResponder();
  std::atomic<int> drained{0};
  responder->OnDrained([&drained] { drained.fetch_add(1); });
  responder->Begin({.headers = {}, .body = ""});
  const std::string piece(16384, 'p');
  size_t written_bytes = 0;
  EXPECT_TRUE(Eventually([&] {
    written_bytes += piece.size();
    return !responder->Write(piece);
  }));
  EXPECT_EQ(drained.load(), 0);
  std::thread reader([&client] { client.ReadUntil("0\r\n\r\n"); });
  EXPECT_TRUE(Eventually([&drained] { return drained.load() > 0; }));
  responder->End();
  reader.join();
}

TEST_F(HttpTlsTest, LeavingClientIsNoticed) {
  Start(Config());
  auto client = std::make_unique<TlsBlockingClient>(server_->Address());
  client->Send("GET /held HTTP/1.1\r\nHost: t\r\n\r\n");
  const auto responder = TakeResponder();
  std::atomic<bool> gone{false};
  responder->OnGone([&gone] { gone.store(true); });
  client.reset();
  EXPECT_TRUE(Eventually([&gone] { return gone.load(); }));
}

TEST_F(HttpTlsTest, ManyClientsAtOnce) {
  HttpServerConfig config = Config();
  config.threads = 4;
  Start(config);
  std::atomic<int> good{0};
  {
    std::vector<std::jthread> threads;
    for (int t = 0; t < 6; ++t) {
      threads.emplace_back([&, t] {
        for (int i = 0; i < 10; ++i) {
          TlsBlockingClient client(server_->Address());
          const std::string body(static_cast<size_t>(10000 * (t + 1)), static_cast<char>('a' + i));
          client.Send("POST /echo HTTP/1.1\r\nHost: t\r\nContent-Length: " +
                      std::to_string(body.size()) + "\r\n\r\n");
          client.Send(body);
          client.ReadUntil("\r\n\r\n");
          if (client.Read(body.size()) == body) good.fetch_add(1);
        }
      });
    }
  }
  EXPECT_EQ(good.load(), 60);
}

}  // namespace
}  // namespace kvrouter
