#include "feed/saved_feed_codec.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "feed/snapshot_frames.h"

namespace kvrouter {
namespace {

using ::testing::HasSubstr;

SavedFeed AFeed() {
  SavedFeed feed;
  feed.spec.id = WorkerId{~uint64_t{0} - 3};
  feed.spec.incarnation = Incarnation{uint64_t{1} << 40};
  feed.spec.model_name = "m";
  feed.spec.routing_group = "group é";
  feed.spec.block_size_tokens = 16;
  feed.spec.dp_start_rank = 2;
  feed.spec.dp_size = 2;
  feed.spec.is_eagle = true;
  feed.spec.image_token_id = 151655;
  feed.rank = 3;
  feed.spec.events[3] = {.live = "tcp://10.0.0.1:5557", .replay = "tcp://10.0.0.1:5558"};
  feed.progress.applied = {.sequence = 1'000'000, .ts_seconds = 1700000000.5};
  feed.progress.base_sequence = 7;
  feed.progress.orphan_stores = 300;
  feed.progress.history_truncated = true;
  feed.progress.damage = "history before sequence 7 is unknown";
  feed.progress.damage_reason = DegradedReason::kHistoryUnknown;
  SavedRank rank{.dp_rank = 3, .held_blocks = 3, .filter = {}, .blocks = {}};
  rank.filter.main_group = 1;
  rank.filter.group_is_full_attention = {{0, false}, {1, true}};
  rank.filter.skipped_blocks = {{.hash = 5, .note = SkipReason::kMultimodal, .count = 2},
                                {.hash = 6, .note = SkipReason::kPlaceholder, .count = 1}};
  rank.filter.salts = {{.hash = 9, .note = ~uint64_t{0}, .count = 1}};
  const auto block = [](uint64_t name, uint64_t content) {
    return StoredBlock{EngineHash{name}, LocalBlockHash{content}};
  };
  rank.blocks = {{.tier = StorageTier::kDevice,
                  .data = Stored{.parent = {}, .blocks = {block(0, 11), block(~uint64_t{0}, 12)}}},
                 {.tier = StorageTier::kDevice,
                  .data = Stored{.parent = EngineHash{~uint64_t{0}}, .blocks = {block(2, 13)}}},
                 {.tier = StorageTier::kDisk,
                  .data = Stored{.parent = EngineHash{0}, .blocks = {block(3, 14)}}},
                 {.tier = StorageTier::kExternal, .data = Removed{{EngineHash{2}, EngineHash{3}}}}};
  feed.progress.ranks = {rank, {.dp_rank = 2, .held_blocks = 0, .filter = {}, .blocks = {}}};
  return feed;
}

// Everything that a feed holds, as text: its types have no equality of their own.
std::string TextOf(const SavedEvent& event) {
  std::string text = std::to_string(static_cast<int>(event.tier));
  if (const auto* removed = std::get_if<Removed>(&event.data)) {
    for (const EngineHash hash : removed->engine_hashes)
      text += " -" + std::to_string(static_cast<uint64_t>(hash));
    return text;
  }
  const auto& stored = std::get<Stored>(event.data);
  if (stored.parent) text += " after " + std::to_string(static_cast<uint64_t>(*stored.parent));
  for (const StoredBlock& block : stored.blocks) {
    text += " +" + std::to_string(static_cast<uint64_t>(block.engine_hash)) + "=" +
            std::to_string(static_cast<uint64_t>(block.local_hash));
  }
  return text;
}

TEST(SavedFeedCodecTest, WhatWasWrittenIsRead) {
  const SavedFeed feed = AFeed();
  const auto read = DecodeFeed(EncodeFeed(feed));
  ASSERT_TRUE(read.ok()) << read.status();
  EXPECT_EQ(read->spec, feed.spec);
  EXPECT_EQ(read->rank, feed.rank);
  EXPECT_EQ(read->progress.applied, feed.progress.applied);
  EXPECT_EQ(read->progress.base_sequence, feed.progress.base_sequence);
  EXPECT_EQ(read->progress.orphan_stores, feed.progress.orphan_stores);
  EXPECT_EQ(read->progress.history_truncated, feed.progress.history_truncated);
  EXPECT_EQ(read->progress.damage, feed.progress.damage);
  EXPECT_EQ(read->progress.damage_reason, feed.progress.damage_reason);
  ASSERT_EQ(read->progress.ranks.size(), feed.progress.ranks.size());
  for (size_t i = 0; i < feed.progress.ranks.size(); ++i) {
    const SavedRank& expected = feed.progress.ranks[i];
    const SavedRank& got = read->progress.ranks[i];
    EXPECT_EQ(got.dp_rank, expected.dp_rank);
    EXPECT_EQ(got.held_blocks, expected.held_blocks);
    EXPECT_EQ(got.filter, expected.filter);
    ASSERT_EQ(got.blocks.size(), expected.blocks.size());
    for (size_t e = 0; e < expected.blocks.size(); ++e)
      EXPECT_EQ(TextOf(got.blocks[e]), TextOf(expected.blocks[e]));
  }
}

TEST(SavedFeedCodecTest, TheHeadIsReadAlone) {
  const auto head = DecodeFeedHead(EncodeFeed(AFeed()));
  ASSERT_TRUE(head.ok());
  EXPECT_EQ(head->spec, AFeed().spec);
  EXPECT_TRUE(head->progress.ranks.empty());
}

TEST(SavedFeedCodecTest, APayloadThatBreaksOffAnywhereIsRefused) {
  const std::string payload = EncodeFeed(AFeed());
  for (size_t bytes = 0; bytes < payload.size(); ++bytes)
    EXPECT_FALSE(DecodeFeed(std::string_view(payload).substr(0, bytes)).ok()) << bytes;
  EXPECT_FALSE(DecodeFeed(payload + "x").ok());
}

TEST(SavedFeedCodecTest, ABlockOfAChainTakesSixteenBytes) {
  SavedFeed feed = AFeed();
  feed.progress.ranks.resize(1);
  feed.progress.ranks[0].blocks.clear();
  const size_t empty_bytes = EncodeFeed(feed).size();
  std::optional<EngineHash> parent;
  for (uint64_t event = 0; event < 100; ++event) {
    Stored stored{.parent = parent, .blocks = {}};
    for (uint64_t i = 1; i <= 256; ++i)
      stored.blocks.push_back({EngineHash{event * 256 + i}, LocalBlockHash{~i}});
    parent = stored.blocks.back().engine_hash;
    feed.progress.ranks[0].blocks.push_back({.tier = StorageTier::kDevice, .data = stored});
  }
  const double bytes_per_block =
      static_cast<double>(EncodeFeed(feed).size() - empty_bytes) / 25'600;
  EXPECT_LT(bytes_per_block, 16.02);
}

// ---- Frames ----

std::string AFile(const std::vector<std::string>& payloads) {
  SnapshotFrames frames;
  std::string file = SnapshotFrames::Header(1'700'000'000'123);
  for (const std::string& payload : payloads) file += frames.Section(payload) + payload;
  return file + frames.End();
}

absl::StatusOr<SnapshotContents> Read(std::string_view file) {
  return ReadSnapshot(file.size(), [rest = file](char* out, size_t bytes) mutable {
    if (bytes > rest.size()) return false;
    std::memcpy(out, rest.data(), bytes);
    rest.remove_prefix(bytes);
    return true;
  });
}

std::string ErrorOf(std::string_view file) { return std::string(Read(file).status().message()); }

TEST(SnapshotFramesTest, SectionsComeBackInOrder) {
  const auto contents = Read(AFile({"first", "", std::string(1000, 'x')}));
  ASSERT_TRUE(contents.ok()) << contents.status();
  EXPECT_EQ(contents->created_unix_ms, 1'700'000'000'123u);
  EXPECT_THAT(contents->payloads, ::testing::ElementsAre("first", "", std::string(1000, 'x')));
  EXPECT_TRUE(Read(AFile({})).ok());
}

TEST(SnapshotFramesTest, AFileThatBreaksOffAnywhereIsRefused) {
  const std::string file = AFile({"first", "second"});
  for (size_t bytes = 0; bytes < file.size(); ++bytes)
    EXPECT_FALSE(Read(std::string_view(file).substr(0, bytes)).ok()) << bytes;
}

TEST(SnapshotFramesTest, ATurnedBitAnywhereIsRefused) {
  const std::string file = AFile({"first", "second"});
  for (size_t bit = 0; bit < file.size() * 8; ++bit) {
    std::string turned = file;
    turned[bit / 8] = static_cast<char>(turned[bit / 8] ^ (1 << (bit % 8)));
    EXPECT_FALSE(Read(turned).ok()) << bit;
  }
}

TEST(SnapshotFramesTest, ASectionThatIsMissingOrTwiceIsRefused) {
  SnapshotFrames frames;
  const std::string header = SnapshotFrames::Header(1);
  const std::string a = frames.Section("a") + "a";
  const std::string b = frames.Section("b") + "b";
  ASSERT_TRUE(Read(header + a + b + frames.End()).ok());
  for (const std::string& body : {a, b, a + a, b + a, a + b + b})
    EXPECT_THAT(ErrorOf(header + body + frames.End()), HasSubstr("sections are missing"));
}

TEST(SnapshotFramesTest, RefusalsSayWhatIsWrong) {
  const std::string file = AFile({"first"});
  EXPECT_THAT(ErrorOf(""), HasSubstr("too short"));
  EXPECT_THAT(ErrorOf("PK\3\4 something else entirely, and long"), HasSubstr("no snapshot"));
  std::string other_version = file;
  other_version[8] = 9;
  EXPECT_THAT(ErrorOf(other_version), HasSubstr("version 9, this is for version 2"));
  EXPECT_THAT(ErrorOf(file + "x"), HasSubstr("more bytes follow"));
  EXPECT_THAT(ErrorOf(file.substr(0, file.size() - 24)), HasSubstr("ends after"));
  std::string turned = file;
  turned[32 + 24] = 'F';  // the payload's first byte
  EXPECT_THAT(ErrorOf(turned), HasSubstr("checksum of the section at byte 32 is wrong"));
}

// A length is not believed before it is compared with what is left of the file.
TEST(SnapshotFramesTest, AHugeLengthTakesNoMemory) {
  std::string file = SnapshotFrames::Header(1);
  const uint64_t words[] = {1, uint64_t{1} << 60, 0};
  file.append(reinterpret_cast<const char*>(words), sizeof(words));
  EXPECT_THAT(ErrorOf(file), HasSubstr("ends within the section at byte 32"));
}

}  // namespace
}  // namespace kvrouter
