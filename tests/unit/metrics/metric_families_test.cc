#include "adapters/metrics/metric_families.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "adapters/metrics/process_figures.h"

namespace kvrouter {
namespace {

using testing::HasSubstr;

MetricInfo Family(std::string_view name, MetricType type,
                  ConstantLabels constant = ConstantLabels::kNone) {
  return {.metric = Metric::kHitRate,
          .name = name,
          .type = type,
          .constant = constant,
          .unit = "apples",
          .weighting = Weighting::kEach,
          .origin = MetricOrigin::kOurs,
          .meaning = "What it is.",
          .moves = "Never."};
}

const MetricFamilies::LabelSets kLabelSets = {
    .component = {{"c", "1"}}, .router = {{"c", "1"}, {"r", "2"}}, .router_id = {{"r", "2"}}};

TEST(MetricFamiliesTest, FamilyWithoutSeriesStillShowsItself) {
  MetricFamilies families(&kLabelSets);
  families.Open(Family("a", MetricType::kGauge));
  families.Open(Family("b", MetricType::kCounter));
  families.Add(uint64_t{2});
  EXPECT_EQ(families.Text(),
            "# HELP a What it is. (apples; each counts one)\n# TYPE a gauge\n"
            "# HELP b What it is. (apples; each counts one)\n# TYPE b counter\nb 2\n");
}

TEST(MetricFamiliesTest, ConstantLabelsComeFirstAndEndWithTheirFamily) {
  MetricFamilies families(&kLabelSets);
  families.Open(Family("a", MetricType::kGauge, ConstantLabels::kRouter));
  families.Add(1.0, {{"own", "x"}});
  families.Open(Family("b", MetricType::kGauge, ConstantLabels::kComponent));
  families.Add(1.0);
  families.Open(Family("e", MetricType::kGauge, ConstantLabels::kRouterIdOnly));
  families.Add(1.0);
  families.Open(Family("d", MetricType::kGauge));
  families.Add(1.0);
  const std::string text = families.Text();
  EXPECT_THAT(text, HasSubstr("\na{c=\"1\",r=\"2\",own=\"x\"} 1\n"));
  EXPECT_THAT(text, HasSubstr("\nb{c=\"1\"} 1\n"));
  EXPECT_THAT(text, HasSubstr("\ne{r=\"2\"} 1\n"));
  EXPECT_THAT(text, HasSubstr("\nd 1\n"));
}

TEST(MetricFamiliesTest, LabelsAreEscapedAndLargeCountsStayExact) {
  MetricFamilies families(&kLabelSets);
  families.Open(Family("a", MetricType::kCounter));
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
