#include "adapters/http/http_routes.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "adapters/http/http_format.h"

namespace kvrouter {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

class HttpRoutesTest : public testing::Test {
 protected:
  void Add(const std::string& path) { routes_.Add(path, "GET", nullptr); }
  bool Finds(const std::string& path) { return routes_.Find(path, &parameters_) != nullptr; }

  HttpRoutes routes_;
  std::vector<std::string> parameters_;
};

TEST_F(HttpRoutesTest, ParametersAreDecodedInOrder) {
  Add("/a/{}/b/{}");
  ASSERT_TRUE(Finds("/a/x%2Fy/b/7"));
  EXPECT_THAT(parameters_, ElementsAre("x/y", "7"));
}

TEST_F(HttpRoutesTest, AnExactPathGoesFirst) {
  Add("/a/{}");
  Add("/a/b");
  ASSERT_TRUE(Finds("/a/b"));
  EXPECT_THAT(parameters_, IsEmpty());
}

TEST_F(HttpRoutesTest, AParameterIsOneNonEmptySegment) {
  Add("/a/{}");
  Add("/a/{}/end");
  EXPECT_FALSE(Finds("/a/"));
  EXPECT_FALSE(Finds("/a"));
  EXPECT_FALSE(Finds("/a//end"));
  EXPECT_FALSE(Finds("/a/b/"));
  EXPECT_FALSE(Finds("/a/b/end/more"));
  EXPECT_TRUE(Finds("/a/b/end"));
}

TEST(PercentDecodeTest, WhatIsNoEscapeStays) {
  EXPECT_EQ(PercentDecode("a%41%4"), "aA%4");
  EXPECT_EQ(PercentDecode("%zz%"), "%zz%");
  EXPECT_EQ(PercentDecode("%e2%82%AC"), "\xe2\x82\xac");
}

TEST(QueryParameterTest, FirstValueOfTheWholeName) {
  EXPECT_EQ(QueryParameter("ab=1&b=a+b%26&b=3", "b"), "a b&");
  EXPECT_EQ(QueryParameter("a", "a"), "");
  EXPECT_EQ(QueryParameter("ab=1", "b"), std::nullopt);
}

}  // namespace
}  // namespace kvrouter
