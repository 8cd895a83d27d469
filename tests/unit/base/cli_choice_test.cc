#include "base/cli_choice.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <string>

namespace kvrouter {
namespace {

enum class Fruit : uint8_t { kApple, kPear };

struct Parsed {
  Fruit fruit = Fruit::kApple;
  int code = 0;
  std::string text;  // help, or what was wrong
};

Parsed Parse(const std::string& line) {
  Parsed out;
  CLI::App app;
  AddChoice<Fruit>(&app, "--fruit", &out.fruit, {{"apple", Fruit::kApple}, {"pear", Fruit::kPear}},
                   "what to eat");
  try {
    app.parse(line);
  } catch (const CLI::CallForHelp&) {
    out.text = app.help();
  } catch (const CLI::ParseError& error) {
    out.code = error.get_exit_code();
    out.text = error.what();
  }
  return out;
}

TEST(CliChoiceTest, AWordChoosesItsValueAndWithoutOneNothingChanges) {
  EXPECT_EQ(Parse("--fruit pear").fruit, Fruit::kPear);
  EXPECT_EQ(Parse("--fruit apple").fruit, Fruit::kApple);
  EXPECT_EQ(Parse("").fruit, Fruit::kApple);
}

TEST(CliChoiceTest, OtherWordsAndValuesAreRefusedNamingTheWordsThatAreKnown) {
  for (const std::string word : {"plum", "1", "Pear", "\x01"}) {
    const Parsed parsed = Parse("--fruit=" + word);
    EXPECT_NE(parsed.code, 0) << word;
    EXPECT_THAT(parsed.text, testing::HasSubstr("{apple,pear}")) << word;
    EXPECT_EQ(parsed.fruit, Fruit::kApple) << word;
  }
}

TEST(CliChoiceTest, HelpShowsTheWordsAndNoControlCharacters) {
  const std::string help = Parse("--help").text;
  EXPECT_THAT(help, testing::HasSubstr("{apple,pear}"));
  EXPECT_TRUE(std::all_of(help.begin(), help.end(), [](unsigned char c) {
    return c == '\n' || c >= ' ';
  })) << help;
}

}  // namespace
}  // namespace kvrouter
