#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>
#include <nlohmann/json.hpp>
#include <numeric>
#include <string>
#include <vector>

#include "kvrouter/block_hash.h"

namespace kvrouter {
namespace {

using Items = std::vector<MultimodalHash>;

nlohmann::json Vectors() {
  std::ifstream file("tests/data/hash_vectors.json");
  EXPECT_TRUE(file.is_open()) << "run from the source root";
  return nlohmann::json::parse(file);
}

std::vector<TokenId> TokensFrom(TokenId first, size_t count) {
  std::vector<TokenId> tokens(count);
  std::iota(tokens.begin(), tokens.end(), first);
  return tokens;
}

std::vector<LocalBlockHash> Hashes(const std::vector<TokenId>& tokens, const BlockHashing& how) {
  std::vector<LocalBlockHash> hashes;
  AppendLocalBlockHashes(tokens, how, &hashes);
  return hashes;
}

Items ItemsOf(std::initializer_list<uint64_t> hashes) {
  Items items;
  for (const uint64_t hash : hashes) items.push_back(MultimodalHash{hash});
  return items;
}

TEST(BlockHashGoldenTest, WindowsAndMultimodalBlocksHashAsUpstream) {
  const auto vectors = Vectors();
  ASSERT_EQ(vectors["windows_and_multimodal"].size(), 3u);
  for (const auto& v : vectors["windows_and_multimodal"]) {
    SCOPED_TRACE(v["name"].get<std::string>());
    const auto tokens = TokensFrom(v["first_token"].get<TokenId>(), v["tokens"].get<size_t>());
    Items items;
    for (const auto& hash : v["multimodal"]) items.push_back(MultimodalHash{hash.get<uint64_t>()});
    const std::vector<Items> multimodal = {items};
    const auto local = Hashes(tokens, {.block_size_tokens = v["block_size"].get<uint32_t>(),
                                       .block_seed = BlockSeed({}),
                                       .is_eagle = v["is_eagle"].get<bool>(),
                                       .multimodal = multimodal});
    std::vector<SequenceHash> sequence;
    AppendSequenceHashes(local, &sequence);
    ASSERT_EQ(local.size(), v["local"].size());
    for (size_t i = 0; i < local.size(); ++i) {
      EXPECT_EQ(static_cast<uint64_t>(local[i]), v["local"][i].get<uint64_t>());
      EXPECT_EQ(static_cast<uint64_t>(sequence[i]), v["sequence"][i].get<uint64_t>());
    }
  }
}

TEST(BlockHashGoldenTest, IdentifiersHashAsUpstream) {
  const auto vectors = Vectors();
  ASSERT_EQ(vectors["multimodal_identifiers"].size(), 1u);
  for (const auto& v : vectors["multimodal_identifiers"]) {
    EXPECT_EQ(MultimodalHashOf(v["identifier"].get<std::string>()),
              MultimodalHash{v["hash"].get<uint64_t>()});
  }
}

TEST(MultimodalHashTest, OrderDoesNotMatterAndRepetitionDoes) {
  const auto tokens = TokensFrom(0, 4);
  const auto with = [&](const Items& items) {
    const std::vector<Items> multimodal = {items};
    return Hashes(tokens, {.block_size_tokens = 4, .block_seed = 1337, .multimodal = multimodal});
  };
  EXPECT_EQ(with(ItemsOf({42, 7})), with(ItemsOf({7, 42})));
  EXPECT_NE(with(ItemsOf({42})), with(ItemsOf({42, 42})));
  EXPECT_NE(with(ItemsOf({42})), with(ItemsOf({43})));
}

TEST(MultimodalHashTest, AnEmptyEntryIsNoEntryAndOnlyItsOwnBlockChanges) {
  const auto tokens = TokensFrom(0, 14);
  std::vector<LocalBlockHash> plain;
  AppendLocalBlockHashes(tokens, 4, 1337, &plain);
  ASSERT_EQ(plain.size(), 3u);
  std::vector<Items> multimodal(2);
  EXPECT_EQ(Hashes(tokens, {.block_size_tokens = 4, .block_seed = 1337}), plain);
  EXPECT_EQ(Hashes(tokens, {.block_size_tokens = 4, .block_seed = 1337, .multimodal = multimodal}),
            plain);
  multimodal[1] = ItemsOf({1});
  const auto hashes =
      Hashes(tokens, {.block_size_tokens = 4, .block_seed = 1337, .multimodal = multimodal});
  ASSERT_EQ(hashes.size(), 3u);
  EXPECT_EQ(hashes[0], plain[0]);
  EXPECT_NE(hashes[1], plain[1]);
  EXPECT_EQ(hashes[2], plain[2]);
}

TEST(MultimodalHashTest, AWindowIsABlockAndTheTokenBehindIt) {
  for (const size_t tokens : {0, 1, 3, 4, 5, 8, 9, 12}) {
    const auto windows = Hashes(TokensFrom(0, tokens), {.block_size_tokens = 4, .is_eagle = true});
    EXPECT_EQ(windows.size(), tokens == 0 ? 0 : (tokens - 1) / 4) << tokens << " tokens";
  }
  std::vector<LocalBlockHash> wide;
  AppendLocalBlockHashes(TokensFrom(4, 5), 5, 1337, &wide);
  const auto windows =
      Hashes(TokensFrom(0, 9), {.block_size_tokens = 4, .block_seed = 1337, .is_eagle = true});
  ASSERT_EQ(windows.size(), 2u);
  EXPECT_EQ(windows[1], wide[0]);
  EXPECT_TRUE(Hashes(TokensFrom(0, 9), {.block_size_tokens = 0, .is_eagle = true}).empty());
}

// Upstream: test_compute_block_hash_for_seq_eagle_windows.
TEST(MultimodalHashTest, AWindowIsHashedAsIfItStoodAlone) {
  const auto tokens = TokensFrom(0, 6);
  const BlockHashing eagle = {.block_size_tokens = 2, .block_seed = 1337, .is_eagle = true};
  const auto windows = Hashes(tokens, eagle);
  EXPECT_EQ(Hashes(tokens, {.block_size_tokens = 2, .block_seed = 1337}).size(), 3u);
  ASSERT_EQ(windows.size(), 2u);
  EXPECT_EQ(windows[0], Hashes(TokensFrom(0, 3), eagle).at(0));
  EXPECT_EQ(windows[1], Hashes(TokensFrom(2, 3), eagle).at(0));
}

TEST(MultimodalHashTest, FullBlocksAreTheHashedOnes) {
  for (const bool is_eagle : {false, true}) {
    for (const uint32_t size : {0u, 1u, 3u, 4u}) {
      for (size_t tokens = 0; tokens < 14; ++tokens) {
        EXPECT_EQ(
            FullBlocks(tokens, {.block_size_tokens = size, .is_eagle = is_eagle}),
            Hashes(TokensFrom(0, tokens), {.block_size_tokens = size, .is_eagle = is_eagle}).size())
            << tokens << " tokens, block size " << size << ", eagle " << is_eagle;
      }
    }
  }
}

// Upstream: vllm_event_normalizes_to_frontend_pad_value_hash.
TEST(MultimodalHashTest, WithAnImageTokenABlockIsNamedByItsPadValues) {
  const uint64_t image = 9'533'257'059'414'191'570u;
  const std::vector<Items> multimodal = {ItemsOf({image})};
  const auto pad = PadValueOf(MultimodalHash{image});
  const BlockHashing padded = {.block_size_tokens = 4,
                               .block_seed = BlockSeed({}),
                               .image_token_id = 151655,
                               .multimodal = multimodal};
  const BlockHashing plain = {.block_size_tokens = 4, .block_seed = BlockSeed({})};
  EXPECT_EQ(Hashes({10, 20, 151655, 151655}, padded), Hashes({10, 20, pad, pad}, plain));
  EXPECT_EQ(Hashes({10, 20, pad, pad}, padded), Hashes({10, 20, pad, pad}, plain))
      << "a caller that put the pad values in itself may name the items, too";
}

TEST(MultimodalHashTest, DigestsGiveTheirFirstSixteenDigits) {
  const std::string digest = "0123456789abcDEF" + std::string(48, '7');
  EXPECT_EQ(MultimodalHashOf(digest), MultimodalHash{0x0123456789abcdef});
  EXPECT_EQ(MultimodalHashOf(digest.substr(1)), MultimodalHash{HashBytes(digest.substr(1), 0)});
  const std::string not_hex = std::string(63, '0') + "g";
  EXPECT_EQ(MultimodalHashOf(not_hex), MultimodalHash{HashBytes(not_hex, 0)});
  EXPECT_FALSE(MultimodalHashOf(""));
}

TEST(MultimodalHashTest, RangesBecomeBlocks) {
  const std::vector<MultimodalRange> ranges = {
      {.hash = MultimodalHash{1}, .begin_token = 3, .end_token = 5},    // blocks 0 and 1
      {.hash = MultimodalHash{2}, .begin_token = 4, .end_token = 8},    // exactly block 1
      {.hash = MultimodalHash{1}, .begin_token = 6, .end_token = 7},    // block 1 again
      {.hash = MultimodalHash{3}, .begin_token = 9, .end_token = 99},   // clipped to the prompt
      {.hash = MultimodalHash{4}, .begin_token = 2, .end_token = 2},    // empty
      {.hash = MultimodalHash{5}, .begin_token = 40, .end_token = 50},  // behind the prompt
  };
  const std::vector<Items> expected = {ItemsOf({1}), ItemsOf({1, 2}), ItemsOf({3})};
  EXPECT_EQ(MultimodalBlocks(ranges, 10, 4), expected);
  EXPECT_EQ(MultimodalBlocks({}, 8, 4), std::vector<Items>(2));
  EXPECT_TRUE(MultimodalBlocks(ranges, 0, 4).empty());
  EXPECT_TRUE(MultimodalBlocks(ranges, 10, 0).empty());
}

TEST(MultimodalHashTest, PadValuesKeepThirtyBits) {
  EXPECT_EQ(PadValueOf(MultimodalHash{0}), 1'000'000u);
  EXPECT_EQ(PadValueOf(MultimodalHash{(uint64_t{1} << 30) + 5}), 1'000'005u);
  EXPECT_EQ(PadValueOf(MultimodalHash{~uint64_t{0}}), 1'000'000u + (1u << 30) - 1);
}

TEST(MultimodalHashTest, EachRunOfPlaceholdersTakesItsItem) {
  std::vector<TokenId> block = {9, 9, 1, 9, 2, 9, 9};
  ReplacePlaceholders(block, 9, ItemsOf({10, 20}));
  const std::vector<TokenId> expected = {1'000'010, 1'000'010, 1,        1'000'020,
                                         2,         1'000'020, 1'000'020};
  EXPECT_EQ(block, expected) << "the last item serves the runs beyond";
  std::vector<TokenId> untouched = {9, 1};
  ReplacePlaceholders(untouched, 9, {});
  EXPECT_EQ(untouched, (std::vector<TokenId>{9, 1}));
}

}  // namespace
}  // namespace kvrouter
