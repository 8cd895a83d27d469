#include "adapters/metrics/metric_families.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "adapters/metrics/process_figures.h"

namespace kvrouter {
namespace {

using testing::HasSubstr;

TEST(MetricFamiliesTest, FamilyWithoutSeriesStillShowsItself) {
  MetricFamilies families;
  families.Gauge("a", "what a is");
  families.Counter("b", "what b is");
  families.Add(uint64_t{2});
  EXPECT_EQ(families.Text(),
            "# HELP a what a is\n# TYPE a gauge\n# HELP b what b is\n# TYPE b counter\nb 2\n");
}

TEST(MetricFamiliesTest, LabelsAreEscapedAndLargeCountsStayExact) {
  MetricFamilies families;
  families.Counter("a", "h");
  families.Add(uint64_t{9007199254740991}, {{"model", "a\"b\\c\nd"}});
  EXPECT_THAT(families.Text(), HasSubstr("a{model=\"a\\\"b\\\\c\\nd\"} 9007199254740991\n"));
}

TEST(MetricFamiliesTest, InvalidUtf8CannotSpoilTheScrape) {
  EXPECT_EQ(ValidUtf8("plain"), "plain");
  EXPECT_EQ(ValidUtf8("h\xC3\xA9 \xE2\x82\xAC \xF0\x9F\x98\x80"),
            "h\xC3\xA9 \xE2\x82\xAC \xF0\x9F\x98\x80");
  EXPECT_EQ(ValidUtf8("\x80"), "?");
  EXPECT_EQ(ValidUtf8("\xC0\xAF"), "??") << "overlong";
  EXPECT_EQ(ValidUtf8("\xE0\x80\x80"), "???") << "overlong";
  EXPECT_EQ(ValidUtf8("\xED\xA0\x80"), "???") << "surrogate";
  EXPECT_EQ(ValidUtf8("\xF4\x90\x80\x80"), "????") << "beyond U+10FFFF";
  EXPECT_EQ(ValidUtf8("a\xE2\x82"), "a??") << "cut short";
}

TEST(ProcessFiguresTest, AreThoseOfALivingProcess) {
  const ProcessFigures figures = ReadProcessFigures();
  EXPECT_GT(figures.resident_bytes, 1u << 20);
  EXPECT_GE(figures.virtual_bytes, figures.resident_bytes);
  EXPECT_GE(figures.open_fds, 3u);
  EXPECT_GE(figures.max_fds, figures.open_fds);
  EXPECT_GE(figures.threads, 1u);
  EXPECT_GT(figures.cpu_seconds, 0);
  EXPECT_GT(figures.start_time_seconds, 1.5e9);
}

}  // namespace
}  // namespace kvrouter
