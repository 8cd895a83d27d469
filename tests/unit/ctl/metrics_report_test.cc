#include "ctl/metrics_report.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "client/exposition.h"

namespace kvrouter::ctl {
namespace {

using client::ParseExposition;
using testing::ContainsRegex;
using testing::HasSubstr;
using testing::Not;

// The two requests that show why the weightings differ: 1 block with no hit, 100 blocks with 99
// hits.
constexpr char kScrape[] = R"(# HELP dynamo_component_router_kv_hit_rate ratio per request
# TYPE dynamo_component_router_kv_hit_rate histogram
dynamo_component_router_kv_hit_rate_bucket{router_id="1",le="0"} 1
dynamo_component_router_kv_hit_rate_bucket{router_id="1",le="+Inf"} 2
dynamo_component_router_kv_hit_rate_sum{router_id="1"} 0.99
dynamo_component_router_kv_hit_rate_count{router_id="1"} 2
dynamo_component_router_kv_overlap_blocks_total{router_id="1"} 99
dynamo_component_router_kv_isl_blocks_total{router_id="1"} 101
kvrouter_overlap_tokens_total 1584
kvrouter_isl_tokens_total 1616
dynamo_frontend_worker_active_decode_blocks{worker_id="10",dp_rank="0",worker_type="decode"} 12.5
dynamo_frontend_worker_active_decode_blocks{worker_id="9",dp_rank="0",worker_type="decode"} 3
dynamo_frontend_worker_active_prefill_tokens{worker_id="9",dp_rank="0",worker_type="decode"} 160
kvrouter_feed_skipped_total{reason="bad_event"} 0
kvrouter_feed_skipped_total{reason="block_size"} 4
kvrouter_feed_state{worker_id="9",dp_rank="0",state="live"} 0
kvrouter_feed_state{worker_id="9",dp_rank="0",state="degraded"} 1
kvrouter_bookings 2
process_open_fds 12
)";

TEST(MetricsReportTest, ShowsTheThreeWeightingsAndSaysWhyTheyDiffer) {
  const std::string text = MetricsText(ParseExposition(kScrape));
  EXPECT_THAT(text, ContainsRegex("token-weighted +0.9802 +1584 +1616"));
  EXPECT_THAT(text, ContainsRegex("block-weighted +0.9802 +99 +101"));
  EXPECT_THAT(text, ContainsRegex("request-weighted +0.4950 +0.99 +2"));
  EXPECT_THAT(text, HasSubstr("differ by design"));
}

TEST(MetricsReportTest, ShowsTargetsInNumericOrderAndOnlyWhatSaysSomething) {
  const std::string text = MetricsText(ParseExposition(kScrape));
  EXPECT_THAT(text, ContainsRegex("9 +0 +degraded +3 +160\n +10 +0 +- +12.5 +-\n"));
  EXPECT_THAT(text, HasSubstr("reason=block_size"));
  EXPECT_THAT(text, Not(HasSubstr("bad_event")));
  EXPECT_THAT(text, Not(HasSubstr("_bucket")));
  EXPECT_THAT(text, Not(HasSubstr("process_")));
  EXPECT_THAT(text, ContainsRegex("kvrouter_bookings +2\n"));
}

TEST(MetricsReportTest, NothingRoutedYetIsNotZero) {
  const std::string text = MetricsText(ParseExposition("kvrouter_isl_tokens_total 0\n"));
  EXPECT_THAT(text, ContainsRegex("token-weighted +- "));
  const auto json =
      nlohmann::json::parse(MetricsJson(ParseExposition("kvrouter_isl_tokens_total 0\n")));
  EXPECT_TRUE(json["hit_rates"]["token_weighted"].is_null());
}

TEST(MetricsReportTest, JsonCarriesTheSameFigures) {
  const auto json = nlohmann::json::parse(MetricsJson(ParseExposition(kScrape)));
  EXPECT_DOUBLE_EQ(json["hit_rates"]["request_weighted"], 0.495);
  EXPECT_DOUBLE_EQ(json["hit_rates"]["block_weighted"], 99.0 / 101.0);
  EXPECT_EQ(json["targets"][0]["worker_id"], 9);
  EXPECT_EQ(json["targets"][0]["states"]["kvrouter_feed_state"], "degraded");
  EXPECT_EQ(json["targets"][1]["figures"]["dynamo_frontend_worker_active_decode_blocks"], 12.5);
}

TEST(MetricsReportTest, PrefixShowsEverySeries) {
  const auto samples = ParseExposition(kScrape);
  EXPECT_THAT(SeriesText(samples, "dynamo_component_router_kv_hit_rate"), HasSubstr("le=+Inf"));
  const auto json = nlohmann::json::parse(SeriesJson(samples, "kvrouter_feed_skipped_total"));
  EXPECT_EQ(json.size(), 2u);
  EXPECT_EQ(json[0]["labels"]["reason"], "bad_event");
}

}  // namespace
}  // namespace kvrouter::ctl
