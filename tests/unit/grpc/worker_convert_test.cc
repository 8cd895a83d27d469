#include "adapters/grpc/worker_convert.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace kvrouter {
namespace {

using testing::HasSubstr;

std::string ErrorText(const absl::Status& status) {
  return std::string(status.message().data(), status.message().size());
}

TEST(WorkerConvertTest, WorkerGoesOutAsItCameIn) {
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
  in.set_is_eagle(true);
  in.set_image_token_id(0);
  (*in.mutable_events())[3].set_live("tcp://h:5");
  (*in.mutable_events())[3].set_replay("tcp://h:6");
  const auto spec = FromProto(in);
  ASSERT_TRUE(spec.ok());
  v1::Worker out;
  ToProto(*spec, &out);
  EXPECT_EQ(out.spec().DebugString(), in.DebugString());
  EXPECT_FALSE(out.draining());
}

TEST(WorkerConvertTest, NoRanksMeansOneAndUnknownRolesAreRefused) {
  v1::WorkerSpec message;
  EXPECT_EQ(FromProto(message)->dp_size, 1u);
  message.set_role(static_cast<v1::WorkerRole>(7));
  EXPECT_THAT(ErrorText(FromProto(message).status()), HasSubstr("role must be 0"));
  v1::UpdateRequest update;
  update.set_role(static_cast<v1::WorkerRole>(7));
  EXPECT_EQ(ErrorReasonOf(FromProto(update).status()), ErrorReason::kInvalidRequest);
}

TEST(WorkerConvertTest, UpdateCarriesOnlyWhatIsSet) {
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
  EXPECT_FALSE(patch->is_eagle.has_value());
  EXPECT_FALSE(patch->image_token_id.has_value());
  message.set_is_eagle(false);
  message.set_image_token_id(7);
  EXPECT_EQ(FromProto(message)->is_eagle, false);
  EXPECT_EQ(FromProto(message)->image_token_id, 7u);
}

TEST(WorkerConvertTest, FeedsNameEveryRank) {
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
