#include "daemon/state_log.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace kvrouter {
namespace {

using testing::HasSubstr;

WorkerSpec Worker(uint64_t id, uint64_t incarnation = 1) {
  WorkerSpec spec;
  spec.id = WorkerId{id};
  spec.incarnation = Incarnation{incarnation};
  spec.address = "http://h:1";
  spec.block_size_tokens = 16;
  return spec;
}

TEST(StateLogTest, SaysOnceWhoJoinedAndWhoLeft) {
  StateLog log;
  const auto joined = log.Changes({Worker(1), Worker(2)}, {});
  ASSERT_EQ(joined.size(), 2u);
  EXPECT_EQ(joined[0].text,
            "event=worker_joined worker_id=1 incarnation=1 model=default routing_group=default "
            "role=aggregated "
            "address=http://h:1 block_size=16 dp_start_rank=0 dp_size=1");
  EXPECT_TRUE(log.Changes({Worker(1), Worker(2)}, {}).empty());
  const auto left = log.Changes({Worker(2)}, {});
  ASSERT_EQ(left.size(), 1u);
  EXPECT_EQ(left[0].text, "event=worker_left worker_id=1");
}

TEST(StateLogTest, TellsRestartDrainAndOtherChangesApart) {
  StateLog log;
  log.Changes({Worker(1), Worker(2), Worker(3)}, {});
  WorkerSpec drained = Worker(2);
  drained.draining = true;
  WorkerSpec moved = Worker(3);
  moved.address = "http://other:1";
  const auto lines = log.Changes({Worker(1, 2), drained, moved}, {});
  ASSERT_EQ(lines.size(), 3u);
  EXPECT_THAT(lines[0].text, HasSubstr("event=worker_restarted worker_id=1 incarnation=2"));
  EXPECT_EQ(lines[1].text, "event=worker_draining worker_id=2");
  EXPECT_THAT(lines[2].text, HasSubstr("event=worker_changed worker_id=3"));
}

TEST(StateLogTest, FeedStatesGapsAndRestartsAreLines) {
  StateLog log;
  FeedReport report{
      .target = {WorkerId{1}, 2}, .state = FeedState::kLive, .detail = "", .counters = {}};
  const auto live = log.Changes({}, {report});
  ASSERT_EQ(live.size(), 1u);
  EXPECT_FALSE(live[0].warning);
  EXPECT_EQ(live[0].text, "event=feed_state worker_id=1 dp_rank=2 from=none to=live detail=\"\"");
  report.state = FeedState::kDegraded;
  report.detail = "replay \"timed\" out";
  report.counters.gaps = 3;
  const auto degraded = log.Changes({}, {report});
  ASSERT_EQ(degraded.size(), 2u);
  EXPECT_TRUE(degraded[0].warning);
  EXPECT_THAT(degraded[0].text, HasSubstr(R"(to=degraded detail="replay \"timed\" out")"));
  EXPECT_EQ(degraded[1].text, "event=feed_gap worker_id=1 dp_rank=2 count=3 total=3");
  report.counters = {};  // a new life counts from 0
  EXPECT_TRUE(log.Changes({}, {report}).empty());
}

// A broker that is not there, or refuses us, changes no state of a rank that was never heard.
TEST(StateLogTest, WhyRanksWaitForTheEventPlaneIsOneLineForAllAndOnce) {
  StateLog log;
  std::vector<FeedReport> reports;
  for (uint32_t rank = 0; rank < 3; ++rank) {
    reports.push_back({.target = {WorkerId{1}, rank},
                       .source = FeedSource::kEventPlane,
                       .state = FeedState::kConnecting,
                       .detail = "no event yet",
                       .counters = {}});
  }
  const auto all = [&](const std::string& detail) {
    for (FeedReport& report : reports) report.detail = detail;
    return log.Changes({}, reports);
  };
  EXPECT_EQ(all("no event yet").size(), 3u) << "their states";
  const auto refused = all("nats://h:1: not allowed");
  ASSERT_EQ(refused.size(), 1u);
  EXPECT_TRUE(refused[0].warning);
  EXPECT_EQ(refused[0].text, "event=event_plane_waits ranks=3 detail=\"nats://h:1: not allowed\"");
  EXPECT_TRUE(all("nats://h:1: not allowed").empty());
  EXPECT_EQ(all("no event yet").size(), 1u) << "it is there again";
  EXPECT_TRUE(all("nats://h:1: not allowed").empty()) << "flaps are no news";
  for (int i = 0; i < 100; ++i) all(std::to_string(i));
  EXPECT_TRUE(all("one more").empty()) << "bounded";
  for (FeedReport& report : reports) report.state = FeedState::kLive;
  EXPECT_EQ(all("").size(), 3u);
  for (FeedReport& report : reports) report.state = FeedState::kConnecting;
  EXPECT_EQ(all("nats://h:1: gone").size(), 3u) << "in the lines of their states";
  EXPECT_EQ(all("nats://h:1: not allowed").size(), 1u);
}

TEST(StateLogTest, ValueCannotForgeALine) {
  EXPECT_EQ(LogValue("plain"), "plain");
  EXPECT_EQ(LogValue("a b"), "\"a b\"");
  EXPECT_EQ(LogValue("x\nevent=ready"), "\"x\\x0aevent=ready\"");
  EXPECT_EQ(LogValue("a=b"), "\"a=b\"");
}

}  // namespace
}  // namespace kvrouter
