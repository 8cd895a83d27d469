#include "ctl/token_spec.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <string>

namespace kvrouter::ctl {
namespace {

using testing::ElementsAre;

TEST(TokenSpecTest, ListsRangesAndMixturesAreRead) {
  EXPECT_THAT(*ParseTokens("1,2,3"), ElementsAre(1, 2, 3));
  EXPECT_THAT(*ParseTokens("5-8"), ElementsAre(5, 6, 7, 8));
  EXPECT_THAT(*ParseTokens("[1, 7-7,\n4294967295]"), ElementsAre(1, 7, 4294967295u));
  EXPECT_EQ(ParseTokens("0-4095")->size(), 4096u);
  EXPECT_THAT(*ParseTokens("4294967294-4294967295"), ElementsAre(4294967294u, 4294967295u));
}

TEST(TokenSpecTest, BadItemsAreRefused) {
  for (const char* bad : {"x", "1,x", "-1", "5-", "8-5", "1-2-3", "4294967296", "1.5", "0x10"}) {
    EXPECT_FALSE(ParseTokens(bad).ok()) << bad;
  }
}

TEST(TokenSpecTest, NothingAndGapsBetweenCommasAreRefused) {
  for (const char* bad : {"", " ", "[]", ",", "1,,2", "1, ,2", ",1", "1,", "[1,\n,2]"}) {
    EXPECT_FALSE(ParseTokens(bad).ok()) << bad;
  }
  EXPECT_THAT(*ParseTokens("1 , 2\n3"), ElementsAre(1, 2, 3));
}

TEST(TokenSpecTest, HugeRangesAreRefusedBeforeTheyAreMade) {
  EXPECT_FALSE(ParseTokens("0-4294967295").ok());
  EXPECT_FALSE(ParseTokens("0-15999999,1").ok());
}

TEST(TokenSpecTest, FilesAreRead) {
  const std::string path = testing::TempDir() + "/tokens.json";
  std::ofstream(path) << "[10, 20,\n 30-32]\n";
  EXPECT_THAT(*ReadTokens("@" + path), ElementsAre(10, 20, 30, 31, 32));
  EXPECT_FALSE(ReadTokens("@" + path + ".missing").ok());
}

}  // namespace
}  // namespace kvrouter::ctl
