#include "adapters/snapshot/snapshot_file.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdio>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <thread>
#include <vector>

namespace kvrouter {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr uint64_t kNoLimit = uint64_t{1} << 40;

class SnapshotFileTest : public ::testing::Test {
 protected:
  SnapshotFileTest() {
    const auto* info = testing::UnitTest::GetInstance()->current_test_info();
    folder_ = fmt::format("{}/kvrouter_snapshot_{}", testing::TempDir(), info->name());
    std::filesystem::remove_all(folder_);
    std::filesystem::create_directory(folder_);
    path_ = folder_ + "/kv.snapshot";
  }
  ~SnapshotFileTest() override { std::filesystem::remove_all(folder_); }

  void Put(const std::string& payload) {
    SnapshotFileWriter writer(path_, kNoLimit);
    ASSERT_TRUE(writer.Open(1000).ok());
    ASSERT_TRUE(writer.Append(payload).ok());
    ASSERT_TRUE(writer.Commit().ok());
  }
  std::string Bytes() const {
    std::ifstream file(path_, std::ios::binary);
    return {std::istreambuf_iterator<char>(file), {}};
  }
  bool TemporaryExists() const { return std::filesystem::exists(path_ + ".tmp"); }

  std::string folder_;
  std::string path_;
};

TEST_F(SnapshotFileTest, WhatWasCommittedIsRead) {
  SnapshotFileWriter writer(path_, kNoLimit);
  ASSERT_TRUE(writer.Open(1234).ok());
  ASSERT_TRUE(writer.Append("one").ok());
  ASSERT_TRUE(writer.Append("").ok());
  EXPECT_FALSE(std::filesystem::exists(path_)) << "not before Commit";
  ASSERT_TRUE(writer.Commit().ok());
  EXPECT_FALSE(TemporaryExists());
  EXPECT_EQ(writer.bytes(), std::filesystem::file_size(path_));
  const auto contents = ReadSnapshotFile(path_, kNoLimit);
  ASSERT_TRUE(contents.ok()) << contents.status();
  EXPECT_EQ(contents->created_unix_ms, 1234u);
  EXPECT_THAT(contents->payloads, ElementsAre("one", ""));
}

TEST_F(SnapshotFileTest, WithoutCommitTheOneBeforeStays) {
  Put("old");
  {
    SnapshotFileWriter writer(path_, kNoLimit);
    ASSERT_TRUE(writer.Open(2000).ok());
    ASSERT_TRUE(writer.Append("new").ok());
    EXPECT_TRUE(TemporaryExists());
  }
  EXPECT_FALSE(TemporaryExists());
  EXPECT_THAT(ReadSnapshotFile(path_, kNoLimit)->payloads, ElementsAre("old"));
}

TEST_F(SnapshotFileTest, WhatAKilledProcessLeftIsWrittenOver) {
  std::ofstream(path_ + ".tmp") << std::string(100'000, 'x');
  Put("new");
  EXPECT_THAT(ReadSnapshotFile(path_, kNoLimit)->payloads, ElementsAre("new"));
  EXPECT_FALSE(TemporaryExists());
}

TEST_F(SnapshotFileTest, TwoProcessesDoNotWriteAtOnce) {
  SnapshotFileWriter first(path_, kNoLimit);
  ASSERT_TRUE(first.Open(1).ok());
  ASSERT_TRUE(first.Append("first").ok());
  {
    SnapshotFileWriter second(path_, kNoLimit);
    EXPECT_EQ(second.Open(2).code(), absl::StatusCode::kAborted);
  }
  ASSERT_TRUE(first.Commit().ok()) << "unharmed by the one that gave up";
  EXPECT_THAT(ReadSnapshotFile(path_, kNoLimit)->payloads, ElementsAre("first"));
}

// A writer that opened the temporary file just before another one gave it its name must not write
// into the snapshot. Whether the moment is hit is chance, some times in a run like this one.
TEST_F(SnapshotFileTest, WritersInARaceNeverTouchTheSnapshotItself) {
  if (std::filesystem::is_directory("/dev/shm")) {  // where nothing is brought to a disk
    std::filesystem::remove_all(folder_);
    folder_ = fmt::format("/dev/shm/kvrouter_snapshot_race_{}", getpid());
    std::filesystem::create_directory(folder_);
    path_ = folder_ + "/kv.snapshot";
  }
  Put("first");
  constexpr int kRounds = 4000;
  const std::string payload(100, 'x');
  const auto write = [&] {
    for (int i = 0; i < kRounds; ++i) {
      SnapshotFileWriter writer(path_, kNoLimit);
      const absl::Status opened = writer.Open(1000);
      if (!opened.ok()) {
        EXPECT_EQ(opened.code(), absl::StatusCode::kAborted) << opened;
        continue;
      }
      EXPECT_TRUE(writer.Append(payload).ok());
      const absl::Status committed = writer.Commit();
      EXPECT_TRUE(committed.ok()) << committed;
      const auto contents = ReadSnapshotFile(path_, kNoLimit);
      EXPECT_TRUE(contents.ok()) << contents.status();
      if (HasFailure()) return;
    }
  };
  std::vector<std::jthread> writers;
  for (int i = 0; i < 3; ++i) writers.emplace_back(write);
}

TEST_F(SnapshotFileTest, ErrorsTellWhatIsWrong) {
  EXPECT_EQ(ReadSnapshotFile(path_, kNoLimit).status().code(), absl::StatusCode::kNotFound);
  EXPECT_EQ(ReadSnapshotFile(folder_, kNoLimit).status().code(), absl::StatusCode::kUnavailable);
  std::ofstream(path_) << "#!/bin/sh\nsomething else entirely, and longer than a header\n";
  const auto foreign = ReadSnapshotFile(path_, kNoLimit);
  EXPECT_EQ(foreign.status().code(), absl::StatusCode::kDataLoss);
  EXPECT_THAT(std::string(foreign.status().message()), HasSubstr(path_ + ": it is no snapshot"));

  Put(std::string(1000, 'x'));
  EXPECT_EQ(ReadSnapshotFile(path_, 1000).status().code(), absl::StatusCode::kResourceExhausted);
  const std::string whole = Bytes();
  std::ofstream(path_, std::ios::binary | std::ios::trunc) << whole.substr(0, whole.size() - 1);
  EXPECT_EQ(ReadSnapshotFile(path_, kNoLimit).status().code(), absl::StatusCode::kDataLoss);

  SnapshotFileWriter nowhere(folder_ + "/missing/kv.snapshot", kNoLimit);
  EXPECT_EQ(nowhere.Open(1).code(), absl::StatusCode::kUnavailable);
}

TEST_F(SnapshotFileTest, ASnapshotOverItsLimitIsNotWritten) {
  Put("old");
  {
    SnapshotFileWriter writer(path_, 500);
    ASSERT_TRUE(writer.Open(1).ok());
    EXPECT_TRUE(writer.Append(std::string(100, 'x')).ok());
    EXPECT_EQ(writer.Append(std::string(1000, 'x')).code(), absl::StatusCode::kResourceExhausted);
  }
  EXPECT_THAT(ReadSnapshotFile(path_, kNoLimit)->payloads, ElementsAre("old"));
}

}  // namespace
}  // namespace kvrouter
