#include "adapters/grpc/proto_convert.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>

#include "kvrouter/error.h"

namespace kvrouter {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

std::string ErrorText(const absl::Status& status) {
  return std::string(status.message().data(), status.message().size());
}

TEST(ProtoConvertTest, TokensAreBorrowedFromTheMessage) {
  v1::RouteRequest message;
  for (uint32_t i = 0; i < 100; ++i) message.mutable_token_ids()->add_ids(i * 7);
  const auto input = FromProto(message);
  ASSERT_TRUE(input.ok());
  const auto& prompt = std::get<TokenPrompt>(input->request.prompt);
  EXPECT_EQ(prompt.token_ids.data(), message.token_ids().ids().data());
  EXPECT_EQ(prompt.token_ids.size(), 100u);
}

TEST(ProtoConvertTest, BlockItemsComeWithTheTokens) {
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

TEST(ProtoConvertTest, HashesKeepAll64Bits) {
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

TEST(ProtoConvertTest, UnsetPromptIsRefusedEmptyOneIsNot) {
  v1::RouteRequest message;
  EXPECT_EQ(ErrorReasonOf(FromProto(message).status()), ErrorReason::kInvalidRequest);
  EXPECT_THAT(ErrorText(FromProto(message).status()), HasSubstr("prompt is not set"));
  message.mutable_token_ids();
  EXPECT_TRUE(FromProto(message).ok());
}

TEST(ProtoConvertTest, AbsentStaysAbsent) {
  v1::RouteRequest message;
  message.mutable_token_ids();
  const RouteRequest request = FromProto(message)->request;
  EXPECT_EQ(request.model_name, "default");
  EXPECT_EQ(request.routing_group, "default");
  EXPECT_TRUE(request.book);
  EXPECT_FALSE(request.allowed_workers.has_value());
  EXPECT_FALSE(request.pinned.has_value());
  EXPECT_FALSE(request.expected_output_tokens.has_value());
  EXPECT_FALSE(request.overrides.router_temperature.has_value());
}

TEST(ProtoConvertTest, EveryFieldOfARequestArrives) {
  v1::RouteRequest message;
  message.set_request_id("id");
  message.set_model_name("m");
  message.set_routing_group("g");
  message.set_lora_name("l");
  message.set_cache_salt("s");
  message.set_advise_only(true);
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

TEST(ProtoConvertTest, DecayFractionIsChecked) {
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

TEST(ProtoConvertTest, WorkerGoesOutAsItCameIn) {
  v1::WorkerSpec in;
  in.set_worker_id(UINT64_MAX);
  in.set_incarnation(5);
  in.set_model_name("m");
  in.set_routing_group("g");
  in.set_address("http://h:1");
  in.set_block_size_tokens(16);
  in.set_dp_start_rank(2);
  in.set_dp_size(2);
  in.set_role(v1::WORKER_ROLE_DECODE);
  in.set_total_kv_blocks(100);
  in.set_max_num_batched_tokens(200);
  (*in.mutable_events())[3].set_live("tcp://h:5");
  (*in.mutable_events())[3].set_replay("tcp://h:6");
  const auto spec = FromProto(in);
  ASSERT_TRUE(spec.ok());
  v1::Worker out;
  ToProto(*spec, &out);
  EXPECT_EQ(out.spec().DebugString(), in.DebugString());
  EXPECT_FALSE(out.draining());
}

TEST(ProtoConvertTest, NoRanksMeansOneAndUnknownRolesAreRefused) {
  v1::WorkerSpec message;
  EXPECT_EQ(FromProto(message)->dp_size, 1u);
  message.set_role(static_cast<v1::WorkerRole>(7));
  EXPECT_THAT(ErrorText(FromProto(message).status()), HasSubstr("role must be 0"));
  v1::UpdateRequest update;
  update.set_role(static_cast<v1::WorkerRole>(7));
  EXPECT_EQ(ErrorReasonOf(FromProto(update).status()), ErrorReason::kInvalidRequest);
}

TEST(ProtoConvertTest, UpdateCarriesOnlyWhatIsSet) {
  v1::UpdateRequest message;
  message.set_dp_size(0);
  message.mutable_events();
  const auto patch = FromProto(message);
  ASSERT_TRUE(patch.ok());
  EXPECT_EQ(patch->dp_size, 0u) << "0 was said: the registry refuses it";
  ASSERT_TRUE(patch->events.has_value()) << "an empty map takes all endpoints away";
  EXPECT_TRUE(patch->events->empty());
  EXPECT_FALSE(patch->address.has_value());
  EXPECT_FALSE(patch->draining.has_value());
}

TEST(ProtoConvertTest, FeedsNameEveryRank) {
  WorkerSpec spec;
  spec.id = WorkerId{9};
  spec.dp_start_rank = 4;
  spec.dp_size = 3;
  spec.events[5] = {.live = "tcp://h:5", .replay = ""};
  FeedReport report;
  report.target = {WorkerId{9}, 6};
  report.state = FeedState::kDegraded;
  report.detail = "gap";
  report.counters.events_applied = 11;
  report.counters.gaps = 2;
  report.counters.restarts = 1;
  PartitionSnapshot partition;
  partition.model_name = "default";
  partition.routing_group = "default";
  TargetLoad load;
  load.target = {WorkerId{9}, 6};
  load.index_blocks = 77;
  partition.loads = {load};
  v1::Worker out;
  FeedsToProto(spec, {report}, {partition}, &out);
  ASSERT_EQ(out.feeds_size(), 3);
  EXPECT_EQ(out.feeds(0).dp_rank(), 4u);
  EXPECT_EQ(out.feeds(0).state(), "none");
  EXPECT_EQ(out.feeds(1).state(), "connecting")
      << "configured, but the source has not reported yet";
  EXPECT_EQ(out.feeds(2).state(), "degraded");
  EXPECT_EQ(out.feeds(2).detail(), "gap");
  EXPECT_EQ(out.feeds(2).events_applied(), 11u);
  EXPECT_EQ(out.feeds(2).gaps(), 2u);
  EXPECT_EQ(out.feeds(2).restarts(), 1u);
  EXPECT_EQ(out.feeds(2).index_blocks(), 77u);
}

}  // namespace
}  // namespace kvrouter
