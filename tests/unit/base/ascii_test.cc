#include "base/ascii.h"

#include <gtest/gtest.h>

#include <string>
#include <string_view>

namespace kvrouter {
namespace {

std::string AllBytes() {
  std::string bytes;
  for (int i = 0; i < 256; ++i) bytes += static_cast<char>(i);
  return bytes;
}

TEST(AsciiTest, OnlyTheLettersOfAsciiHaveACase) {
  constexpr std::string_view kUpper = "ABCDEFGHIJKLMNOPQRSTUVWXYZ";
  constexpr std::string_view kLower = "abcdefghijklmnopqrstuvwxyz";
  for (const char c : AllBytes()) {
    const size_t letter = kUpper.find(c);
    EXPECT_EQ(AsciiLower(c), letter == std::string_view::npos ? c : kLower[letter]) << int{c};
  }
  EXPECT_EQ(AsciiLower("X-Request-ID \xc3\x84"), "x-request-id \xc3\x84");
}

TEST(AsciiTest, LettersAndDigitsAreSixtyTwoBytes) {
  std::string found;
  for (const char c : AllBytes()) {
    if (IsAsciiAlphanumeric(c)) found += c;
  }
  EXPECT_EQ(found, "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz");
}

TEST(AsciiTest, HexadecimalDigitsOfBothCasesHaveTheirValue) {
  std::string found;
  for (const char c : AllBytes()) {
    if (HexDigitValue(c) < 0) continue;
    found += c;
    EXPECT_EQ(HexDigitValue(c), std::stoi(std::string(1, c), nullptr, 16)) << c;
  }
  EXPECT_EQ(found, "0123456789ABCDEFabcdef");
}

TEST(AsciiTest, EqualTextsMayDifferInCaseAndInNothingElse) {
  EXPECT_TRUE(EqualsIgnoringCase("", ""));
  EXPECT_TRUE(EqualsIgnoringCase("CPU_Tier1", "cpu_tIER1"));
  EXPECT_FALSE(EqualsIgnoringCase("cpu", "cpu_"));
  EXPECT_FALSE(EqualsIgnoringCase("cpu_", "cpu"));
  EXPECT_FALSE(EqualsIgnoringCase("[", "{"));  // apart by what sets the cases of letters apart
  EXPECT_FALSE(EqualsIgnoringCase("\xc3\x84", "\xc3\xa4"));
}

}  // namespace
}  // namespace kvrouter
