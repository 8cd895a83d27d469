#include "adapters/grpc/request_convert.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>

#include "kvrouter/error.h"
#include "kvrouter/limits.h"

namespace kvrouter {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

std::string ErrorText(const absl::Status& status) {
  return std::string(status.message().data(), status.message().size());
}

TEST(RequestConvertTest, TokensAreBorrowedFromTheMessage) {
  v1::RouteRequest message;
  for (uint32_t i = 0; i < 100; ++i) message.mutable_token_ids()->add_ids(i * 7);
  const auto input = FromProto(message);
  ASSERT_TRUE(input.ok());
  const auto& prompt = std::get<TokenPrompt>(input->request.prompt);
  EXPECT_EQ(prompt.token_ids.data(), message.token_ids().ids().data());
  EXPECT_EQ(prompt.token_ids.size(), 100u);
}

TEST(RequestConvertTest, BlockItemsComeWithTheTokens) {
  v1::RouteRequest message;
  for (uint32_t token = 0; token < 8; ++token) message.mutable_token_ids()->add_ids(token);
  message.add_block_items();
  message.add_block_items()->add_item_hashes(UINT64_MAX);
  auto moved = FromProto(message);
  ASSERT_TRUE(moved.ok());
  const RouteInput input = *std::move(moved);  // the spans must survive the move
  const auto& prompt = std::get<TokenPrompt>(input.request.prompt);
  ASSERT_EQ(prompt.multimodal.size(), 2u);
  EXPECT_THAT(prompt.multimodal[0], ElementsAre());
  EXPECT_THAT(prompt.multimodal[1], ElementsAre(MultimodalHash{UINT64_MAX}));
}

TEST(RequestConvertTest, EntriesOfItemsAreBounded) {
  v1::RouteRequest message;
  message.mutable_token_ids();
  for (uint64_t i = 0; i < kMaxItemBlocks; ++i) message.add_block_items();
  EXPECT_TRUE(FromProto(message).ok());
  message.add_block_items();
  EXPECT_EQ(ErrorReasonOf(FromProto(message).status()), ErrorReason::kTooLarge);
}

TEST(RequestConvertTest, HashesKeepAll64Bits) {
  v1::RouteRequest message;
  message.mutable_hashes()->add_local_block_hashes(UINT64_MAX);
  message.mutable_hashes()->add_sequence_hashes(uint64_t{1} << 63);
  message.mutable_hashes()->set_isl_tokens(17);
  auto moved = FromProto(message);
  ASSERT_TRUE(moved.ok());
  const RouteInput input = *std::move(moved);  // the spans must survive the move
  const auto& prompt = std::get<HashPrompt>(input.request.prompt);
  EXPECT_THAT(prompt.local_hashes, ElementsAre(LocalBlockHash{UINT64_MAX}));
  EXPECT_THAT(prompt.sequence_hashes, ElementsAre(SequenceHash{uint64_t{1} << 63}));
  EXPECT_EQ(prompt.isl_tokens, 17u);
}

TEST(RequestConvertTest, UnsetPromptIsRefusedEmptyOneIsNot) {
  v1::RouteRequest message;
  EXPECT_EQ(ErrorReasonOf(FromProto(message).status()), ErrorReason::kInvalidRequest);
  EXPECT_THAT(ErrorText(FromProto(message).status()), HasSubstr("prompt is not set"));
  message.mutable_token_ids();
  EXPECT_TRUE(FromProto(message).ok());
}

TEST(RequestConvertTest, AbsentStaysAbsent) {
  v1::RouteRequest message;
  message.mutable_token_ids();
  const RouteRequest request = FromProto(message)->request;
  EXPECT_EQ(request.model_name, "default");
  EXPECT_EQ(request.routing_group, "default");
  EXPECT_TRUE(request.book);
  EXPECT_FALSE(request.allowed_workers.has_value());
  EXPECT_FALSE(request.is_eagle.has_value());
  EXPECT_FALSE(request.pinned.has_value());
  EXPECT_FALSE(request.expected_output_tokens.has_value());
  EXPECT_FALSE(request.overrides.router_temperature.has_value());
}

TEST(RequestConvertTest, EveryFieldOfARequestArrives) {
  v1::RouteRequest message;
  message.set_request_id("id");
  message.set_model_name("m");
  message.set_routing_group("g");
  message.set_lora_name("l");
  message.set_cache_salt("s");
  message.set_advise_only(true);
  message.set_is_eagle(false);
  message.mutable_token_ids();
  message.mutable_allowed_worker_ids()->add_worker_ids(7587890043311737930u);
  message.add_excluded()->set_worker_id(3);
  message.mutable_pinned()->set_worker_id(4);
  message.mutable_pinned()->set_dp_rank(0);
  message.set_expected_output_tokens(9);
  auto* config = message.mutable_config_override();
  config->set_overlap_score_credit(0);
  config->set_prefill_load_scale(2);
  config->set_router_temperature(0.5);
  config->set_assume_kv_reuse(false);
  config->set_track_prefill_tokens(false);
  config->set_shared_cache_multiplier(0.25);
  const RouteRequest request = FromProto(message)->request;
  EXPECT_EQ(request.request_id, "id");
  EXPECT_EQ(request.model_name, "m");
  EXPECT_EQ(request.routing_group, "g");
  EXPECT_EQ(request.lora_name, "l");
  EXPECT_EQ(request.cache_salt, "s");
  EXPECT_FALSE(request.book);
  EXPECT_EQ(request.is_eagle, false);
  EXPECT_THAT(*request.allowed_workers, ElementsAre(WorkerId{7587890043311737930u}));
  ASSERT_EQ(request.excluded.size(), 1u);
  EXPECT_FALSE(request.excluded[0].dp_rank.has_value());
  EXPECT_EQ(request.pinned->dp_rank, 0u) << "rank 0 given is not the same as no rank";
  EXPECT_EQ(request.expected_output_tokens, 9u);
  EXPECT_EQ(request.overrides.overlap_score_credit, 0.0);
  EXPECT_EQ(request.overrides.prefill_load_scale, 2.0);
  EXPECT_EQ(request.overrides.router_temperature, 0.5);
  EXPECT_EQ(request.overrides.assume_kv_reuse, false);
  EXPECT_EQ(request.overrides.track_prefill_tokens, false);
  EXPECT_EQ(request.overrides.shared_cache_multiplier, 0.25);
}

TEST(RequestConvertTest, DecayFractionIsChecked) {
  v1::OutputBlockRequest message;
  EXPECT_THAT(ErrorText(CheckOutputBlock(message)), HasSubstr("request_id must not be empty"));
  message.set_request_id("r");
  EXPECT_TRUE(CheckOutputBlock(message).ok());
  for (const double bad : {-0.1, 1.1, std::numeric_limits<double>::quiet_NaN()}) {
    message.set_decay_fraction(bad);
    EXPECT_THAT(ErrorText(CheckOutputBlock(message)),
                HasSubstr("decay_fraction must be 0..1, got"));
  }
  message.set_decay_fraction(1.0);
  EXPECT_TRUE(CheckOutputBlock(message).ok());
}

}  // namespace
}  // namespace kvrouter
