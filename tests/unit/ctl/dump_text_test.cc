#include "ctl/dump_text.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

namespace kvrouter::ctl {
namespace {

TEST(DumpTextTest, ALineIsDynamosRecordAndExactTo64Bits) {
  v1::DumpedEvent event;
  event.mutable_target()->set_worker_id(7587890043311737930u);
  event.mutable_target()->set_dp_rank(1);
  event.set_incarnation(4);
  event.set_event_id(9);
  event.mutable_stored()->set_block_size_tokens(16);
  event.mutable_stored()->set_parent_hash(0);
  event.mutable_stored()->set_medium("GPU");
  for (const uint64_t hash : {~uint64_t{0}, uint64_t{3}}) {
    event.mutable_stored()->add_engine_hashes(hash);
    event.mutable_stored()->add_local_block_hashes(hash - 1);
  }
  const std::string line = DumpLine("m\"x", "g", event);
  EXPECT_EQ(line.find('\n'), line.size() - 1);
  const auto record = nlohmann::json::parse(line);
  EXPECT_EQ(record["key"], "m\"x:g");
  EXPECT_EQ(record["block_size"], 16);
  EXPECT_EQ(record["event"]["worker_id"], 7587890043311737930u);
  EXPECT_EQ(record["event"]["storage_tier"], "device");
  const auto& inner = record["event"]["event"];
  EXPECT_EQ(inner["event_id"], 9);
  EXPECT_EQ(inner["dp_rank"], 1);
  const auto& stored = inner["data"]["stored"];
  EXPECT_EQ(stored["parent_hash"], 0) << "a parent named 0 is a parent";
  ASSERT_EQ(stored["blocks"].size(), 2u);
  EXPECT_EQ(stored["blocks"][0]["block_hash"], ~uint64_t{0});
  EXPECT_EQ(stored["blocks"][1]["tokens_hash"], 2);
}

TEST(DumpTextTest, ASequencesStartHasNoParent) {
  v1::DumpedEvent event;
  event.mutable_stored()->add_engine_hashes(1);
  event.mutable_stored()->add_local_block_hashes(2);
  const auto record = nlohmann::json::parse(DumpLine("m", "g", event));
  EXPECT_TRUE(record["event"]["event"]["data"]["stored"]["parent_hash"].is_null());
}

TEST(DumpTextTest, TheSummaryTellsWhatIsMissing) {
  v1::DumpCounts counts;
  counts.set_events(2);
  counts.set_blocks(300);
  EXPECT_EQ(DumpSummary(counts), "2 events, 300 blocks\n");
  counts.set_omitted_blocks(4);
  EXPECT_EQ(DumpSummary(counts), "2 events, 300 blocks; 4 blocks behind a hole left out\n");
}

}  // namespace
}  // namespace kvrouter::ctl
