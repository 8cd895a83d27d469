#include "adapters/decision_log/decision_log.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <filesystem>
#include <memory>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "unit/decision_log/log_folder.h"

namespace kvrouter {
namespace {

using namespace kvrouter::testing;  // NOLINT
using ::testing::ElementsAre;
using ::testing::HasSubstr;

class TwoCandidates final : public CandidateSource {
 public:
  size_t size() const override { return 2; }
  CandidateCost At(size_t i) const override {
    CandidateCost cost;
    cost.target = {WorkerId{i + 1}, 0};
    cost.active_prefill_tokens = 100 * i;
    return cost;
  }
  uint64_t bytes() const override { return 0; }
};

void Decide(DecisionLog& log, const std::string& id, std::vector<SequenceHash> hashes = {}) {
  RouteRequest request;
  request.request_id = id;
  RouteDecision decision;
  decision.block_size_tokens = 16;
  decision.target = {WorkerId{1}, 0};
  const CandidateList candidates(std::make_shared<const TwoCandidates>());
  log.Record({.request = request,
              .decision = decision,
              .candidates = candidates,
              .sequence_hashes = hashes});
}

uint64_t Dropped(const DecisionLog& log, LogDrop drop) {
  return log.Read().dropped[static_cast<size_t>(drop)];
}

TEST(DecisionLogTest, WritesWhatIsQueuedBeforeItStops) {
  const LogFolder folder;
  DecisionLog log({.path = folder.File()});
  ASSERT_TRUE(log.Start().ok());
  for (const char* id : {"a", "b", "c"}) Decide(log, id);
  log.Stop();
  EXPECT_THAT(IdsIn(folder.File()), ElementsAre("a", "b", "c"));
  const DecisionLog::Figures figures = log.Read();
  EXPECT_EQ(figures.records, 3u);
  EXPECT_EQ(figures.bytes, BytesOf(folder.File()).size() - DecisionLogHeader().size());
  EXPECT_EQ(figures.queued_bytes, 0u);
}

// The writer is woken by some records and collects others: none waits for one that never comes.
TEST(DecisionLogTest, WhateverTheirPaceAllRecordsAreWrittenWhileItRuns) {
  const LogFolder folder;
  DecisionLog log({.path = folder.File(), .max_queue_bytes = 4096});
  ASSERT_TRUE(log.Start().ok());
  uint64_t recorded = 0;
  for (const uint64_t burst : {1, 1, 2, 40, 1, 30, 3}) {
    for (uint64_t i = 0; i < burst; ++i) Decide(log, fmt::format("request-{}", recorded++));
    const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(60);
    while (log.Read().records + Dropped(log, LogDrop::kQueueFull) < recorded) {
      ASSERT_LT(std::chrono::steady_clock::now(), deadline) << "after " << recorded;
      std::this_thread::yield();
    }
    EXPECT_EQ(log.Read().queued_bytes, 0u);
  }
  EXPECT_GT(log.Read().records, 40u);
}

TEST(DecisionLogTest, WithoutAPathThereIsNone) {
  DecisionLog log({});
  EXPECT_FALSE(log.Enabled());
  EXPECT_TRUE(log.Start().ok());
}

TEST(DecisionLogTest, AFullQueueDropsAndCounts) {
  const LogFolder folder;
  DecisionLog log({.path = folder.File(), .max_queue_bytes = 10});  // less than any record
  ASSERT_TRUE(log.Start().ok());
  Decide(log, "a");
  log.Stop();
  EXPECT_EQ(Dropped(log, LogDrop::kQueueFull), 1u);
  EXPECT_EQ(log.Read().records, 0u);
}

TEST(DecisionLogTest, WhatComesAfterTheEndIsDropped) {
  const LogFolder folder;
  DecisionLog log({.path = folder.File()});
  ASSERT_TRUE(log.Start().ok());
  log.Stop();
  Decide(log, "late");
  EXPECT_EQ(Dropped(log, LogDrop::kQueueFull), 1u);
}

TEST(DecisionLogTest, ARecordTooLargeIsDropped) {
  const LogFolder folder;
  DecisionLog log({.path = folder.File(), .with_hashes = true});
  ASSERT_TRUE(log.Start().ok());
  Decide(log, "long", std::vector<SequenceHash>(kMaxRecordBytes / 8));
  log.Stop();
  EXPECT_EQ(Dropped(log, LogDrop::kTooLarge), 1u);
}

TEST(DecisionLogTest, WhatFindsNoRoomIsDroppedAndCountedOnce) {
  const LogFolder folder;
  std::filesystem::create_directories(folder.File("log.1") + "/in the way");
  DecisionLog log({.path = folder.File(), .max_file_bytes = 4096, .files = 2});
  ASSERT_TRUE(log.Start().ok());
  constexpr uint64_t kDecisions = 1000;
  for (uint64_t i = 0; i < kDecisions; ++i) Decide(log, fmt::format("request-{}", i));
  log.Stop();
  const DecisionLog::Figures figures = log.Read();
  EXPECT_LE(BytesOf(folder.File()).size(), 4096u);
  EXPECT_EQ(figures.records, IdsIn(folder.File()).size());
  EXPECT_EQ(figures.records + Dropped(log, LogDrop::kWrite), kDecisions);
  EXPECT_EQ(figures.queued_bytes, 0u);
  EXPECT_THAT(figures.failure, HasSubstr("cannot put aside"));
}

TEST(DecisionLogTest, HashesAreRecordedOnlyIfWanted) {
  const std::vector<SequenceHash> hashes = {SequenceHash{0x1122334455667788}};
  const std::string bytes = "\x88\x77\x66\x55\x44\x33\x22\x11";
  for (const bool wanted : {false, true}) {
    const LogFolder folder;
    DecisionLog log({.path = folder.File(), .with_hashes = wanted});
    ASSERT_TRUE(log.Start().ok());
    Decide(log, "a", hashes);
    log.Stop();
    EXPECT_EQ(BytesOf(folder.File()).find(bytes) != std::string::npos, wanted);
  }
}

TEST(DecisionLogTest, MoreCandidatesThanTheBoundAreCounted) {
  const LogFolder folder;
  DecisionLog log({.path = folder.File(), .max_candidates = 1});
  ASSERT_TRUE(log.Start().ok());
  Decide(log, "a");
  log.Stop();
  EXPECT_EQ(log.Read().without_candidates, 1u);
  EXPECT_THAT(IdsIn(folder.File()), ElementsAre("a"));
}

// Whoever decides is never kept waiting, whatever the file does; each decision is written or
// counted. Run under ThreadSanitizer, too.
TEST(DecisionLogTest, ManyThreadsLoseNothingThatIsNotCounted) {
  constexpr int kThreads = 4;
  constexpr int kEach = 500;
  const LogFolder folder;
  DecisionLog log(
      {.path = folder.File(), .max_file_bytes = 8192, .files = 1000, .max_queue_bytes = 4096});
  ASSERT_TRUE(log.Start().ok());
  {
    std::vector<std::jthread> threads;
    for (int thread = 0; thread < kThreads; ++thread) {
      threads.emplace_back([&log, thread] {
        for (int i = 0; i < kEach; ++i) Decide(log, fmt::format("{}-{}", thread, i));
      });
    }
  }
  log.Stop();
  const DecisionLog::Figures figures = log.Read();
  EXPECT_EQ(figures.records + Dropped(log, LogDrop::kQueueFull), uint64_t{kThreads * kEach});
  EXPECT_EQ(figures.failure, "");
  std::set<std::string> ids;
  size_t read = 0;
  for (const std::string& name : folder.Names()) {
    EXPECT_LE(BytesOf(folder.File(name)).size(), 8192u) << name;
    for (const std::string& id : IdsIn(folder.File(name))) {
      ids.insert(id);
      ++read;
    }
  }
  EXPECT_EQ(read, figures.records);
  EXPECT_EQ(ids.size(), read) << "a record is in the log once";
  EXPECT_EQ(folder.Names().size(), figures.rotations + 1);
}

}  // namespace
}  // namespace kvrouter
