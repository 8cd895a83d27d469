#include "service/request_limits.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <vector>

#include "kvrouter/error.h"

namespace kvrouter {
namespace {

using testing::HasSubstr;

std::string ErrorText(const absl::Status& status) {
  return std::string(status.message().data(), status.message().size());
}

TEST(RequestLimitsTest, PlainRequestsPass) {
  RouteRequest request;
  request.prompt = TokenPrompt{};
  EXPECT_TRUE(CheckRequest({}, request).ok());
  request.request_id.assign(256, 'x');
  EXPECT_TRUE(CheckRequest({}, request).ok());
}

TEST(RequestLimitsTest, LongTextsAreRefusedByName) {
  RouteRequest request;
  request.prompt = TokenPrompt{};
  for (auto [field, name, limit] : {std::tuple(&RouteRequest::request_id, "request_id", 256),
                                    std::tuple(&RouteRequest::model_name, "model_name", 256),
                                    std::tuple(&RouteRequest::routing_group, "routing_group", 256),
                                    std::tuple(&RouteRequest::lora_name, "lora_name", 1024),
                                    std::tuple(&RouteRequest::cache_salt, "cache_salt", 1024)}) {
    SCOPED_TRACE(name);
    RouteRequest bad = request;
    bad.*field = std::string(static_cast<size_t>(limit) + 1, 'x');
    const absl::Status status = CheckRequest({}, bad);
    EXPECT_EQ(ErrorReasonOf(status), ErrorReason::kInvalidRequest);
    EXPECT_THAT(ErrorText(status), HasSubstr(name));
    EXPECT_THAT(ErrorText(status), HasSubstr("limit " + std::to_string(limit)));
    bad.*field = std::string(static_cast<size_t>(limit), 'x');
    EXPECT_TRUE(CheckRequest({}, bad).ok());
  }
}

TEST(RequestLimitsTest, PromptOverTheLimitIsTooLarge) {
  const std::vector<TokenId> tokens(11);
  RouteRequest request;
  request.prompt = TokenPrompt{tokens};
  const absl::Status status = CheckRequest({.max_prompt_tokens = 10}, request);
  EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_EQ(ErrorReasonOf(status), ErrorReason::kTooLarge);
  EXPECT_EQ(ErrorText(status), "prompt has 11 tokens, limit 10");
  EXPECT_TRUE(CheckRequest({.max_prompt_tokens = 11}, request).ok());
  request.prompt = HashPrompt{.local_hashes = {}, .sequence_hashes = {}, .isl_tokens = 12};
  EXPECT_EQ(ErrorReasonOf(CheckRequest({.max_prompt_tokens = 11}, request)),
            ErrorReason::kTooLarge);
}

TEST(RequestLimitsTest, HashListsMustAgree) {
  const std::vector<LocalBlockHash> local(3);
  const std::vector<SequenceHash> sequence(2);
  RouteRequest request;
  request.prompt = HashPrompt{.local_hashes = local, .sequence_hashes = sequence, .isl_tokens = 48};
  EXPECT_THAT(ErrorText(CheckRequest({}, request)),
              HasSubstr("sequence_hashes has 2 entries and local_block_hashes 3"));
  request.prompt = HashPrompt{.local_hashes = local, .sequence_hashes = {}, .isl_tokens = 2};
  EXPECT_THAT(ErrorText(CheckRequest({}, request)), HasSubstr("isl_tokens is 2, less than the 3"));
  request.prompt = HashPrompt{.local_hashes = local, .sequence_hashes = {}, .isl_tokens = 48};
  EXPECT_TRUE(CheckRequest({}, request).ok());
}

TEST(RequestLimitsTest, ListsOfTargetsAreBounded) {
  RouteRequest request;
  request.prompt = TokenPrompt{};
  request.allowed_workers = std::vector<WorkerId>(kMaxTargetsPerRequest + 1);
  EXPECT_EQ(ErrorReasonOf(CheckRequest({}, request)), ErrorReason::kTooLarge);
  request.allowed_workers.reset();
  request.excluded.resize(kMaxTargetsPerRequest + 1);
  EXPECT_EQ(ErrorReasonOf(CheckRequest({}, request)), ErrorReason::kTooLarge);
}

TEST(RequestLimitsTest, ZeroExpectedOutputIsRefused) {
  RouteRequest request;
  request.prompt = TokenPrompt{};
  request.expected_output_tokens = 0;
  EXPECT_EQ(ErrorReasonOf(CheckRequest({}, request)), ErrorReason::kInvalidRequest);
}

}  // namespace
}  // namespace kvrouter
