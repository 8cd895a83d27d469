#include "kvrouter/block_hash.h"

#include <gtest/gtest.h>

#include <fstream>
#include <nlohmann/json.hpp>
#include <numeric>
#include <string>
#include <vector>

namespace kvrouter {
namespace {

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

std::vector<LocalBlockHash> LocalHashes(const std::vector<TokenId>& tokens, uint32_t block_size,
                                        const BlockIdentity& identity = {}) {
  std::vector<LocalBlockHash> hashes;
  AppendLocalBlockHashes(tokens, block_size, BlockSeed(identity), &hashes);
  return hashes;
}

std::vector<SequenceHash> SequenceHashes(const std::vector<LocalBlockHash>& local) {
  std::vector<SequenceHash> hashes;
  AppendSequenceHashes(local, &hashes);
  return hashes;
}

template <typename Hash>
std::vector<Hash> As(const nlohmann::json& numbers) {
  std::vector<Hash> hashes;
  for (const auto& number : numbers) hashes.push_back(Hash{number.get<uint64_t>()});
  return hashes;
}

TEST(BlockHashGoldenTest, BytesHashAsUpstream) {
  const auto vectors = Vectors();
  ASSERT_EQ(vectors["bytes"].size(), 2u);
  for (const auto& v : vectors["bytes"]) {
    EXPECT_EQ(HashBytes(v["bytes"].get<std::string>(), v["seed"].get<uint64_t>()),
              v["hash"].get<uint64_t>())
        << v["name"];
  }
}

TEST(BlockHashGoldenTest, TokensHashAsUpstream) {
  const auto vectors = Vectors();
  ASSERT_EQ(vectors["blocks"].size(), 10u);
  for (const auto& v : vectors["blocks"]) {
    SCOPED_TRACE(v["name"].get<std::string>());
    const std::string lora = v.value("lora_name", "");
    const std::string salt = v.value("cache_salt", "");
    const BlockIdentity identity{.lora_name = lora, .cache_salt = salt};
    EXPECT_EQ(BlockSeed(identity), v.value("seed", uint64_t{1337}));
    const auto tokens = TokensFrom(v["first_token"], v["token_count"]);
    const auto local = LocalHashes(tokens, v["block_size"], identity);
    EXPECT_EQ(local, As<LocalBlockHash>(v["local"]));
    EXPECT_EQ(SequenceHashes(local), As<SequenceHash>(v["sequence"]));
  }
}

TEST(BlockHashGoldenTest, ChainsHashAsUpstream) {
  const auto vectors = Vectors();
  ASSERT_EQ(vectors["chains"].size(), 1u);
  for (const auto& v : vectors["chains"]) {
    EXPECT_EQ(SequenceHashes(As<LocalBlockHash>(v["local"])), As<SequenceHash>(v["sequence"]));
  }
}

TEST(BlockHashTest, PartialBlockHasNoHash) {
  EXPECT_TRUE(LocalHashes(TokensFrom(0, 15), 16).empty());
  EXPECT_EQ(LocalHashes(TokensFrom(0, 16), 16).size(), 1u);
  EXPECT_EQ(LocalHashes(TokensFrom(0, 31), 16), LocalHashes(TokensFrom(0, 16), 16));
  EXPECT_TRUE(LocalHashes({}, 16).empty());
}

TEST(BlockHashTest, BlockSizeZeroHasNoBlocks) {
  EXPECT_TRUE(LocalHashes(TokensFrom(0, 16), 0).empty());
}

TEST(BlockHashTest, LocalHashDoesNotDependOnPosition) {
  std::vector<TokenId> twice = TokensFrom(7, 4);
  twice.insert(twice.end(), twice.begin(), twice.begin() + 4);
  const auto local = LocalHashes(twice, 4);
  EXPECT_EQ(local[0], local[1]);
  const auto sequence = SequenceHashes(local);
  EXPECT_NE(sequence[0], sequence[1]);
}

TEST(BlockHashTest, ChangingOneTokenChangesItsBlockAndAllLaterSequenceHashes) {
  auto tokens = TokensFrom(0, 12);
  const auto before = LocalHashes(tokens, 4);
  tokens[5] = 99;
  const auto after = LocalHashes(tokens, 4);
  EXPECT_EQ(before[0], after[0]);
  EXPECT_NE(before[1], after[1]);
  EXPECT_EQ(before[2], after[2]);
  EXPECT_EQ(SequenceHashes(before)[0], SequenceHashes(after)[0]);
  EXPECT_NE(SequenceHashes(before)[1], SequenceHashes(after)[1]);
  EXPECT_NE(SequenceHashes(before)[2], SequenceHashes(after)[2]);
}

// Upstream: test_lora_hash_matches_kv_hashing_contract.
TEST(BlockHashTest, LoraNameChangesEveryBlockAndEmptyMeansBaseModel) {
  const auto tokens = TokensFrom(0, 8);
  const auto base = LocalHashes(tokens, 4);
  const auto a = LocalHashes(tokens, 4, {.lora_name = "adapter-a"});
  const auto b = LocalHashes(tokens, 4, {.lora_name = "adapter-b"});
  for (size_t i = 0; i < base.size(); ++i) {
    EXPECT_NE(base[i], a[i]);
    EXPECT_NE(base[i], b[i]);
    EXPECT_NE(a[i], b[i]);
  }
  EXPECT_EQ(base, LocalHashes(tokens, 4, {.lora_name = "", .cache_salt = ""}));
}

// Upstream: test_cache_namespace_hash_matches_kv_hashing_contract.
TEST(BlockHashTest, SaltAndLoraOfOneTextAreDifferentIdentities) {
  const auto tokens = TokensFrom(0, 4);
  const auto lora = LocalHashes(tokens, 4, {.lora_name = "x"});
  const auto salt = LocalHashes(tokens, 4, {.cache_salt = "x"});
  const auto both = LocalHashes(tokens, 4, {.lora_name = "x", .cache_salt = "x"});
  EXPECT_NE(lora, salt);
  EXPECT_NE(lora, both);
  EXPECT_NE(salt, both);
  EXPECT_EQ(BlockSeed({.lora_name = "x", .cache_salt = "y"}),
            1337 + HashBytes("x", 0) + HashBytes("y", 1));
}

// Upstream: test_compute_next_seq_hash_matches_rolling_hash.
TEST(BlockHashTest, SequenceHashesOfAPrefixAreAPrefixOfTheSequenceHashes) {
  const auto local = LocalHashes(TokensFrom(0, 64), 4);
  const auto all = SequenceHashes(local);
  for (size_t n = 0; n <= local.size(); ++n) {
    const std::vector<LocalBlockHash> head(local.begin(), local.begin() + static_cast<long>(n));
    EXPECT_EQ(SequenceHashes(head),
              std::vector<SequenceHash>(all.begin(), all.begin() + static_cast<long>(n)));
  }
}

TEST(BlockHashTest, AppendsBehindWhatIsThere) {
  std::vector<LocalBlockHash> local = {LocalBlockHash{5}};
  AppendLocalBlockHashes(TokensFrom(0, 4), 4, 1337, &local);
  EXPECT_EQ(local, (std::vector{LocalBlockHash{5}, LocalBlockHash{9143094415614847814u}}));
}

}  // namespace
}  // namespace kvrouter
