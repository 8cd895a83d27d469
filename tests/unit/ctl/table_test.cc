#include "ctl/table.h"

#include <gtest/gtest.h>

namespace kvrouter::ctl {
namespace {

TEST(TableTest, NumbersGoRightTextGoesLeft) {
  Table table({"NAME", "N"});
  table.AddRow({"a", "1"});
  table.AddRow({"longer", "1000"});
  EXPECT_EQ(table.Text(),
            "NAME       N\n"
            "a          1\n"
            "longer  1000\n");
}

TEST(TableTest, LinesHaveNoTrailingBlanks) {
  Table table({"A", "DETAIL"});
  table.AddRow({"x", ""});
  EXPECT_EQ(table.Text(), "A  DETAIL\nx\n");
}

TEST(TableTest, NumbersAreShort) {
  EXPECT_EQ(Number(12), "12");
  EXPECT_EQ(Number(0.75), "0.75");
  EXPECT_EQ(Number(1.0 / 3), "0.333");
  EXPECT_EQ(Number(-0.0001), "0");
  EXPECT_EQ(Number(1e6), "1000000");
  EXPECT_EQ(Number(2.5, 0), "2");
}

}  // namespace
}  // namespace kvrouter::ctl
