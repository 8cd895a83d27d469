#include <gmock/gmock.h>

#include "link_fixture.h"
#include "std_engine_process.h"
#include "support/test_certificates.h"

// Against Python's http.server, in plain text and with TLS.

namespace kvrouter {
namespace {

using std::chrono::milliseconds;
using testing::HasSubstr;

class StdEngineTest : public LinkFixture {
 protected:
  static void SetUpTestSuite() {
    certificates_ = new TestCertificates();
    certificates_->Make("engine", "DNS:localhost,IP:127.0.0.1");
    certificates_->Make("elsewhere", "DNS:elsewhere.example,IP:127.0.0.2");
    certificates_->Make("router", "DNS:router");
    certificates_->MakeAuthority("stranger");
  }
  static void TearDownTestSuite() {
    delete certificates_;
    certificates_ = nullptr;
  }

  static std::vector<std::string> Serving(const std::string& name) {
    return {"--certificate", certificates_->CertificateFile(name), "--key",
            certificates_->KeyFile(name)};
  }
  static EngineLinkConfig Trusting(const std::string& name) {
    EngineLinkConfig config = Patient();
    config.tls.ca_file = certificates_->CertificateFile(name);
    return config;
  }
  static EngineCall Get(std::string url, std::string path) {
    EngineCall call;
    call.base_url = std::move(url);
    call.method = "GET";
    call.path = std::move(path);
    return call;
  }

  // The same of both wires.
  void ExerciseEngine(const std::string& url) {
    std::string body(1 << 20, 'z');
    for (size_t i = 0; i < body.size(); i += 777) body[i] = static_cast<char>('a' + i % 26);
    EngineCall echo = Call(url, body);
    echo.path = "/echo";
    const auto echoed = Ask(echo);
    EXPECT_EQ(echoed->End(), "complete") << echoed->Detail();
    EXPECT_EQ(echoed->Body(), body);

    std::string stream;
    for (int i = 0; i < 2000; ++i) stream += "data: " + std::to_string(i) + "\n\n";
    EXPECT_EQ(Ask(Get(url, "/stream/2000"))->Body(), stream);

    EngineCall head = Get(url, "/x");
    head.method = "HEAD";
    EXPECT_EQ(Ask(head)->Status(), 200);
    EXPECT_EQ(Ask(Get(url, "/nothing"))->Status(), 404);
    EXPECT_EQ(link_->Counters().connections_opened, 1u);

    const auto until_close = Ask(Get(url, "/until-close"));
    EXPECT_EQ(until_close->End(), "complete") << until_close->Detail();
    EXPECT_EQ(until_close->Body(), std::string(300000, 'y'));
    EXPECT_EQ(Ask(Get(url, "/fields"))->End(), "complete");
    EXPECT_EQ(link_->Counters().connections_opened, 2u);
  }

  static TestCertificates* certificates_;
};
TestCertificates* StdEngineTest::certificates_ = nullptr;

TEST_F(StdEngineTest, PlainTextIsUnderstood) {
  StdEngineProcess engine;
  StartLink();
  ExerciseEngine("http://127.0.0.1:" + engine.port());
}

TEST_F(StdEngineTest, TlsIsUnderstood) {
  StdEngineProcess engine(Serving("engine"));
  StartLink(Trusting("ca"));
  ExerciseEngine("https://127.0.0.1:" + engine.port());
}

TEST_F(StdEngineTest, NameIsVerifiedAsWell) {
  StdEngineProcess engine(Serving("engine"));
  StartLink(Trusting("ca"));
  EXPECT_EQ(Ask(Get("https://localhost:" + engine.port(), "/fields"))->Status(), 200);
}

TEST_F(StdEngineTest, CertificateOfAnotherHostIsRefused) {
  StdEngineProcess engine(Serving("elsewhere"));
  StartLink(Trusting("ca"));
  for (const char* host : {"127.0.0.1", "localhost"}) {
    const auto reply = Ask(Get(std::string("https://") + host + ":" + engine.port(), "/fields"));
    EXPECT_EQ(reply->End(), "connect_failed");
    EXPECT_THAT(reply->Detail(), HasSubstr("TLS: the certificate: "));
    EXPECT_THAT(reply->Detail(), HasSubstr("mismatch"));
  }
  EXPECT_EQ(link_->Counters().connections_opened, 0u);
}

TEST_F(StdEngineTest, CertificateOfAStrangerIsRefused) {
  StdEngineProcess engine(Serving("engine"));
  StartLink(Trusting("stranger"));
  EXPECT_EQ(Ask(Get("https://127.0.0.1:" + engine.port(), "/fields"))->End(), "connect_failed");
  StartLink();  // nor do the system's authorities know it
  const auto reply = Ask(Get("https://127.0.0.1:" + engine.port(), "/fields"));
  EXPECT_EQ(reply->End(), "connect_failed");
  EXPECT_THAT(reply->Detail(), HasSubstr("unable to get local issuer certificate"));
}

TEST_F(StdEngineTest, InsecureTrustsAnyone) {
  StdEngineProcess engine(Serving("elsewhere"));
  EngineLinkConfig config = Patient();
  config.tls.insecure = true;
  StartLink(config);
  EXPECT_EQ(Ask(Get("https://127.0.0.1:" + engine.port(), "/fields"))->Status(), 200);
}

TEST_F(StdEngineTest, CertificateOfOursIsShownWhereAsked) {
  std::vector<std::string> arguments = Serving("engine");
  arguments.insert(arguments.end(), {"--client-ca", certificates_->CaFile()});
  StdEngineProcess engine(arguments);
  const std::string url = "https://127.0.0.1:" + engine.port();
  StartLink(Trusting("ca"));
  EXPECT_NE(Ask(Get(url, "/fields"))->End(), "complete");
  EngineLinkConfig config = Trusting("ca");
  config.tls.certificate_file = certificates_->CertificateFile("router");
  config.tls.key_file = certificates_->KeyFile("router");
  StartLink(config);
  EXPECT_EQ(Ask(Get(url, "/fields"))->Status(), 200);
}

TEST_F(StdEngineTest, FilesThatCannotBeUsedAreNamedAtTheStart) {
  EngineLinkConfig config;
  config.tls.ca_file = "/no/such/ca.pem";
  const absl::Status no_ca = HttpEngineLink(config).Start();
  EXPECT_THAT(std::string(no_ca.message()), HasSubstr("CA file /no/such/ca.pem"));
  config = {};
  config.tls.certificate_file = certificates_->CertificateFile("router");
  EXPECT_THAT(std::string(HttpEngineLink(config).Start().message()), HasSubstr("needs a key file"));
  config.tls.key_file = certificates_->KeyFile("engine");
  EXPECT_THAT(std::string(HttpEngineLink(config).Start().message()), HasSubstr("key file "));
}

TEST_F(StdEngineTest, PlainTextEngineBehindHttpsFailsCleanly) {
  ScriptedEngine engine([](EnginePeer& peer, int) {
    peer.Send("HTTP/1.1 400 Bad Request\r\ncontent-length: 0\r\n\r\n");
    peer.WaitClosed();
  });
  StartLink();
  const auto reply = Ask(Get("https://127.0.0.1:" + std::to_string(engine.port()), "/"));
  EXPECT_EQ(reply->End(), "connect_failed");
  EXPECT_THAT(reply->Detail(), HasSubstr("TLS: "));
}

TEST_F(StdEngineTest, SilentHandshakeTimesOut) {
  ScriptedEngine engine([](EnginePeer& peer, int) { EXPECT_TRUE(peer.WaitClosed()); });
  EngineLinkConfig config;
  config.connect_timeout = milliseconds(200);
  StartLink(config);
  const auto reply = Ask(Get("https://127.0.0.1:" + std::to_string(engine.port()), "/"));
  EXPECT_EQ(reply->End(), "connect_failed");
  EXPECT_THAT(reply->Detail(), HasSubstr("no handshake in time"));
}

TEST_F(StdEngineTest, CancelAndStopInTheHandshake) {
  ScriptedEngine engine([](EnginePeer& peer, int) { EXPECT_TRUE(peer.WaitClosed()); });
  StartLink();
  const std::string url = "https://127.0.0.1:" + std::to_string(engine.port());
  const auto cancelled = Send(Get(url, "/"));
  EXPECT_TRUE(Eventually([&engine] { return engine.Connections() == 1; }));
  last_->Cancel();
  EXPECT_TRUE(Eventually([this] { return link_->Counters().connections == 0; }));
  EXPECT_EQ(cancelled->End(), "none");
  const auto stopped = Send(Get(url, "/"));
  EXPECT_TRUE(Eventually([&engine] { return engine.Connections() == 2; }));
  link_->Stop();
  EXPECT_EQ(stopped->End(), "shutting_down");
}

TEST_F(StdEngineTest, PausedAndCancelledTlsStreams) {
  StdEngineProcess engine(Serving("engine"));
  StartLink(Trusting("ca"));
  const std::string url = "https://127.0.0.1:" + engine.port();
  std::string stream;
  for (int i = 0; i < 30000; ++i) stream += "data: " + std::to_string(i) + "\n\n";
  const auto paused = Send(Get(url, "/stream/30000"));
  while (paused->End() == "none") {
    last_->Pause();
    std::this_thread::yield();
    last_->Resume();
  }
  EXPECT_EQ(paused->End(), "complete");
  EXPECT_EQ(paused->Body(), stream);
  const auto cancelled = Send(Get(url, "/stream/1000000"));
  ASSERT_TRUE(cancelled->WaitBody(1));
  last_->Cancel();
  EXPECT_TRUE(Eventually([this] { return link_->Counters().exchanges == 0; }));
  EXPECT_EQ(cancelled->End(), "none");
}

}  // namespace
}  // namespace kvrouter
