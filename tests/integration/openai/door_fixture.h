#ifndef KVROUTER_TESTS_INTEGRATION_OPENAI_DOOR_FIXTURE_H_
#define KVROUTER_TESTS_INTEGRATION_OPENAI_DOOR_FIXTURE_H_

#include <gtest/gtest.h>

#include <deque>
#include <memory>
#include <string>
#include <string_view>
#include <utility>

#include "adapters/openai/openai_door.h"
#include "base/mutex.h"
#include "blocking_client.h"

namespace kvrouter {

// A door in front of a dispatcher that only takes requests: the test answers them.
class DoorFixture : public testing::Test {
 protected:
  struct Served {
    DispatchRequest request;
    std::shared_ptr<ClientReply> reply;
  };

  void SetUp() override { Start({}); }
  void Start(HttpServerConfig config) {
    door_ = std::make_unique<OpenAiDoor>(
        std::move(config), [this](DispatchRequest request, std::shared_ptr<ClientReply> reply) {
          MutexLock lock(mu_);
          served_.push_back({std::move(request), std::move(reply)});
        });
    ASSERT_TRUE(door_->Start().ok());
  }
  void TearDown() override { door_.reset(); }

  // The next request that came through; the test fails if none does.
  Served Take() {
    Served next;
    EXPECT_TRUE(Eventually([&] {
      MutexLock lock(mu_);
      if (served_.empty()) return false;
      next = std::move(served_.front());
      served_.pop_front();
      return true;
    }));
    return next;
  }

  static std::string Post(std::string_view path, std::string_view body,
                          std::string_view more_headers = "") {
    return "POST " + std::string(path) + " HTTP/1.1\r\nHost: door\r\n" + std::string(more_headers) +
           "Content-Length: " + std::to_string(body.size()) + "\r\n\r\n" + std::string(body);
  }

  Mutex mu_;
  std::deque<Served> served_ ABSL_GUARDED_BY(mu_);
  std::unique_ptr<OpenAiDoor> door_;
};

}  // namespace kvrouter

#endif  // KVROUTER_TESTS_INTEGRATION_OPENAI_DOOR_FIXTURE_H_
