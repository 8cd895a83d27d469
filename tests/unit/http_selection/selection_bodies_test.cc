#include "adapters/http/selection_bodies.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

namespace kvrouter {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::Optional;

absl::StatusOr<SelectionBody> Read(const std::string& text, BodyKind kind = BodyKind::kSelect) {
  return ReadSelectionBody(text, kind);
}

TEST(SelectionBodyTest, PromptsOfAllKinds) {
  EXPECT_THAT(Read(R"({"token_ids":[0,4294967295]})")->token_ids,
              Optional(ElementsAre(0u, 4294967295u)));
  const auto hashes = Read(R"({"block_hashes":[-1],"sequence_hashes":[1],"isl_tokens":4})");
  EXPECT_THAT(hashes->block_hashes, Optional(ElementsAre(LocalBlockHash{~uint64_t{0}})));
}

std::vector<std::vector<MultimodalHash>> ItemsOf(const SelectionBody& body) {
  const auto request = ToRouteRequest(body);
  EXPECT_TRUE(request.ok()) << request.status();
  const auto items = std::get<TokenPrompt>(request->prompt).multimodal;
  return {items.begin(), items.end()};
}

TEST(SelectionBodyTest, BlockInfosKeepOrderAndRepetitionsAndEndWithTheLastItem) {
  const auto body = Read(R"({"token_ids":[1,2],"block_mm_infos":[null,
      {"mm_objects":[{"mm_hash":9,"offsets":[[0,3],[4,5]]},{"mm_hash":18446744073709551615},
                     {"offsets":[],"mm_hash":9,"more":{}}],"more":1},
      {"mm_objects":[]},null]})");
  ASSERT_TRUE(body.ok()) << body.status();
  const MultimodalHash nine{9};
  EXPECT_THAT(ItemsOf(*body), ElementsAre(testing::IsEmpty(),
                                          ElementsAre(nine, MultimodalHash{~uint64_t{0}}, nine)));
}

TEST(SelectionBodyTest, MultimodalRoutingWithTokensIsThePrompt) {
  const std::string routing =
      R"("mm_routing_info":{"block_mm_infos":[{"mm_objects":[{"mm_hash":1}]}],)"
      R"("routing_token_ids":)";
  const std::string rest =
      R"("token_ids":[7],"block_mm_infos":[null,{"mm_objects":[{"mm_hash":2}]}])";
  const auto both = Read("{" + routing + "[5,6]}," + rest + "}");
  ASSERT_TRUE(both.ok()) << both.status();
  EXPECT_THAT(std::get<TokenPrompt>(ToRouteRequest(*both)->prompt).token_ids, ElementsAre(5u, 6u));
  EXPECT_THAT(ItemsOf(*both), ElementsAre(ElementsAre(MultimodalHash{1})));
  const auto empty = Read("{" + routing + "[]}," + rest + "}");
  EXPECT_THAT(std::get<TokenPrompt>(ToRouteRequest(*empty)->prompt).token_ids, ElementsAre(7u));
  EXPECT_EQ(ItemsOf(*empty).size(), 2u);
}

TEST(SelectionBodyTest, EagleIsPassedOnOnlyIfSaid) {
  EXPECT_EQ(ToRouteRequest(*Read(R"({"token_ids":[1]})"))->is_eagle, std::nullopt);
  EXPECT_EQ(ToRouteRequest(*Read(R"({"token_ids":[1],"is_eagle":false})"))->is_eagle, false);
  EXPECT_EQ(ToRouteRequest(*Read(R"({"token_ids":[1],"is_eagle":true})"))->is_eagle, true);
}

TEST(SelectionBodyTest, ReadInPlaceAndFromACopyAlike) {
  std::string roomy = R"({"token_ids":[1,2,3]})";
  std::string tight = roomy;
  roomy.reserve(roomy.size() + 200);
  tight.shrink_to_fit();
  EXPECT_EQ(Read(roomy)->token_ids, Read(tight)->token_ids);
}

TEST(SelectionBodyTest, DeprecatedWeightIsTranslated) {
  const auto two = Read(R"({"router_config_override":{"overlap_score_weight":2}})");
  EXPECT_THAT(two->overrides.prefill_load_scale, Optional(2.0));
  EXPECT_FALSE(two->overrides.overlap_score_credit);
  const auto zero = Read(R"({"router_config_override":{"overlap_score_weight":0}})");
  EXPECT_THAT(zero->overrides.prefill_load_scale, Optional(0.0));
  EXPECT_THAT(zero->overrides.overlap_score_credit, Optional(0.0));
}

TEST(SelectionBodyTest, FieldsOfOtherRoutesAreUnknownOnes) {
  EXPECT_TRUE(Read(R"({"worker_id":"x"})", BodyKind::kSelect).ok());
  EXPECT_FALSE(Read(R"({"worker_id":"x"})", BodyKind::kReserve).ok());
  EXPECT_TRUE(Read(R"({"pinned_worker":"x"})", BodyKind::kPrompt).ok());
}

TEST(SelectionBodyTest, ErrorsNameTheField) {
  const auto wrong = Read(R"({"allowed_worker_ids":[1,"2"]})");
  EXPECT_EQ(wrong.status().code(), absl::StatusCode::kOutOfRange);
  EXPECT_THAT(std::string(wrong.status().message()), HasSubstr("allowed_worker_ids"));
}

TEST(SelectionBodyTest, EveryTruncationIsAnError) {
  const std::string whole =
      R"({"token_ids":[1,2],"cache_salt":"é","pinned_worker":{"worker_id":3},"x":[null,true,{}],)"
      R"("block_mm_infos":[null,{"mm_objects":[{"mm_hash":1,"offsets":[[0,1]]}]}]})";
  ASSERT_TRUE(Read(whole).ok());
  for (size_t length = 0; length < whole.size(); ++length) {
    EXPECT_FALSE(Read(whole.substr(0, length)).ok()) << "of " << length << " bytes";
  }
}

TEST(WorkerBodyTest, OneFeedAndFeedsByRank) {
  const auto one = ReadWorkerBody(
      R"({"worker_id":1,"data_parallel_start_rank":3,"kv_events_endpoint":"tcp://a:1"})");
  EXPECT_EQ(one->spec.events.at(3).live, "tcp://a:1");
  const auto two = ReadWorkerBody(R"({"worker_id":1,"data_parallel_size":2,)"
                                  R"("kv_events_endpoints":{"0":"tcp://a:1","1":"tcp://a:2"}})");
  EXPECT_EQ(two->spec.events.at(1).live, "tcp://a:2");
}

TEST(WorkerBodyTest, NulDoesNotEndTheText) {
  using std::string_literals::operator""s;
  for (const std::string& more : {"\0"s, "\0{}"s, "\0}"s}) {
    EXPECT_FALSE(ReadWorkerBody(R"({"worker_id":1})" + more).ok());
    EXPECT_FALSE(ReadOutputBlockBody(R"({"decay_fraction":1})" + more).ok());
  }
}

TEST(WorkerBodyTest, BlockNaming) {
  const auto worker = ReadWorkerBody(R"({"worker_id":1,"is_eagle":true,"image_token_id":0})");
  ASSERT_TRUE(worker.ok()) << worker.status();
  EXPECT_TRUE(worker->spec.is_eagle);
  EXPECT_EQ(worker->spec.image_token_id, 0u);
  const auto plain = ReadWorkerBody(R"({"worker_id":1,"image_token_id":null})");
  EXPECT_FALSE(plain->spec.is_eagle);
  EXPECT_EQ(plain->spec.image_token_id, std::nullopt);
  const auto patch = ReadWorkerPatch(R"({"is_eagle":false})", worker->spec);
  EXPECT_EQ(patch->spec.is_eagle, false);
  EXPECT_EQ(patch->spec.image_token_id, std::nullopt);
}

TEST(OutputBlockBodyTest, NothingOrAFraction) {
  EXPECT_EQ(*ReadOutputBlockBody(""), std::nullopt);
  EXPECT_EQ(*ReadOutputBlockBody("{}"), std::nullopt);
  EXPECT_THAT(*ReadOutputBlockBody(R"({"decay_fraction":1})"), Optional(1.0));
  EXPECT_FALSE(ReadOutputBlockBody(R"({"decay_fraction":1.01})").ok());
}

}  // namespace
}  // namespace kvrouter
