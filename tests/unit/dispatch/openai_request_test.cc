#include "dispatch/openai_request.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <string>

#include "dispatch/request_headers.h"
#include "kvrouter/error.h"

namespace kvrouter {
namespace {

OpenAiRequest Read(const std::string& body,
                   OpenAiEndpoint endpoint = OpenAiEndpoint::kCompletions) {
  const auto request = ReadOpenAiRequest(endpoint, body, {});
  EXPECT_TRUE(request.ok()) << request.status() << " " << body;
  return request.ok() ? *request : OpenAiRequest();
}
std::string ErrorOf(const std::string& body, const OpenAiLimits& limits = {}) {
  const auto request = ReadOpenAiRequest(OpenAiEndpoint::kCompletions, body, limits);
  return request.ok() ? "" : request.status().ToString();
}
using Ids = std::vector<TokenId>;

TEST(OpenAiRequestTest, PromptsOfEveryShape) {
  const std::string text = R"({"prompt": "a \"b\"" ,"model":"m","stream":true})";
  const OpenAiRequest of_text = Read(text);
  EXPECT_EQ(text.substr(of_text.text_begin, of_text.text_bytes), R"("a \"b\"")");
  EXPECT_EQ(of_text.model, "m");
  EXPECT_TRUE(of_text.stream);
  EXPECT_EQ(of_text.plain, PlainReason::kNone);

  const OpenAiRequest of_ids = Read(R"({"prompt":[ 0,7, 4294967295 ]})");
  EXPECT_EQ(of_ids.token_ids, (Ids{0, 7, 4294967295}));
  EXPECT_TRUE(of_ids.token_ids_are_prompt);

  EXPECT_EQ(Read(R"({"prompt":[[5,6]]})").token_ids, (Ids{5, 6}));
  const std::string one = R"({"prompt":["x"]})";
  EXPECT_EQ(one.substr(Read(one).text_begin, Read(one).text_bytes), R"("x")");

  const OpenAiRequest two = Read(R"({"prompt":[[5,6],[7]]})");
  EXPECT_EQ(two.token_ids, (Ids{5, 6}));
  EXPECT_EQ(two.plain, PlainReason::kSeveralPrompts);
  EXPECT_EQ(Read(R"({"prompt":["x","y"]})").text_bytes, 0u);
  EXPECT_FALSE(Read(R"({"prompt":[]})").token_ids.has_value() &&
               !Read(R"({"prompt":[]})").token_ids->empty());
  EXPECT_EQ(Read(R"({"prompt":null})").text_bytes, 0u);
}

TEST(OpenAiRequestTest, WhatOnlyTheEngineUnderstandsIsNoError) {
  for (const std::string body :
       {R"({"max_tokens":"many","prompt":"x"})", R"({"stream":"yes"})", R"({"n":-1})",
        R"({"prompt":{"a":1}})", R"({"nvext":7})", R"({"a":{"b":[{"c":[[]]}]},"prompt":"x"})"}) {
    SCOPED_TRACE(body);
    Read(body);
  }
}

TEST(OpenAiRequestTest, ErrorsNameFieldValueAndLimit) {
  EXPECT_NE(ErrorOf(R"({"prompt":[1,1.5]})")
                .find("prompt must hold token ids 0..4294967295, got "
                      "1.5 at position 1"),
            std::string::npos)
      << ErrorOf(R"({"prompt":[1,1.5]})");
  EXPECT_NE(ErrorOf(R"({"prompt":[1,2,3]})", {.max_prompt_tokens = 2})
                .find("prompt has more than 2 tokens"),
            std::string::npos);
  EXPECT_NE(ErrorOf(R"({"a":1,"b":1,"b":1})", {.max_members = 2}).find("more than 2 fields"),
            std::string::npos);
  const std::string taints = fmt::format("{}", fmt::join(std::vector<int>(257, 1), "\",\""));
  const std::string constraints =
      R"({"nvext":{"routing_constraints":{"required_taints":[")" + taints + R"("]}}})";
  EXPECT_NE(ErrorOf(constraints).find("required_taints has more than 256 entries"),
            std::string::npos)
      << ErrorOf(constraints);
  EXPECT_NE(ErrorOf(R"({"model":7})").find("model must be a string"), std::string::npos);
  EXPECT_NE(ErrorOf(R"({"nvext":{"decode_worker_id":"x"}})").find("nvext.decode_worker_id"),
            std::string::npos);
  EXPECT_NE(ErrorOf(R"({"prompt":"x"} {})").find("behind the object"), std::string::npos);
  EXPECT_NE(ErrorOf(R"({"prompt":"x"} x)").find("not valid JSON"), std::string::npos);
  EXPECT_NE(ErrorOf("nonsense").find("must be a JSON object"), std::string::npos);
}

TEST(OpenAiRequestTest, MarksWhatOneEngineMustServe) {
  EXPECT_EQ(Read(R"({"n":2})").plain, PlainReason::kSeveralChoices);
  EXPECT_EQ(Read(R"({"n":1,"best_of":1})").plain, PlainReason::kNone);
  EXPECT_EQ(Read(R"({"echo":true})").plain, PlainReason::kWholePrompt);
  EXPECT_EQ(Read(R"({"echo":false,"suffix":null})").plain, PlainReason::kNone);
  for (const std::string value : {R"("2")", "2.0", "true"}) {
    EXPECT_EQ(Read(R"({"n":)" + value + "}").plain, PlainReason::kSeveralChoices) << value;
  }
  EXPECT_EQ(Read(R"({"n":null,"best_of":null,"use_beam_search":null})").plain, PlainReason::kNone);
  EXPECT_EQ(Read(R"({"use_beam_search":"yes"})").plain, PlainReason::kSeveralChoices);
  EXPECT_EQ(Read(R"({"echo":1})").plain, PlainReason::kWholePrompt);
  EXPECT_EQ(Read(R"({"truncate_prompt_tokens":4})").plain, PlainReason::kWholePrompt);
  EXPECT_EQ(Read(R"({"kv_transfer_params":{}})").plain, PlainReason::kCallersParameters);
}

TEST(OpenAiRequestTest, NvextSteersAndHeadersBeatIt) {
  const OpenAiRequest request = Read(
      R"({"nvext":{"backend_instance_id":7587890043311737930,"dp_rank":1,"prefill_worker_id":3,)"
      R"("token_data":[1,2],"agent_hints":{"priority":5,"osl":100,"latency_sensitivity":9.5},)"
      R"("routing_constraints":{"required_taints":["a"],"preferred_taints":{"b":0.5}}},)"
      R"("prompt":"x"})");
  EXPECT_EQ(request.token_ids, (Ids{1, 2}));
  EXPECT_FALSE(request.token_ids_are_prompt);
  EXPECT_EQ(request.nvext.expected_output_tokens, 100u);
  EXPECT_EQ(request.nvext.constraints.required_taints, std::vector<std::string>{"a"});
  const auto headers = ReadRequestHeaders({}, request.nvext);
  ASSERT_TRUE(headers.ok());
  EXPECT_EQ(headers->pinned->worker, WorkerId{7587890043311737930u});
  EXPECT_EQ(headers->pinned->dp_rank, 1u);
  EXPECT_EQ(headers->pinned_prefill->worker, WorkerId{3});
  EXPECT_EQ(headers->priority, 5);
  const auto other = ReadRequestHeaders(
      {{"x-worker-instance-id", "8"}, {"x-dp-rank", "2"}, {"x-dynamo-request-priority", "-1"}},
      request.nvext);
  ASSERT_TRUE(other.ok());
  EXPECT_EQ(other->pinned->worker, WorkerId{8});
  EXPECT_EQ(other->pinned->dp_rank, 2u);
  EXPECT_EQ(other->priority, -1);
}

TEST(RequestHeadersTest, AliasesAndSessions) {
  const auto read = [](HeaderList headers) { return *ReadRequestHeaders(headers, {}); };
  EXPECT_EQ(read({{"x-dynamo-request-id", "a"}}).request_id, "a");
  EXPECT_EQ(read({{"x-request-id", "b"}, {"x-dynamo-request-id", "a"}}).request_id, "b");
  EXPECT_EQ(read({{"x-session-id", "s"}, {"thread-id", " t "}}).session_id, "t");
  EXPECT_EQ(read({{"x-prefill-instance-id", "4"}, {"x-prefill-dp-rank", "4294967295"}})
                .pinned_prefill->dp_rank,
            std::nullopt);
  EXPECT_TRUE(read({{"x-dynamo-routing-mode", "aggregated"}}).aggregated);
  EXPECT_TRUE(read({{"x-route-explain", "1"}}).explain);
}

TEST(RequestHeadersTest, WhatCannotBeMeantIsRefused) {
  for (const HeaderList& headers :
       std::vector<HeaderList>{{{"x-dynamo-worker-instance-id", "seven"}},
                               {{"x-dp-rank", "-1"}},
                               {{"x-dynamo-session-id", "a"}, {"x-dynamo-session-id", "b"}},
                               {{"x-session-id", std::string(300, 'x')}},
                               {{"x-dynamo-meta-policy-class", "a b"}},
                               {{"x-route-explain", "yes"}}}) {
    SCOPED_TRACE(headers[0].first);
    const auto read = ReadRequestHeaders(headers, {});
    EXPECT_EQ(ErrorReasonOf(read.status()), ErrorReason::kInvalidRequest) << read.status();
  }
}

}  // namespace
}  // namespace kvrouter
