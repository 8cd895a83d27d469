#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <string_view>

#include "kvrouter/decision_record.h"

namespace kvrouter {
namespace {

using ::testing::HasSubstr;

DecisionRecord ARecord(uint64_t number) {
  DecisionRecord record;
  record.unix_ms = 1'700'000'000'000 + number;
  record.config_generation = 3;
  record.request_id = fmt::format("request-{}", number);
  record.model_name = "model";
  record.routing_group = "group";
  record.booked = number % 2 == 0;
  record.isl_tokens = 1000;
  record.block_size_tokens = 16;
  record.weights.cost.overlap_score_credit = 0.3;
  record.weights.track_prefill_tokens = false;
  record.weights.decode_pool = true;
  record.weights.least_active_prefill_tokens = 17;
  record.temperature = 0.25;
  record.overridden.router_temperature = true;
  record.candidates = {{.target = {WorkerId{7}, 1},
                        .device_overlap_blocks = 2.5,
                        .active_prefill_tokens = 100,
                        .active_decode_blocks = 3,
                        .additional_decode_blocks = 9,
                        .active_requests = 2},
                       {.target = {WorkerId{~uint64_t{0}}, 0},
                        .host_overlap_blocks = 1,
                        .disk_overlap_blocks = 2,
                        .shared_overlap_blocks = 3,
                        .additional_decode_blocks = 9,
                        .taint_multiplier = 0.5}};
  record.candidate_count = 2;
  record.reason = DecisionReason::kSampled;
  record.target = {WorkerId{7}, 1};
  record.draw = 0.123;
  record.sequence_hashes = {SequenceHash{1}, SequenceHash{~uint64_t{0}}};
  return record;
}

struct Outcome {
  size_t records = 0;
  size_t cut_off_bytes = 0;
  absl::Status status;
};
Outcome ReadAll(std::string_view file) {
  DecisionLogReader reader([&file](char* out, size_t bytes) {
    const size_t got = std::min(bytes, file.size());
    std::copy_n(file.data(), got, out);
    file.remove_prefix(got);
    return got;
  });
  Outcome outcome;
  for (;;) {
    const auto record = reader.Next();
    outcome.status = record.status();
    if (!record.ok() || !*record) break;
    ++outcome.records;
  }
  outcome.cut_off_bytes = reader.CutOffBytes();
  return outcome;
}

TEST(DecisionLogReaderTest, ARecordComesBackAsItWas) {
  const DecisionRecord record = ARecord(4);
  const std::string bytes = EncodeRecord(record);
  const auto back = DecodeRecordPayload(std::string_view(bytes).substr(8));
  ASSERT_TRUE(back.ok()) << back.status();
  EXPECT_EQ(back->unix_ms, record.unix_ms);
  EXPECT_EQ(back->config_generation, 3u);
  EXPECT_EQ(back->request_id, "request-4");
  EXPECT_EQ(back->model_name, "model");
  EXPECT_EQ(back->routing_group, "group");
  EXPECT_TRUE(back->booked);
  EXPECT_EQ(back->isl_tokens, 1000u);
  EXPECT_EQ(back->block_size_tokens, 16u);
  EXPECT_EQ(back->weights.cost, record.weights.cost);
  EXPECT_FALSE(back->weights.track_prefill_tokens);
  EXPECT_TRUE(back->weights.assume_kv_reuse);
  EXPECT_TRUE(back->weights.decode_pool);
  EXPECT_EQ(back->weights.least_active_prefill_tokens, 17u);
  EXPECT_EQ(back->temperature, 0.25);
  EXPECT_EQ(back->overridden, record.overridden);
  EXPECT_EQ(back->candidates, record.candidates);
  EXPECT_EQ(back->candidate_count, 2u);
  EXPECT_EQ(back->reason, DecisionReason::kSampled);
  EXPECT_EQ(back->target, record.target);
  EXPECT_EQ(back->tie_size, 1u);
  EXPECT_EQ(back->draw, 0.123);
  EXPECT_EQ(back->sequence_hashes, record.sequence_hashes);
}

// Whoever writes may die at any byte: what was whole before stays readable.
TEST(DecisionLogReaderTest, AFileThatBreaksOffAnywhereGivesWhatIsWholeAndSaysWhatIsNot) {
  const std::string header = DecisionLogHeader();
  const std::string one = EncodeRecord(ARecord(1));
  const std::string file = header + one + EncodeRecord(ARecord(2));
  for (size_t bytes = 0; bytes <= file.size(); ++bytes) {
    SCOPED_TRACE(fmt::format("{} of {} bytes", bytes, file.size()));
    const Outcome outcome = ReadAll(std::string_view(file).substr(0, bytes));
    ASSERT_TRUE(outcome.status.ok()) << outcome.status;
    const size_t whole = bytes == file.size() ? 2u : bytes >= header.size() + one.size() ? 1u : 0u;
    EXPECT_EQ(outcome.records, whole);
    const bool between = bytes == 0 || bytes == header.size() ||
                         bytes == header.size() + one.size() || bytes == file.size();
    EXPECT_EQ(outcome.cut_off_bytes == 0, between);
  }
}

TEST(DecisionLogReaderTest, ATurnedBitIsAnErrorAfterWhatCameBefore) {
  const std::string header = DecisionLogHeader();
  const std::string one = EncodeRecord(ARecord(1));
  for (size_t at = header.size() + one.size() + 4; at < header.size() + 2 * one.size(); ++at) {
    std::string file = header + one + EncodeRecord(ARecord(3));
    file[at] = static_cast<char>(file[at] ^ 0x10);
    const Outcome outcome = ReadAll(file);
    EXPECT_EQ(outcome.records, 1u) << at;
    EXPECT_THAT(std::string(outcome.status.message()), HasSubstr("after 1 good records")) << at;
  }
}

TEST(DecisionLogReaderTest, WhatIsNoLogOrALaterOneIsNamed) {
  EXPECT_THAT(std::string(ReadAll("#!/bin/sh and so on, long enough").status.message()),
              HasSubstr("this is no decision log"));
  std::string later = DecisionLogHeader();
  later[8] = 9;
  EXPECT_THAT(std::string(ReadAll(later).status.message()), HasSubstr("of version 9"));
  std::string damaged = DecisionLogHeader();
  damaged[20] = static_cast<char>(damaged[20] ^ 1);
  EXPECT_THAT(std::string(ReadAll(damaged).status.message()), HasSubstr("header is damaged"));
}

TEST(DecisionLogReaderTest, AnUnbelievableLengthIsNotAllocated) {
  const Outcome outcome = ReadAll(DecisionLogHeader() + std::string(8, '\xff'));
  EXPECT_THAT(std::string(outcome.status.message()), HasSubstr("more than"));
}

TEST(DecisionLogReaderTest, ARecordThatIsTooLargeIsNotWritten) {
  DecisionRecord record = ARecord(1);
  record.sequence_hashes.assign(kMaxRecordBytes / 8, SequenceHash{1});
  EXPECT_EQ(EncodeRecord(record), "");
}

}  // namespace
}  // namespace kvrouter
