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

TEST(OpenFilesTest, AFleetFitsOrIsRefusedInOneLine) {
  const SocketLimits plenty{.open_files = 20'000, .zmq_sockets = 65'535, .replays_at_once = 32};
  EXPECT_TRUE(CheckSocketsFit(0, {.open_files = 256, .zmq_sockets = 1}).ok());
  EXPECT_TRUE(CheckSocketsFit(1000, plenty).ok());
  SocketLimits exact = plenty;
  exact.open_files = 4 * 1000 + 2 * 32 + 256;
  EXPECT_TRUE(CheckSocketsFit(1000, exact).ok());
  --exact.open_files;
  EXPECT_EQ(CheckSocketsFit(1000, exact).message(),
            "workers: 1000 ranks with events need 4320 open files, the limit is 4319 (ulimit -Hn); "
            "raise it");
  exact = plenty;
  exact.zmq_sockets = 3 * 1000 + 32 - 1;
  EXPECT_EQ(CheckSocketsFit(1000, exact).message(),
            "workers: 1000 ranks with events need 3032 ZMQ sockets, the library's limit is 3031");
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
