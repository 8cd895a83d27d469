#include "core/affinity/lineage.h"

#include <gtest/gtest.h>

#include <numeric>
#include <optional>
#include <vector>

#include "support/prompt_beginnings.h"

namespace kvrouter {
namespace {

using testing::OwnedPrompt;
using Source = Lineage::Source;
using Tokens = std::vector<TokenId>;

constexpr uint64_t kN = 64;

Tokens From(TokenId first, size_t count) {
  Tokens tokens(count);
  std::iota(tokens.begin(), tokens.end(), first);
  return tokens;
}

Tokens operator+(Tokens a, const Tokens& b) {
  a.insert(a.end(), b.begin(), b.end());
  return a;
}

class LineageTest : public ::testing::Test {
 protected:
  Lineage::Derived Assign(const Tokens& tokens, const OwnedPrompt::How& how = {}) {
    const OwnedPrompt prompt(tokens, how);
    const Lineage::Derived expected = lineage_->Find(prompt.View());
    const Lineage::Derived derived = lineage_->Assign(prompt.View());
    EXPECT_EQ(derived.key, expected.key) << "advice says what assigning does";
    EXPECT_EQ(derived.source, expected.source);
    return derived;
  }

  std::optional<Lineage> lineage_{Lineage::Options{.prefix_tokens = kN}};
};

TEST_F(LineageTest, PromptsOfNTokensAreKeyedByExactlyThose) {
  const auto at_n = Assign(From(0, kN));
  EXPECT_EQ(at_n.source, Source::kPrefix);
  EXPECT_EQ(Assign(From(0, kN + 1)).key, at_n.key);
  EXPECT_EQ(Assign(From(0, 10 * kN)).key, at_n.key);
  EXPECT_EQ(Assign(From(0, kN) + From(9000, 50)).key, at_n.key);
  EXPECT_NE(Assign(From(0, kN - 1) + From(9000, 50)).key, at_n.key) << "the last one differs";
  EXPECT_NE(Assign(From(1, kN)).key, at_n.key);
}

TEST_F(LineageTest, NNeedNotBeAWholeNumberOfBlocks) {
  for (const uint64_t n : {1, 15, 16, 17, 31, 100}) {
    lineage_.emplace(Lineage::Options{.prefix_tokens = n});
    const auto first = Assign(From(0, n));
    EXPECT_EQ(first.source, Source::kPrefix);
    EXPECT_EQ(Assign(From(0, n) + From(500, 40)).key, first.key) << n;
    EXPECT_NE(Assign(From(0, n - 1) + From(500, 40)).key, first.key) << n;
  }
}

TEST_F(LineageTest, SaltsKeepSessionsApart) {
  EXPECT_NE(Assign(From(0, kN)).key, Assign(From(0, kN), {.cache_salt = "tenant"}).key);
  EXPECT_NE(Assign(From(0, 5)).key, Assign(From(0, 5), {.cache_salt = "tenant"}).key)
      << "also where there is no block";
}

TEST_F(LineageTest, TurnsBelowNAreOneSession) {
  const auto first = Assign(From(0, 5));
  EXPECT_EQ(first.source, Source::kStart);
  for (const size_t length : {9, 16, 17, 40, 48, 63}) {
    const auto turn = Assign(From(0, length));
    EXPECT_EQ(turn.key, first.key) << length;
    EXPECT_EQ(turn.source, Source::kEnd) << length;
  }
}

TEST_F(LineageTest, TheKeyFromBelowNIsKeptAboveIt) {
  const auto below = Assign(From(0, 40));
  const auto crossing = Assign(From(0, kN + 9));
  EXPECT_EQ(crossing.key, below.key);
  EXPECT_EQ(crossing.source, Source::kEnd);
  const auto above = Assign(From(0, 500));
  EXPECT_EQ(above.key, below.key);
  EXPECT_EQ(above.source, Source::kAlias);
}

TEST_F(LineageTest, SharedBlocksAloneJoinNobody) {
  const Tokens system = From(0, 32);  // two whole blocks
  const auto a = Assign(system + From(1000, 5));
  const auto b = Assign(system + From(2000, 5));
  const auto c = Assign(system + From(3000, 9));
  EXPECT_NE(a.key, b.key);
  EXPECT_NE(a.key, c.key);
  EXPECT_NE(b.key, c.key);
  EXPECT_EQ(Assign(system + From(2000, 12)).key, b.key) << "each goes on as itself";
  EXPECT_EQ(Assign(system + From(3000, 10)).key, c.key);
  EXPECT_EQ(Assign(system + From(1000, 20)).key, a.key);
}

TEST_F(LineageTest, ATailMustBeContinuedTokenForToken) {
  const auto a = Assign(From(0, 20));
  Tokens other = From(0, 30);
  other[19] = 777;
  EXPECT_NE(Assign(other).key, a.key);
}

TEST_F(LineageTest, AnEarlierPromptThatBeginsAnotherJoinsIt) {
  const auto short_one = Assign(From(0, 20));
  EXPECT_EQ(Assign(From(0, 20) + From(500, 20)).key, short_one.key);
  EXPECT_EQ(Assign(From(0, 20) + From(900, 20)).key, short_one.key) << "a fork of it, too";
}

TEST_F(LineageTest, TheLongestEndWins) {
  const auto inner = Assign(From(0, 20));
  Tokens longer = From(0, 19) + From(700, 1);
  const auto outer = Assign(longer);
  ASSERT_NE(inner.key, outer.key);
  EXPECT_EQ(Assign(longer + From(800, 1)).key, outer.key);
  // Of one boundary the longest tail, whatever was recorded first.
  lineage_.emplace(Lineage::Options{.prefix_tokens = kN});
  const auto b = Assign(From(0, 18) + From(5000, 2));
  const auto a = Assign(From(0, 18));
  ASSERT_NE(a.key, b.key);
  EXPECT_EQ(Assign(From(0, 18) + From(5000, 3)).key, b.key);
  EXPECT_EQ(Assign(From(0, 18) + From(6000, 3)).key, a.key);
}

TEST_F(LineageTest, ARetryIsTheSameSession) {
  const auto a = Assign(From(0, 33));
  EXPECT_EQ(Assign(From(0, 33)).key, a.key);
  EXPECT_EQ(lineage_->GetStats().ends, 1u);
}

TEST_F(LineageTest, AKeyOfItsOwnIsNotRenamedByALatecomer) {
  const auto long_one = Assign(From(0, 100));
  const auto short_one = Assign(From(0, 20));
  ASSERT_NE(long_one.key, short_one.key);
  EXPECT_EQ(Assign(From(0, 80)).key, long_one.key) << "they share N tokens: one session now";
  EXPECT_EQ(Assign(From(0, 120)).key, long_one.key);
}

TEST_F(LineageTest, EmptyPromptsHaveNoSession) {
  EXPECT_EQ(Assign({}).key, kNoSession);
  EXPECT_EQ(lineage_->GetStats().ends, 0u);
}

TEST_F(LineageTest, HashesDecideByBlockBoundariesAlone) {
  const OwnedPrompt::How hashes{.as_hashes = true};
  EXPECT_EQ(Assign(From(0, 20), hashes).source, Source::kNone) << "its tail is unknown";
  const auto whole = Assign(From(0, 32), hashes);
  EXPECT_EQ(whole.source, Source::kStart);
  EXPECT_EQ(Assign(From(0, 53), hashes).key, whole.key) << "continues the boundary";
  EXPECT_EQ(Assign(From(0, 48), hashes).key, whole.key);
  EXPECT_EQ(Assign(From(0, 64), hashes).key, whole.key);
  EXPECT_EQ(Assign(From(0, 70), hashes).source, Source::kAlias);
}

TEST_F(LineageTest, HashesRoundNUpToWholeBlocks) {
  lineage_.emplace(Lineage::Options{.prefix_tokens = 60});
  const OwnedPrompt::How hashes{.as_hashes = true};
  EXPECT_EQ(Assign(From(0, 63), hashes).source, Source::kNone);
  EXPECT_EQ(Assign(From(0, 64), hashes).source, Source::kPrefix);
}

TEST_F(LineageTest, TokensAndHashesOfWholeBlocksAgree) {
  const auto tokens = Assign(From(0, 100));
  EXPECT_EQ(Assign(From(0, 120), {.as_hashes = true}).key, tokens.key);
}

TEST_F(LineageTest, TailsWithImagesJoinNobody) {
  const auto with_image = [](uint64_t image) {
    return OwnedPrompt::How{.multimodal = {{}, {MultimodalHash{image}}}};
  };
  EXPECT_EQ(Assign(From(0, 20), with_image(1)).source, Source::kNone);
  const auto whole = Assign(From(0, 32), with_image(1));
  EXPECT_EQ(whole.source, Source::kStart);
  EXPECT_EQ(Assign(From(0, 40), with_image(1)).key, whole.key);
  EXPECT_NE(Assign(From(0, 40), with_image(2)).key, whole.key);
}

TEST_F(LineageTest, EagleBlocksReachOneTokenFurther) {
  const OwnedPrompt::How eagle{.naming = {.block_size_tokens = 16, .is_eagle = true}};
  const auto first = Assign(From(0, 32), eagle);
  for (const size_t length : {33, 34, 48, 49, 63, 64, 65, 200}) {
    EXPECT_EQ(Assign(From(0, length), eagle).key, first.key) << length;
  }
  EXPECT_NE(Assign(From(0, 31) + From(900, 20), eagle).key, first.key);
  lineage_.emplace(Lineage::Options{.prefix_tokens = kN});
  const auto at_n = Assign(From(0, kN), eagle);
  EXPECT_EQ(at_n.source, Source::kPrefix);
  EXPECT_EQ(Assign(From(0, kN) + From(900, 20), eagle).key, at_n.key)
      << "the token behind N is not in the key";
}

TEST_F(LineageTest, TheLeastRecentlyUsedEndMakesRoom) {
  lineage_.emplace(Lineage::Options{.prefix_tokens = kN, .max_ends = 3, .max_aliases = 2});
  const auto a = Assign(From(0, 20));
  const auto b = Assign(From(1000, 20));
  Assign(From(2000, 20));
  EXPECT_EQ(Assign(From(0, 20)).key, a.key);  // b is now the least recent
  Assign(From(3000, 20));
  EXPECT_EQ(lineage_->GetStats().ends, 3u);
  EXPECT_EQ(lineage_->GetStats().ends_evicted_total, 1u);
  const OwnedPrompt next_of_b(From(1000, 30), {});
  EXPECT_EQ(lineage_->Find(next_of_b.View()).source, Source::kStart);
  EXPECT_NE(lineage_->Find(next_of_b.View()).key, b.key);
  EXPECT_EQ(Assign(From(0, 30)).key, a.key);
  for (TokenId i = 0; i < 5; ++i) Assign(From(10'000 * (i + 1), kN));
  EXPECT_EQ(lineage_->GetStats().aliases, 2u);
  EXPECT_EQ(lineage_->GetStats().aliases_evicted_total, 3u);
}

TEST_F(LineageTest, TailLengthsAtOneBoundaryAreBounded) {
  const OwnedPrompt::How big{.naming = {.block_size_tokens = 4096}};
  lineage_.emplace(Lineage::Options{.prefix_tokens = 4000});
  for (size_t i = 1; i <= Lineage::kMaxTailLengths + 10; ++i) {
    Assign(From(static_cast<TokenId>(100'000 * i), i), big);
  }
  EXPECT_EQ(lineage_->GetStats().ends, Lineage::kMaxTailLengths);
  EXPECT_EQ(lineage_->GetStats().ends_refused_total, 10u);
}

}  // namespace
}  // namespace kvrouter
