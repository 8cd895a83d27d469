#include "service/request_progress.h"

#include <gtest/gtest.h>

#include <limits>

namespace kvrouter {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

constexpr MonotonicTime kArrival = seconds(100);

RequestProgress WithPrompt(uint64_t isl_tokens) {
  return RequestProgress(
      {.arrived_at = kArrival, .isl_tokens = isl_tokens, .block_size_tokens = 16});
}

TEST(RequestProgressTest, FirstTokenIsTimedFromArrivalOnce) {
  RequestProgress progress = WithPrompt(100);
  EXPECT_EQ(progress.FirstToken(kArrival + milliseconds(250)), milliseconds(250));
  EXPECT_EQ(progress.FirstToken(kArrival + milliseconds(900)), std::nullopt);
}

TEST(RequestProgressTest, AverageSinceTheFirstTokenAtEachBlockBoundary) {
  RequestProgress progress = WithPrompt(100);  // 4 tokens into the 7th block: 12 more fit
  progress.FirstToken(kArrival + seconds(1));
  EXPECT_EQ(progress.OutputTokens(12, kArrival + seconds(2)), std::nullopt) << "same block";
  EXPECT_EQ(progress.OutputTokens(13, kArrival + seconds(1) + milliseconds(600)), milliseconds(50));
  EXPECT_EQ(progress.OutputTokens(28, kArrival + seconds(3)), std::nullopt) << "same block";
  EXPECT_EQ(progress.OutputTokens(61, kArrival + seconds(7)), milliseconds(100))
      << "one observation, however many boundaries";
}

TEST(RequestProgressTest, NeedsAFirstTokenAndASecondOne) {
  RequestProgress silent = WithPrompt(96);
  EXPECT_EQ(silent.OutputTokens(40, kArrival + seconds(2)), std::nullopt) << "no prefill_complete";
  RequestProgress aligned = WithPrompt(96);
  aligned.FirstToken(kArrival);
  EXPECT_EQ(aligned.OutputTokens(1, kArrival + seconds(1)), std::nullopt)
      << "a boundary, but one token has no neighbour";
  EXPECT_EQ(aligned.OutputTokens(17, kArrival + seconds(4)), milliseconds(250));
}

TEST(RequestProgressTest, RepeatedAndSmallerReportsChangeNothing) {
  RequestProgress progress = WithPrompt(100);
  progress.FirstToken(kArrival);
  progress.OutputTokens(40, kArrival + seconds(1));
  EXPECT_EQ(progress.OutputTokens(40, kArrival + seconds(2)), std::nullopt);
  EXPECT_EQ(progress.OutputTokens(3, kArrival + seconds(2)), std::nullopt);
  EXPECT_EQ(progress.output_tokens(), 40u);
}

TEST(RequestProgressTest, CountingBlocksTellsTheTokensAtTheBoundaries) {
  for (const uint64_t isl_tokens : {0u, 1u, 15u, 16u, 100u}) {
    RequestProgress by_tokens = WithPrompt(isl_tokens);
    RequestProgress by_blocks = WithPrompt(isl_tokens);
    by_tokens.FirstToken(kArrival);
    by_blocks.FirstToken(kArrival);
    uint64_t blocks = (isl_tokens + 15) / 16;
    for (uint64_t tokens = 1; tokens <= 200; ++tokens) {
      const MonotonicTime now = kArrival + milliseconds(37 * tokens);
      const auto figure = by_tokens.OutputTokens(tokens, now);
      if ((isl_tokens + tokens + 15) / 16 == blocks) {
        EXPECT_EQ(figure, std::nullopt);
        continue;
      }
      ++blocks;
      EXPECT_EQ(by_blocks.OutputBlock(now), figure) << isl_tokens << " + " << tokens;
      EXPECT_EQ(by_blocks.output_tokens(), tokens);
    }
  }
}

// Reports of one request on two connections: each is timed before they queue for its record.
TEST(RequestProgressTest, AReportThatWasOvertakenByTheFirstTokenTookNoTime) {
  RequestProgress progress({.arrived_at = kArrival, .isl_tokens = 16, .block_size_tokens = 16});
  progress.FirstToken(kArrival + seconds(2));
  EXPECT_EQ(progress.OutputTokens(17, kArrival + seconds(1)), seconds(0));
}

TEST(RequestProgressTest, AnyReportedNumberIsHarmless) {
  constexpr uint64_t kMost = std::numeric_limits<uint64_t>::max();
  RequestProgress progress({.arrived_at = kArrival, .isl_tokens = kMost, .block_size_tokens = 16});
  progress.FirstToken(kArrival);
  EXPECT_EQ(progress.OutputTokens(kMost, kArrival + seconds(1)), seconds(0)) << "not below 0";
  EXPECT_EQ(progress.OutputBlock(kArrival + seconds(2)), std::nullopt);
  EXPECT_EQ(progress.output_tokens(), kMost);
}

}  // namespace
}  // namespace kvrouter
