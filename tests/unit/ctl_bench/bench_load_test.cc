// What a run sends and when: prompts, options, schedule.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>
#include <set>
#include <string>

#include "ctl/bench/bench_options.h"
#include "ctl/bench/bench_schedule.h"
#include "ctl/bench/prompt_maker.h"

namespace kvrouter::ctl {
namespace {

using testing::HasSubstr;

TEST(PromptMakerTest, TheSameSeedMakesTheSamePromptsInWhateverOrder) {
  const BenchOptions options{.tokens = 100};
  const PromptMaker one(options, 16), other(options, 16);
  const std::string late = one.Make(7).SerializeAsString();
  one.Make(3);
  EXPECT_EQ(other.Make(7).SerializeAsString(), late);
  BenchOptions reseeded = options;
  reseeded.seed = 2;
  EXPECT_NE(PromptMaker(reseeded, 16).Make(7).SerializeAsString(), late);
}

TEST(PromptMakerTest, TheSharedPartComesFromAsManyPrefixesAsAskedAndTheRestIsOnesOwn) {
  const PromptMaker prompts({.tokens = 100, .shared_fraction = 0.3, .shared_prefixes = 4}, 16);
  std::set<std::string> starts, rests;
  for (uint64_t n = 0; n < 200; ++n) {
    const v1::RouteRequest request = prompts.Make(n);
    const auto& ids = request.token_ids().ids();
    ASSERT_EQ(ids.size(), 100);
    const auto* const bytes = reinterpret_cast<const char*>(ids.data());
    starts.emplace(bytes, 30 * 4);
    rests.emplace(bytes + 30 * 4, 70 * 4);
  }
  EXPECT_EQ(starts.size(), 4u);
  EXPECT_EQ(rests.size(), 200u);
}

TEST(PromptMakerTest, HashesAreOnePerFullBlock) {
  const PromptMaker prompts({.hashes = 100, .model_name = "m", .advise = true}, 16);
  const v1::RouteRequest request = prompts.Make(0);
  EXPECT_EQ(request.hashes().local_block_hashes_size(), 6);
  EXPECT_EQ(request.hashes().isl_tokens(), 100u);
  EXPECT_EQ(request.model_name(), "m");
  EXPECT_TRUE(request.advise_only());
  EXPECT_EQ(PromptMaker({.hashes = 15}, 16).Make(0).hashes().local_block_hashes_size(), 0);
}

TEST(PromptMakerTest, NothingOrAllMayBeShared) {
  const PromptMaker none({.tokens = 8, .shared_fraction = 0}, 16);
  EXPECT_NE(none.Make(0).SerializeAsString(), none.Make(1).SerializeAsString());
  const PromptMaker all({.tokens = 8, .shared_fraction = 1, .shared_prefixes = 1}, 16);
  EXPECT_EQ(all.Make(0).SerializeAsString(), all.Make(1).SerializeAsString());
}

TEST(BenchOptionsTest, BadOnesAreNamed) {
  EXPECT_TRUE(Check({}).ok());
  const auto refused = [](const BenchOptions& options, const char* text) {
    const absl::Status status = Check(options);
    EXPECT_THAT(std::string(status.message().data(), status.message().size()), HasSubstr(text));
  };
  refused({.concurrency = 0}, "--concurrency must be 1..256, got 0");
  refused({.tokens = 1, .hashes = 1}, "--tokens or --hashes, not both");
  refused({.hashes = 0}, "--hashes must be 1..16000000, got 0");
  refused({.tokens = 17'000'000}, "--tokens must be");
  refused({.shared_fraction = std::numeric_limits<double>::quiet_NaN()}, "--shared must be 0..1");
  refused({.rate_per_s = -1}, "--rate must be");
  refused({.seconds = 0}, "--seconds must be");
  refused({.tokens = 1'000'000, .shared_prefixes = 1000}, "64000000 tokens together");
}

TEST(BenchScheduleTest, RequestsAreDueByTheClockHoweverLateTheyAreTaken) {
  const auto start = BenchSchedule::Clock::now() - std::chrono::seconds(10);
  BenchSchedule schedule({.requests = 3, .rate_per_s = 4}, start);
  for (uint64_t n = 0; n < 3; ++n) {
    const auto turn = schedule.Next();
    ASSERT_TRUE(turn.has_value());
    EXPECT_EQ(turn->n, n);
    EXPECT_EQ(turn->due, start + n * std::chrono::milliseconds(250));
  }
  EXPECT_FALSE(schedule.Next().has_value());
}

TEST(BenchScheduleTest, EndsByTimeOrWhenStopped) {
  const auto now = BenchSchedule::Clock::now();
  BenchSchedule over({.seconds = 1}, now - std::chrono::seconds(2));
  EXPECT_FALSE(over.Next().has_value());
  BenchSchedule stopped({.seconds = 1000, .rate_per_s = 0.001}, now);
  EXPECT_TRUE(stopped.Next().has_value());
  stopped.Stop();
  EXPECT_FALSE(stopped.Next().has_value()) << "not due for a thousand seconds";
}

}  // namespace
}  // namespace kvrouter::ctl
