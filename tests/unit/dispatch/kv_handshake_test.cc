#include "dispatch/kv_handshake.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <string>

namespace kvrouter {
namespace {

using Json = nlohmann::json;

Json Good() {
  return {{"do_remote_prefill", true},  {"do_remote_decode", false},
          {"remote_engine_id", "e"},    {"remote_request_id", "cmpl-r-0"},
          {"remote_host", "10.0.0.7"},  {"remote_port", 5600},
          {"remote_block_ids", {1, 2}}, {"tp_size", 8}};
}
HandshakeReading Read(const Json& params, std::string_view url = "http://10.0.0.7:8000") {
  return ReadHandshake(Json{{"choices", Json::array()}, {"kv_transfer_params", params}}.dump(),
                       url);
}

TEST(KvHandshakeTest, AWholeOneIsKeptByteForByte) {
  const std::string params =
      R"({"remote_port" : 5600,"do_remote_prefill":true,"remote_engine_id":"e","x":1.50e1,)"
      R"("remote_request_id":"r","remote_host":"h","remote_block_ids":[[],[7]]})";
  const auto reading =
      ReadHandshake(R"({"id":"1","kv_transfer_params": )" + params + R"( ,"z":[]})", "http://h");
  EXPECT_EQ(reading.problem, HandshakeProblem::kNone) << reading.detail;
  EXPECT_EQ(reading.handshake.params, params);
  EXPECT_EQ(reading.handshake.blocks, 1u);
}

TEST(KvHandshakeTest, EveryNeededFieldIsNeeded) {
  EXPECT_EQ(Read(Good()).problem, HandshakeProblem::kNone);
  for (const std::string field : {"do_remote_prefill", "remote_engine_id", "remote_request_id",
                                  "remote_host", "remote_port", "remote_block_ids"}) {
    SCOPED_TRACE(field);
    Json missing = Good();
    missing.erase(field);
    EXPECT_EQ(Read(missing).problem, HandshakeProblem::kInvalid);
    Json null = Good();
    null[field] = nullptr;
    EXPECT_EQ(Read(null).problem, HandshakeProblem::kInvalid);
    EXPECT_NE(Read(null).detail.find(field), std::string::npos) << Read(null).detail;
  }
}

TEST(KvHandshakeTest, BlocksMayBeFlatOrInGroupsButNotNone) {
  const auto with = [](Json blocks) {
    Json params = Good();
    params["remote_block_ids"] = std::move(blocks);
    return Read(params);
  };
  EXPECT_EQ(with({1, 2, 3}).handshake.blocks, 3u);
  EXPECT_EQ(with({{1}, {2, 3}}).handshake.blocks, 3u);
  EXPECT_EQ(with(Json::array()).problem, HandshakeProblem::kInvalid);
  EXPECT_EQ(with({Json::array(), Json::array()}).problem, HandshakeProblem::kInvalid);
}

TEST(KvHandshakeTest, PortsMayBeTexts) {
  Json params = Good();
  for (const Json& port : {Json("5600"), Json(1), Json(65535)}) {
    params["remote_port"] = port;
    EXPECT_EQ(Read(params).problem, HandshakeProblem::kNone);
  }
  for (const Json& port : {Json("x"), Json(0), Json(65536), Json(-1), Json("")}) {
    params["remote_port"] = port;
    EXPECT_EQ(Read(params).problem, HandshakeProblem::kInvalid);
  }
}

TEST(KvHandshakeTest, AHostThatMeansTheReaderItselfIsOnlyGoodOnOneMachine) {
  for (const std::string host :
       {"localhost", "LOCALHOST", "127.0.0.1", "127.1.2.3", "0.0.0.0", "::1", "::"}) {
    SCOPED_TRACE(host);
    Json params = Good();
    params["remote_host"] = host;
    EXPECT_EQ(Read(params).problem, HandshakeProblem::kLocal);
    EXPECT_EQ(Read(params, "http://127.0.0.1:8000").problem, HandshakeProblem::kNone);
    EXPECT_EQ(Read(params, "https://user@[::1]:8000/x").problem, HandshakeProblem::kNone);
  }
}

TEST(KvHandshakeTest, NoneIsMissingAndNonsenseInvalid) {
  EXPECT_EQ(Read(nullptr).problem, HandshakeProblem::kMissing);
  EXPECT_EQ(Read(Json::object()).problem, HandshakeProblem::kMissing);
  EXPECT_EQ(ReadHandshake("{}", "http://h").problem, HandshakeProblem::kMissing);
  EXPECT_EQ(ReadHandshake("<html>", "http://h").problem, HandshakeProblem::kInvalid);
  EXPECT_EQ(ReadHandshake(R"({"kv_transfer_params":[1]})", "http://h").problem,
            HandshakeProblem::kInvalid);
}

}  // namespace
}  // namespace kvrouter
