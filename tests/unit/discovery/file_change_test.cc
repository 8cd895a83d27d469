#include "adapters/discovery/file_change.h"

#include <gtest/gtest.h>

namespace kvrouter {
namespace {

using Verdict = FileChange::Verdict;

FileSignature Version(int64_t n) { return {.device = 1, .inode = 2, .modified_ns = n}; }

TEST(FileChangeTest, KnownContentIsLeftAlone) {
  FileChange change;
  change.Read(Version(1));
  for (int look = 0; look < 3; ++look) EXPECT_EQ(change.Look(Version(1)), Verdict::kNothing);
}

TEST(FileChangeTest, ChangeCountsOnceTwoLooksAgree) {
  FileChange change;
  change.Read(Version(1));
  EXPECT_EQ(change.Look(Version(2)), Verdict::kNothing);
  EXPECT_EQ(change.Look(Version(3)), Verdict::kNothing) << "still being written";
  EXPECT_EQ(change.Look(Version(3)), Verdict::kRead);
}

TEST(FileChangeTest, ContentReadWhileItChangedIsReadAgain) {
  FileChange change;
  (void)change.Look(Version(2));
  EXPECT_EQ(change.Look(Version(2)), Verdict::kRead);  // and Read() is not called
  EXPECT_EQ(change.Look(Version(2)), Verdict::kRead);
}

TEST(FileChangeTest, DisappearanceIsToldOnceAndTheReturnIsRead) {
  FileChange change;
  change.Read(Version(1));
  EXPECT_EQ(change.Look(std::nullopt), Verdict::kVanished);
  EXPECT_EQ(change.Look(std::nullopt), Verdict::kNothing);
  EXPECT_EQ(change.Look(Version(1)), Verdict::kNothing);
  EXPECT_EQ(change.Look(Version(1)), Verdict::kRead);
}

}  // namespace
}  // namespace kvrouter
