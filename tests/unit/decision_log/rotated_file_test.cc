#include "adapters/decision_log/rotated_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>

#include <csignal>
#include <cstdint>
#include <filesystem>
#include <string>

#include "unit/decision_log/log_folder.h"

namespace kvrouter {
namespace {

using namespace kvrouter::testing;  // NOLINT
using ::testing::ElementsAre;
using ::testing::HasSubstr;

RotatedFile::Options In(const LogFolder& folder, uint32_t files = 3) {
  return {.path = folder.File(), .max_bytes = 4096, .files = files};
}

void AppendTo(RotatedFile& file, const std::string& id) {
  const absl::Status status = file.Append(ARecord(id));
  EXPECT_TRUE(status.ok()) << status;
}

TEST(RotatedFileTest, GoesOnWhereTheLastProcessStopped) {
  const LogFolder folder;
  for (const char* id : {"a", "b"}) {
    RotatedFile file(In(folder));
    ASSERT_TRUE(file.Open().ok());
    AppendTo(file, id);
  }
  EXPECT_THAT(IdsIn(folder.File()), ElementsAre("a", "b"));
  EXPECT_THAT(folder.Names(), ElementsAre("log"));
}

TEST(RotatedFileTest, WhatAKilledProcessLeftHalfWrittenIsCutOff) {
  const std::string whole = DecisionLogHeader() + ARecord("a");
  const std::string half = ARecord("lost");
  for (size_t bytes = 1; bytes < half.size(); ++bytes) {
    const LogFolder folder;
    WriteBytes(folder.File(), whole + half.substr(0, bytes));
    RotatedFile file(In(folder));
    ASSERT_TRUE(file.Open().ok());
    AppendTo(file, "b");
    ASSERT_THAT(IdsIn(folder.File()), ElementsAre("a", "b")) << bytes;
  }
}

TEST(RotatedFileTest, AHalfWrittenHeaderIsWrittenAnew) {
  const LogFolder folder;
  WriteBytes(folder.File(), DecisionLogHeader().substr(0, 11));
  RotatedFile file(In(folder));
  ASSERT_TRUE(file.Open().ok());
  AppendTo(file, "a");
  EXPECT_THAT(IdsIn(folder.File()), ElementsAre("a"));
}

// E.g. zeros where a host died before the system had written: such a file must not keep the daemon
// from starting, nor lose what is good in it.
TEST(RotatedFileTest, ADamagedFileIsPutAside) {
  const LogFolder folder;
  WriteBytes(folder.File(), DecisionLogHeader() + ARecord("a") + std::string(100, '\0'));
  RotatedFile file(In(folder));
  ASSERT_TRUE(file.Open().ok());
  AppendTo(file, "b");
  EXPECT_THAT(IdsIn(folder.File("log.1")), ElementsAre("a"));
  EXPECT_THAT(IdsIn(folder.File()), ElementsAre("b"));
}

TEST(RotatedFileTest, AFileThatIsNoLogIsLeftAlone) {
  const LogFolder folder;
  WriteBytes(folder.File(), "precious");
  RotatedFile file(In(folder));
  EXPECT_THAT(std::string(file.Open().message()), HasSubstr("no decision log"));
  EXPECT_EQ(BytesOf(folder.File()), "precious");
}

TEST(RotatedFileTest, FilesArePutAsideAndTheOldestGoes) {
  const LogFolder folder;
  RotatedFile file(In(folder));
  ASSERT_TRUE(file.Open().ok());
  for (const char* id : {"a", "b", "c", "d"}) {
    AppendTo(file, id);
    if (id[0] == 'd') break;
    ASSERT_TRUE(file.Rotate().ok());
  }
  EXPECT_THAT(folder.Names(), ElementsAre("log", "log.1", "log.2"));
  EXPECT_THAT(IdsIn(folder.File()), ElementsAre("d"));
  EXPECT_THAT(IdsIn(folder.File("log.1")), ElementsAre("c"));
  EXPECT_THAT(IdsIn(folder.File("log.2")), ElementsAre("b"));
  EXPECT_EQ(file.rotations(), 3u);
}

TEST(RotatedFileTest, OneFileMayBeAllThereIs) {
  const LogFolder folder;
  RotatedFile file(In(folder, 1));
  ASSERT_TRUE(file.Open().ok());
  AppendTo(file, "a");
  ASSERT_TRUE(file.Rotate().ok());
  AppendTo(file, "b");
  EXPECT_THAT(folder.Names(), ElementsAre("log"));
  EXPECT_THAT(IdsIn(folder.File()), ElementsAre("b"));
}

// Where its folder lets nothing be renamed, say; here something is in the way.
TEST(RotatedFileTest, AFileThatCannotBePutAsideGrowsNoFurther) {
  const LogFolder folder;
  std::filesystem::create_directories(folder.File("log.1") + "/in the way");
  RotatedFile file(In(folder, 2));
  const std::string record = ARecord("a");
  uint64_t written = 0;
  absl::Status full;
  while ((full = file.MakeRoomFor(record.size())).ok() && written < 1000) {
    AppendTo(file, "a");
    ++written;
  }
  EXPECT_THAT(std::string(full.message()), HasSubstr("cannot put aside"));
  for (int i = 0; i < 5; ++i) EXPECT_FALSE(file.MakeRoomFor(record.size()).ok());
  EXPECT_LE(std::filesystem::file_size(folder.File()), 4096u);
  EXPECT_EQ(IdsIn(folder.File()).size(), written);
  EXPECT_EQ(file.rotations(), 0u);

  std::filesystem::remove_all(folder.File("log.1"));
  ASSERT_TRUE(file.MakeRoomFor(record.size()).ok());
  AppendTo(file, "b");
  EXPECT_THAT(IdsIn(folder.File()), ElementsAre("b"));
  EXPECT_EQ(IdsIn(folder.File("log.1")).size(), written);
}

TEST(RotatedFileTest, TwoProcessesDoNotWriteToOneFile) {
  const LogFolder folder;
  RotatedFile first(In(folder));
  RotatedFile second(In(folder));
  ASSERT_TRUE(first.Open().ok());
  EXPECT_THAT(std::string(second.Open().message()), HasSubstr("another process writes to it"));
}

// As a full disk: the file may not grow. What was whole stays whole, and it goes on later.
TEST(RotatedFileTest, AWriteThatFailsLeavesNoHalfRecord) {
  const LogFolder folder;
  RotatedFile file(In(folder));
  ASSERT_TRUE(file.Open().ok());
  AppendTo(file, "a");
  std::signal(SIGXFSZ, SIG_IGN);
  rlimit before{};
  ASSERT_EQ(getrlimit(RLIMIT_FSIZE, &before), 0);
  rlimit full = before;
  full.rlim_cur = file.size_bytes() + 5;
  ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &full), 0);
  const absl::Status failed = file.Append(ARecord("lost"));
  ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &before), 0);
  EXPECT_THAT(std::string(failed.message()), HasSubstr("cannot write"));
  AppendTo(file, "b");
  EXPECT_THAT(IdsIn(folder.File()), ElementsAre("a", "b"));
}

}  // namespace
}  // namespace kvrouter
