#include "adapters/grpc/listen_address.h"

#include <gtest/gtest.h>

namespace kvrouter {
namespace {

TEST(ListenAddressTest, ReadsHostAndPort) {
  EXPECT_EQ(ParseListenAddress("127.0.0.1:8093")->Text(), "127.0.0.1:8093");
  EXPECT_EQ(ParseListenAddress("localhost:0")->port, 0);
  EXPECT_EQ(ParseListenAddress("[::1]:65535")->host, "::1");
  EXPECT_EQ(ParseListenAddress("[::1]:65535")->Text(), "[::1]:65535");
}

TEST(ListenAddressTest, RefusesWhatIsNotHostAndPort) {
  for (const char* bad : {"", ":", ":80", "host", "host:", "host:x", "host:65536", "host:-1",
                          "host:80x", "::1:80", "[]:80", "[::1:80", "host: 80"}) {
    EXPECT_FALSE(ParseListenAddress(bad).ok()) << bad;
  }
}

}  // namespace
}  // namespace kvrouter
