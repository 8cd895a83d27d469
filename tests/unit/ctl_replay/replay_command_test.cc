#include "ctl/replay/replay_command.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>

#include "kvrouter/decision_record.h"
#include "unit/decision_log/log_folder.h"

namespace kvrouter::ctl {
namespace {

using namespace kvrouter::testing;  // NOLINT
using ::testing::HasSubstr;
using ::testing::Not;

// 10 blocks of 16 tokens. Worker 1 holds them and has 4 blocks of prefill pending;
// worker 2 is idle.
DecisionRecord ADecision(const std::string& id, uint64_t chosen = 1) {
  DecisionRecord record;
  record.request_id = id;
  record.model_name = "m";
  record.booked = true;
  record.isl_tokens = 160;
  record.block_size_tokens = 16;
  record.candidates = {
      {.target = {WorkerId{1}, 0}, .device_overlap_blocks = 10, .active_prefill_tokens = 64},
      {.target = {WorkerId{2}, 0}}};
  record.candidate_count = 2;
  record.target = {WorkerId{chosen}, 0};
  return record;
}

ReplayOutcome Replayed(const ReplayOptions& options) {
  const auto outcome = Replay(options);
  EXPECT_TRUE(outcome.ok()) << outcome.status();
  return outcome.ok() ? *outcome : ReplayOutcome{};
}

TEST(ReplayCommandTest, UnchangedSettingsMoveNothing) {
  const LogFolder folder;
  WriteBytes(folder.File(), DecisionLogHeader() + EncodeRecord(ADecision("a")));
  const ReplayOutcome outcome = Replayed({.path = folder.File()});
  EXPECT_EQ(outcome.exit_code, 0);
  EXPECT_EQ(outcome.notes, "");
  EXPECT_THAT(outcome.output, HasSubstr("would move        0 (0 %)"));
}

TEST(ReplayCommandTest, ALogThatIsNotReproducedIsAFailure) {
  const LogFolder folder;
  WriteBytes(folder.File(), DecisionLogHeader() + EncodeRecord(ADecision("a", 2)));
  const ReplayOutcome outcome = Replayed({.path = folder.File()});
  EXPECT_EQ(outcome.exit_code, 1);
  EXPECT_THAT(outcome.notes, HasSubstr("1 of 1 decisions were not reproduced"));
}

TEST(ReplayCommandTest, ADirectoryIsNoLogWithoutDecisions) {
  const LogFolder folder;
  std::filesystem::create_directories(folder.File());
  const auto outcome = Replay({.path = folder.File()});
  EXPECT_THAT(std::string(outcome.status().message()), HasSubstr("it is a directory"));
}

TEST(ReplayCommandTest, SaysWhatChangedSettingsWouldMoveAndWhatThatIsWorth) {
  const LogFolder folder;
  WriteBytes(folder.File("log.1"), DecisionLogHeader() + EncodeRecord(ADecision("older")));
  DecisionRecord without = ADecision("many");
  without.candidates.clear();
  WriteBytes(folder.File(),
             DecisionLogHeader() + EncodeRecord(ADecision("newer")) + EncodeRecord(without));
  ReplayOptions options{
      .path = folder.File(), .set = {"router-kv-overlap-score-credit=0"}, .json = true};
  ReplayOutcome outcome = Replayed(options);
  EXPECT_EQ(outcome.exit_code, 0);
  const auto json = nlohmann::json::parse(outcome.output);
  EXPECT_EQ(json["decisions"], 3);
  EXPECT_EQ(json["replayed"], 2);
  EXPECT_EQ(json["moved"], 2);
  EXPECT_EQ(json["recorded_overlap_blocks"], 20.0);
  EXPECT_EQ(json["overlap_blocks"], 0.0);
  EXPECT_EQ(json["recorded_cost_blocks"], 28.0);
  EXPECT_EQ(json["cost_blocks"], 20.0);
  EXPECT_EQ(json["recorded_prefill_max_over_mean"], 0.0) << "all of it was cached";
  EXPECT_EQ(json["prefill_max_over_mean"], 2.0);
  EXPECT_EQ(json["first_moved"][0]["request_id"], "older") << "files put aside come first";
  EXPECT_EQ(json["first_moved"][0]["to"], "2/0");

  options.json = false;
  options.show = 1;
  outcome = Replayed(options);
  EXPECT_THAT(outcome.output, HasSubstr("older"));
  EXPECT_THAT(outcome.output, Not(HasSubstr("newer")));
  EXPECT_THAT(outcome.output, HasSubstr("... and 1 more"));
  EXPECT_THAT(outcome.output, HasSubstr("cannot be replayed 1"));
  EXPECT_THAT(outcome.output, HasSubstr("would move        2 (100 %)"));
  EXPECT_THAT(outcome.output, HasSubstr("recorded 20, now 0 blocks (-20)"));
}

TEST(ReplayCommandTest, WhatNoCostDecidedIsCountedByItsReason) {
  const LogFolder folder;
  std::string log = DecisionLogHeader() + EncodeRecord(ADecision("by cost"));
  for (const DecisionReason reason :
       {DecisionReason::kSession, DecisionReason::kSession, DecisionReason::kPinned}) {
    DecisionRecord record = ADecision("pinned");
    record.reason = reason;
    log += EncodeRecord(record);
  }
  WriteBytes(folder.File(), log);
  ReplayOptions options{
      .path = folder.File(), .set = {"router-kv-overlap-score-credit=0"}, .json = true};
  const auto json = nlohmann::json::parse(Replayed(options).output);
  EXPECT_EQ(json["moved"], 1);
  EXPECT_EQ(json["not_by_cost"], nlohmann::json({{"session", 2}, {"pinned", 1}}));
  options.json = false;
  EXPECT_THAT(Replayed(options).output,
              HasSubstr("not by cost       3 (pinned 1, session 2): as recorded"));
}

TEST(ReplayCommandTest, WhatBreaksOffIsNotedAndWhatIsDamagedFails) {
  const LogFolder folder;
  const std::string record = EncodeRecord(ADecision("a"));
  WriteBytes(folder.File(), DecisionLogHeader() + record + record.substr(0, 20));
  ReplayOutcome outcome = Replayed({.path = folder.File()});
  EXPECT_EQ(outcome.exit_code, 0);
  EXPECT_THAT(outcome.notes, HasSubstr("ends within a record (20 bytes"));

  std::string damaged = record;
  damaged.back() = static_cast<char>(damaged.back() ^ 1);
  WriteBytes(folder.File(), DecisionLogHeader() + record + damaged + record);
  outcome = Replayed({.path = folder.File()});
  EXPECT_EQ(outcome.exit_code, 1);
  EXPECT_THAT(outcome.notes, HasSubstr("a record is damaged, after 1 good records"));
  EXPECT_THAT(outcome.output, HasSubstr("decisions         1"));
}

TEST(ReplayCommandTest, AnAbsentFileOrAnUnknownSettingIsAnError) {
  const LogFolder folder;
  EXPECT_THAT(std::string(Replay({.path = folder.File("none")}).status().message()),
              HasSubstr("cannot read"));
  EXPECT_THAT(
      std::string(Replay({.path = folder.File(), .set = {"http_listen=x"}}).status().message()),
      HasSubstr("'http_listen' is no setting of the choice"));
}

}  // namespace
}  // namespace kvrouter::ctl
