#include "ctl/bench/bench_figures.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <random>
#include <vector>

namespace kvrouter::ctl {
namespace {

using std::chrono::milliseconds;
using std::chrono::nanoseconds;
using testing::ContainsRegex;
using testing::HasSubstr;
using testing::Not;

std::string ErrorText(const absl::Status& status) {
  return std::string(status.message().data(), status.message().size());
}

TEST(LatencyHistogramTest, QuantilesAreAtMostOnePartIn128AboveTheSortedValues) {
  constexpr uint64_t kSeed = 20;
  std::mt19937_64 random(kSeed);
  LatencyHistogram histogram;
  std::vector<int64_t> values;
  for (int i = 0; i < 20'000; ++i) {
    const auto magnitude = static_cast<int>(random() % 40);
    values.push_back(static_cast<int64_t>(random() >> (63 - magnitude)));
    histogram.Add(nanoseconds(values.back()));
  }
  std::sort(values.begin(), values.end());
  for (const double fraction : {0.0, 0.01, 0.5, 0.9, 0.99, 0.999, 1.0}) {
    const auto rank = std::max<size_t>(
        1, static_cast<size_t>(std::ceil(fraction * static_cast<double>(values.size()))));
    const int64_t exact = values[rank - 1];
    const int64_t got = histogram.Quantile(fraction).count();
    EXPECT_GE(got, exact) << "seed " << kSeed << " quantile " << fraction;
    EXPECT_LE(got, exact + exact / 128 + 1) << "seed " << kSeed << " quantile " << fraction;
  }
  EXPECT_EQ(histogram.max().count(), values.back());
}

TEST(LatencyHistogramTest, EmptyNegativeAndHugeValuesAreNoTrouble) {
  LatencyHistogram histogram;
  EXPECT_EQ(histogram.Quantile(0.99).count(), 0);
  histogram.Add(nanoseconds(-5));
  EXPECT_EQ(histogram.Quantile(1.0).count(), 0);
  histogram.Add(nanoseconds::max());
  EXPECT_EQ(histogram.Quantile(1.0), nanoseconds::max());
  EXPECT_EQ(histogram.Quantile(0.5).count(), 0);
}

TEST(LatencyHistogramTest, MergedHistogramsCountBoth) {
  LatencyHistogram one, other;
  one.Add(nanoseconds(100));
  other.Add(nanoseconds(200));
  one.Merge(other);
  EXPECT_EQ(one.count(), 2u);
  EXPECT_EQ(one.Quantile(0.5).count(), 100);
  EXPECT_EQ(one.max().count(), 200);
}

BenchRun ARun() {
  BenchRun run;
  run.elapsed_s = 2;
  run.tally.answered = 3;
  run.tally.booked = 3;
  run.tally.freed = 3;
  run.tally.overlap_blocks = 1;
  run.tally.isl_blocks = 4;
  for (const int ms : {1, 2, 9}) run.tally.latency.Add(milliseconds(ms));
  return run;
}

TEST(BenchFiguresTest, TextNamesThroughputLatenciesAndWhatBecameOfTheBookings) {
  const std::string text = BenchText({}, ARun());
  EXPECT_THAT(text, HasSubstr("3 answered in 2 s, 1.5 a second; 0 failed"));
  EXPECT_THAT(text, ContainsRegex("answered after +2\\.0[01][0-9]* +9 +9 +9 +9"));
  EXPECT_THAT(text, HasSubstr("held 25 % of the prompts' blocks"));
  EXPECT_THAT(text, HasSubstr("3 booked, 3 of them freed"));
  EXPECT_THAT(text, Not(HasSubstr("sent late"))) << "a closed loop is never late";
}

TEST(BenchFiguresTest, OpenLoopShowsWhetherTheGeneratorKeptUp) {
  BenchRun run = ARun();
  run.tally.late.Add(milliseconds(5));
  const std::string text = BenchText({.rate_per_s = 100}, run);
  EXPECT_THAT(text, HasSubstr("open loop, 100 requests a second, at most 8 in flight"));
  EXPECT_THAT(text, ContainsRegex("sent late by +5 "));
}

TEST(BenchFiguresTest, ErrorsAreListedByCodeAndReasonAndMakeTheVerdict) {
  BenchRun run = ARun();
  for (int i = 0; i < 5; ++i) run.tally.CountError("UNAVAILABLE", "NO_WORKERS");
  run.tally.CountError("DEADLINE_EXCEEDED", "-");
  EXPECT_THAT(BenchText({}, run), ContainsRegex(" +5  UNAVAILABLE +NO_WORKERS\n"));
  EXPECT_EQ(ErrorText(Verdict(run)),
            "6 of 9 requests failed, most often with UNAVAILABLE (NO_WORKERS)");
  const auto json = nlohmann::json::parse(BenchJson({}, run));
  EXPECT_EQ(json["failed"], 6);
  EXPECT_EQ(json["errors"][1]["count"], 5);
  EXPECT_EQ(json["latency_ms"]["max"], 9.0);
}

TEST(BenchFiguresTest, BookingsThatAreLeftAreNotPassedOverInSilence) {
  BenchRun run = ARun();
  EXPECT_TRUE(Verdict(run).ok());
  run.not_freed = 2;
  EXPECT_THAT(ErrorText(Verdict(run)), HasSubstr("2 bookings could not be freed"));
  run.unreachable = true;
  EXPECT_THAT(ErrorText(Verdict(run)),
              ContainsRegex("cannot be reached any more; 2 bookings could not"));
  BenchRun stopped = ARun();
  stopped.stopped = true;
  EXPECT_THAT(ErrorText(Verdict(stopped)), HasSubstr("stopped by a signal"));
}

}  // namespace
}  // namespace kvrouter::ctl
