#include "adapters/http/status_page.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace kvrouter {
namespace {

using testing::HasSubstr;
using testing::Not;

StatusReport ReportWithWorker() {
  StatusReport report;
  report.version = "1.2.3";
  report.readiness = {.ready = true, .schedulable_workers = 1, .reason = ""};
  WorkerSpec worker;
  worker.id = WorkerId{7};
  worker.address = "http://w7:8000";
  report.workers.push_back(worker);
  PartitionSnapshot partition;
  partition.model_name = "m";
  partition.routing_group = "g";
  partition.loads.push_back(
      {.target = {WorkerId{7}, 1}, .active_prefill_tokens = 4321, .ejected_until = {}});
  report.partitions.push_back(partition);
  FeedReport feed;
  feed.target = {WorkerId{7}, 1};
  feed.state = FeedState::kLive;
  report.feeds.push_back(feed);
  return report;
}

TEST(StatusPageTest, ShowsVersionReadinessAndEveryRanksLoad) {
  const std::string page = StatusPageHtml(ReportWithWorker());
  EXPECT_THAT(page, HasSubstr("kvrouter 1.2.3"));
  EXPECT_THAT(page, HasSubstr("<span class=good>ready</span>, 1 schedulable"));
  EXPECT_THAT(page, HasSubstr("<td>7/1<td>http://w7:8000"));
  EXPECT_THAT(page, HasSubstr("4321"));
  EXPECT_THAT(page, HasSubstr("All 1 event feeds are live"));
}

TEST(StatusPageTest, ThreeHitRatesSayWhatTheyAreWeightedBy) {
  StatusReport report;
  // One long request that hits, three short ones that cannot.
  report.hits = {.requests = 4,
                 .hit_ratio_sum = 0.8,
                 .overlap_blocks = 80,
                 .isl_blocks = 106,
                 .overlap_tokens = 1280,
                 .isl_tokens = 1600,
                 .best_overlap_tokens = 1440};
  const std::string page = StatusPageHtml(report);
  EXPECT_THAT(page, HasSubstr("<tr><td>token<td class=n>80.0 %"));
  EXPECT_THAT(page, HasSubstr("<tr><td>block<td class=n>75.5 %"));
  EXPECT_THAT(page, HasSubstr("<tr><td>request<td class=n>20.0 %"));
  EXPECT_THAT(page, HasSubstr("90.0 % were cached somewhere eligible, and 80.0 %"));
}

TEST(StatusPageTest, BlindAndColdAreToldApart) {
  EXPECT_THAT(StatusPageHtml({}), HasSubstr("the router is blind"));
  StatusReport report = ReportWithWorker();
  report.feeds[0].state = FeedState::kDegraded;
  report.feeds[0].detail = "gap";
  EXPECT_THAT(StatusPageHtml(report), HasSubstr("1 of 1 event feeds are not live"));
  EXPECT_THAT(StatusPageHtml(report), HasSubstr("degraded: gap"));
}

TEST(StatusPageTest, TheOpenAiDoorSaysWhereHowAndWhetherItCanDispatch) {
  StatusReport report = ReportWithWorker();
  EXPECT_THAT(StatusPageHtml(report), Not(HasSubstr("OpenAI door")));
  report.dispatch = {.address = "127.0.0.1:8080", .running = 2};
  report.readiness.openai_door = {.address = "127.0.0.1:8080", .tls = true, .engines = 3};
  EXPECT_THAT(StatusPageHtml(report), HasSubstr("OpenAI door on 127.0.0.1:8080 (TLS), 3 engines to "
                                                "send to: 2 requests running"));
  report.readiness.openai_door = {.address = "127.0.0.1:8080", .problem = "no <worker>"};
  EXPECT_THAT(StatusPageHtml(report),
              HasSubstr("(plain text), <span class=bad>cannot dispatch</span>: no &lt;worker&gt;"));
}

TEST(StatusPageTest, NothingFromOutsideBecomesMarkup) {
  StatusReport report = ReportWithWorker();
  report.partitions[0].model_name = "<script>alert(1)</script>";
  report.workers[0].address = "\"'><img src=x>";
  RecentDecision recent;
  recent.request_id = "a b/../\" onclick=x<";
  report.recent.push_back(recent);
  report.readiness = {.ready = false, .reason = "<b>"};
  const std::string page = StatusPageHtml(report);
  EXPECT_THAT(page, Not(HasSubstr("<script")));
  EXPECT_THAT(page, Not(HasSubstr("<img")));
  EXPECT_THAT(page, Not(HasSubstr("<b>")));
  EXPECT_THAT(page, HasSubstr("href=/explain/a%20b%2F%2E%2E%2F%22%20onclick%3Dx%3C>a b/../"));
}

TEST(StatusPageTest, LongListsAreCutAndSaySo) {
  StatusReport report = ReportWithWorker();
  const TargetLoad load = report.partitions[0].loads[0];
  report.partitions[0].loads.assign(kMaxStatusTargets + 5, load);
  report.recent.resize(kMaxStatusDecisions + 5);
  const std::string page = StatusPageHtml(report);
  EXPECT_THAT(page, HasSubstr("and 5 more ranks"));
  size_t rows = 0;
  for (size_t at = 0; (at = page.find("<tr><td><a href=/explain/", at)) != std::string::npos; ++at)
    ++rows;
  EXPECT_EQ(rows, kMaxStatusDecisions);
}

}  // namespace
}  // namespace kvrouter
