#ifndef KVROUTER_TESTS_INTEGRATION_ENGINE_HTTP_LINK_FIXTURE_H_
#define KVROUTER_TESTS_INTEGRATION_ENGINE_HTTP_LINK_FIXTURE_H_

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <utility>

#include "adapters/engine_http/http_engine_link.h"
#include "recording_reply.h"
#include "scripted_engine.h"

namespace kvrouter {

class LinkFixture : public testing::Test {
 protected:
  // Connecting takes as long as a machine that is busy with others needs for it.
  static EngineLinkConfig Patient() {
    EngineLinkConfig config;
    config.connect_timeout = std::chrono::seconds(60);
    return config;
  }
  void StartLink(EngineLinkConfig config = Patient()) {
    link_ = std::make_unique<HttpEngineLink>(std::move(config));
    ASSERT_TRUE(link_->Start().ok());
  }

  static EngineCall Call(std::string url, std::string body = R"({"prompt":"x"})") {
    return {.base_url = std::move(url),
            .path = "/v1/completions",
            .headers = {{"content-type", "application/json"}},
            .body = std::make_shared<const std::string>(std::move(body))};
  }
  std::shared_ptr<RecordingReply> Send(EngineCall call) {
    auto reply = std::make_shared<RecordingReply>();
    last_ = link_->Send(std::move(call), reply);
    return reply;
  }
  // Sends and waits for the end.
  std::shared_ptr<RecordingReply> Ask(EngineCall call) {
    auto reply = Send(std::move(call));
    EXPECT_TRUE(reply->WaitEnd());
    EXPECT_TRUE(reply->InOrder());
    return reply;
  }

  std::unique_ptr<HttpEngineLink> link_;
  std::shared_ptr<EngineExchange> last_;
};

inline std::string Answer(std::string_view body, std::string_view fields = "") {
  return "HTTP/1.1 200 OK\r\ncontent-length: " + std::to_string(body.size()) + "\r\n" +
         std::string(fields) + "\r\n" + std::string(body);
}

}  // namespace kvrouter

#endif  // KVROUTER_TESTS_INTEGRATION_ENGINE_HTTP_LINK_FIXTURE_H_
