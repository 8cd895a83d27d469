#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "kvrouter/error.h"
#include "support/core_builders.h"

namespace kvrouter {
namespace {

using testing::AnEvent;
using testing::ARequest;
using testing::AWorker;
using testing::Decide;
using testing::ErrorOf;
using testing::kBlockSize;
using testing::LoadOf;
using testing::OverlapOf;
using testing::TargetOf;
using testing::TokensFrom;

WorkerSpec AnEagleWorker(uint64_t id) {
  WorkerSpec spec = AWorker(id);
  spec.is_eagle = true;
  return spec;
}

// Blocks of `tokens` as the engine of a worker with this spec announces them.
KvEvent StoredBy(const WorkerSpec& spec, const std::vector<TokenId>& tokens) {
  std::vector<LocalBlockHash> local;
  AppendLocalBlockHashes(tokens,
                         {.block_size_tokens = spec.block_size_tokens,
                          .block_seed = BlockSeed({}),
                          .is_eagle = spec.is_eagle},
                         &local);
  Stored stored;
  for (const LocalBlockHash hash : local)
    stored.blocks.push_back({EngineHash{static_cast<uint64_t>(hash)}, hash});
  return AnEvent({spec.id, 0}, std::move(stored));
}

class RouterIdentityTest : public ::testing::Test {
 protected:
  absl::Status Upsert(const WorkerSpec& spec) { return router_.UpsertWorker(spec); }

  Router router_{RouterConfig{}, nullptr};
};

TEST_F(RouterIdentityTest, EaglePromptsMatchUpToTheTokenAhead) {
  ASSERT_TRUE(Upsert(AnEagleWorker(1)).ok());
  const auto tokens = TokensFrom(0, 4 * kBlockSize + 1);
  ASSERT_EQ(router_.Apply(StoredBy(AnEagleWorker(1), tokens)).blocks_stored, 4u);
  EXPECT_EQ(OverlapOf(router_, tokens, TargetOf(1)), 4u);
  auto diverging = tokens;
  diverging[2 * kBlockSize] = 7777;  // ahead of block 1
  EXPECT_EQ(OverlapOf(router_, diverging, TargetOf(1)), 1u);
}

TEST_F(RouterIdentityTest, TheLastTokenOfAnEaglePromptCompletesNoBlock) {
  ASSERT_TRUE(Upsert(AnEagleWorker(1)).ok());
  const auto tokens = TokensFrom(0, 4 * kBlockSize);
  const auto decision = Decide(router_, ARequest(tokens));
  EXPECT_TRUE(decision.is_eagle);
  EXPECT_EQ(decision.full_blocks, 3u);
  EXPECT_EQ(decision.isl_blocks, 4u) << "the hit metrics' denominator is ceil(tokens / block size)";
  EXPECT_EQ(LoadOf(router_, TargetOf(1))->active_decode_blocks, 3) << "complete blocks, as booked";
  EXPECT_EQ(Decide(router_, ARequest(TokensFrom(0, 4 * kBlockSize + 1))).full_blocks, 4u);
  EXPECT_EQ(Decide(router_, ARequest(TokensFrom(0, 1))).full_blocks, 0u);
  const std::vector<TokenId> empty;
  EXPECT_EQ(Decide(router_, ARequest(empty)).full_blocks, 0u);
}

TEST_F(RouterIdentityTest, EagleHashesAreAsManyAsTheWindows) {
  ASSERT_TRUE(Upsert(AnEagleWorker(1)).ok());
  const std::vector<LocalBlockHash> three(3, LocalBlockHash{5});
  RouteRequest request = ARequest({});
  const auto with_isl = [&](uint64_t isl_tokens) {
    request.prompt =
        HashPrompt{.local_hashes = three, .sequence_hashes = {}, .isl_tokens = isl_tokens};
    return ErrorOf(router_, request);
  };
  EXPECT_EQ(ErrorReasonOf(with_isl(3 * kBlockSize)), ErrorReason::kInvalidRequest);
  EXPECT_TRUE(with_isl(3 * kBlockSize + 1).ok());
  EXPECT_TRUE(with_isl(4 * kBlockSize).ok());
  EXPECT_EQ(ErrorReasonOf(with_isl(4 * kBlockSize + 1)), ErrorReason::kInvalidRequest);
}

TEST_F(RouterIdentityTest, ARequestThatTakesThePartitionForAnotherKindIsRefused) {
  ASSERT_TRUE(Upsert(AWorker(1)).ok());
  WorkerSpec eagle = AnEagleWorker(2);
  eagle.model_name = "eagle";
  ASSERT_TRUE(Upsert(eagle).ok());
  const auto tokens = TokensFrom(0, 40);
  const std::vector<LocalBlockHash> two(2, LocalBlockHash{5});
  for (const bool is_eagle : {false, true}) {
    RouteRequest request = ARequest(tokens);
    request.is_eagle = is_eagle;
    request.model_name = is_eagle ? "eagle" : "default";
    EXPECT_TRUE(ErrorOf(router_, request).ok());
    request.model_name = is_eagle ? "default" : "eagle";
    EXPECT_EQ(ErrorReasonOf(ErrorOf(router_, request)), ErrorReason::kInvalidRequest);
    request.prompt = HashPrompt{.local_hashes = two, .sequence_hashes = {}, .isl_tokens = 40};
    EXPECT_EQ(ErrorReasonOf(ErrorOf(router_, request)), ErrorReason::kInvalidRequest);
    EXPECT_FALSE(router_.FindOverlap(request).ok());
    EXPECT_FALSE(router_.PotentialLoads(request).ok());
  }
}

TEST_F(RouterIdentityTest, AWorkerThatNamesBlocksOtherwiseIsRefusedWhileOthersAreThere) {
  ASSERT_TRUE(Upsert(AWorker(1)).ok());
  WorkerSpec image = AWorker(2);
  image.image_token_id = 0;  // a token like any other
  for (const WorkerSpec& other : {AnEagleWorker(2), image}) {
    const auto status = Upsert(other);
    EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition);
    EXPECT_EQ(ErrorReasonOf(status), ErrorReason::kBlockNamingConflict);
  }
  ASSERT_TRUE(Upsert(AWorker(2)).ok());
  EXPECT_EQ(ErrorReasonOf(Upsert(AnEagleWorker(2))), ErrorReason::kBlockNamingConflict);
  const auto tokens = TokensFrom(0, 64);
  ASSERT_EQ(router_.Apply(StoredBy(AWorker(2), tokens)).blocks_stored, 4u);
  EXPECT_EQ(OverlapOf(router_, tokens, TargetOf(2)), 4u) << "the old record and its blocks stay";
}

TEST_F(RouterIdentityTest, TheOnlyWorkerMayChangeHowBlocksAreNamedAndStartsEmpty) {
  const auto tokens = TokensFrom(0, 65);
  ASSERT_TRUE(Upsert(AWorker(1)).ok());
  ASSERT_EQ(router_.Apply(StoredBy(AWorker(1), tokens)).blocks_stored, 4u);
  ASSERT_TRUE(Upsert(AnEagleWorker(1)).ok());
  EXPECT_EQ(router_.Snapshot()[0].index_holder_blocks, 0u);
  EXPECT_TRUE(router_.Snapshot()[0].is_eagle);
  ASSERT_EQ(router_.Apply(StoredBy(AnEagleWorker(1), tokens)).blocks_stored, 4u);
  EXPECT_EQ(OverlapOf(router_, tokens, TargetOf(1)), 4u);
  WorkerSpec image = AnEagleWorker(1);
  image.image_token_id = UINT32_MAX;
  ASSERT_TRUE(Upsert(image).ok());
  EXPECT_EQ(router_.Snapshot()[0].image_token_id, UINT32_MAX);
  EXPECT_EQ(router_.Snapshot()[0].index_holder_blocks, 0u);
  EXPECT_EQ(router_.Snapshot()[0].block_size_tokens, kBlockSize);
}

TEST_F(RouterIdentityTest, BlockSizesHaveALimit) {
  WorkerSpec spec = AWorker(1);
  spec.block_size_tokens = 65'537;
  EXPECT_EQ(ErrorReasonOf(Upsert(spec)), ErrorReason::kInvalidRequest);
  spec.block_size_tokens = 65'536;
  EXPECT_TRUE(Upsert(spec).ok());
}

}  // namespace
}  // namespace kvrouter
