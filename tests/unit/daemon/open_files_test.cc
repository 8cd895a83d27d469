#include "daemon/open_files.h"

#include <gtest/gtest.h>
#include <sys/resource.h>

namespace kvrouter {
namespace {

TEST(OpenFilesTest, TheLimitIsRaisedToTheHardOne) {
  rlimit before{};
  ASSERT_EQ(getrlimit(RLIMIT_NOFILE, &before), 0);
  rlimit low = before;
  low.rlim_cur = before.rlim_max / 2;
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &low), 0);
  EXPECT_EQ(RaiseOpenFileLimit(), before.rlim_max);
  rlimit after{};
  ASSERT_EQ(getrlimit(RLIMIT_NOFILE, &after), 0);
  EXPECT_EQ(after.rlim_cur, before.rlim_max);
}

TEST(OpenFilesTest, OnlyRanksWithEventsCount) {
  WorkerSpec two_of_four;
  two_of_four.dp_size = 4;
  two_of_four.events[0].live = "tcp://h:1";
  two_of_four.events[3].live = "tcp://h:2";
  EXPECT_EQ(EventRanks({two_of_four, WorkerSpec{}}), 2u);
}

}  // namespace
}  // namespace kvrouter
