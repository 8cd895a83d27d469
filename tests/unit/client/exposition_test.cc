#include "client/exposition.h"

#include <gtest/gtest.h>

namespace kvrouter::client {
namespace {

TEST(ExpositionTest, ReadsNamesLabelsAndValues) {
  const auto samples = ParseExposition(
      "a 1\nb{x=\"1\",y=\"q\\\"\\\\\\n\"} 2.5 1700000000\n# c 3\n\nbad\nd{x=\"1 4\n");
  ASSERT_EQ(samples.size(), 2u);
  EXPECT_EQ(samples[0].name, "a");
  EXPECT_EQ(samples[0].value, 1.0);
  EXPECT_EQ(samples[1].Label("x"), "1");
  EXPECT_EQ(samples[1].Label("y"), "q\"\\\n");
  EXPECT_EQ(samples[1].value, 2.5);
}

TEST(ExpositionTest, SumsOverSeriesAndTellsAbsentFromZero) {
  const auto samples = ParseExposition("a{x=\"1\"} 1\na{x=\"2\"} 2\nz 0\n");
  EXPECT_EQ(SumOf(samples, "a"), 3.0);
  EXPECT_EQ(SumOf(samples, "z"), 0.0);
  EXPECT_FALSE(SumOf(samples, "b").has_value());
}

}  // namespace
}  // namespace kvrouter::client
