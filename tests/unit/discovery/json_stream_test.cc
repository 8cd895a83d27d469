#include "adapters/discovery/json_stream.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace kvrouter {
namespace {

using testing::ElementsAre;

TEST(JsonStreamTest, PiecesMayEndAnywhere) {
  const std::string first = R"({"a":"}\"{[\\","b":[{"c":{}}]})";
  const std::string second = "{\"ü\":\"\\\\\"}";
  const std::string text = "\n" + first + second + " \r\n";
  for (size_t cut = 0; cut <= text.size(); ++cut) {
    for (size_t again = cut; again <= text.size(); ++again) {
      JsonStream stream(1000);
      std::vector<std::string> objects;
      for (const auto& piece :
           {text.substr(0, cut), text.substr(cut, again - cut), text.substr(again)})
        ASSERT_TRUE(stream.Feed(piece, &objects).ok());
      ASSERT_THAT(objects, ElementsAre(first, second)) << cut << " " << again;
      ASSERT_TRUE(stream.AtBoundary());
    }
  }
}

TEST(JsonStreamTest, OpenObjectIsNoBoundary) {
  JsonStream stream(1000);
  std::vector<std::string> objects;
  ASSERT_TRUE(stream.Feed("{\"a\":{}", &objects).ok());
  EXPECT_FALSE(stream.AtBoundary());
  EXPECT_TRUE(objects.empty());
}

TEST(JsonStreamTest, OtherTextBetweenObjectsIsAnError) {
  for (const char* text : {"x", "[]", "1", "{} ,{}", "\"{}\""}) {
    JsonStream stream(1000);
    std::vector<std::string> objects;
    EXPECT_FALSE(stream.Feed(text, &objects).ok()) << text;
  }
}

TEST(JsonStreamTest, ObjectOverTheBoundIsAnErrorHoweverItComes) {
  const std::string at_the_bound = fmt::format("{{\"a\":\"{}\"}}", std::string(92, 'x'));
  ASSERT_EQ(at_the_bound.size(), 100u);
  for (const size_t piece_bytes : {1, 7, 1000}) {
    for (const size_t bound : {99, 100}) {
      JsonStream stream(bound);
      std::vector<std::string> objects;
      absl::Status status;
      for (size_t at = 0; at < at_the_bound.size() && status.ok(); at += piece_bytes)
        status = stream.Feed(std::string_view(at_the_bound).substr(at, piece_bytes), &objects);
      EXPECT_EQ(status.ok(), bound == 100) << piece_bytes;
    }
  }
}

}  // namespace
}  // namespace kvrouter
