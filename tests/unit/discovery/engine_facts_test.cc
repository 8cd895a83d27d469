#include "adapters/discovery/engine_facts.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace kvrouter {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

EngineFacts FromMetrics(std::string_view text) {
  EngineFacts facts;
  ReadEngineMetrics(text, &facts);
  return facts;
}

TEST(EngineFactsTest, CacheConfigAndTokensComeFromTheMetrics) {
  const EngineFacts facts = FromMetrics(
      "# HELP vllm:cache_config_info Information of the LLMEngine CacheConfig\n"
      "# TYPE vllm:cache_config_info gauge\n"
      "vllm:cache_config_info{block_size=\"16\",cache_dtype=\"a,b}\\\"c\",enable_prefix_caching="
      "\"True\",num_gpu_blocks=\"1000\",engine=\"0\",sliding_window=\"None\"} 1.0\n"
      "vllm:prefix_cache_queries_total{engine=\"0\",model_name=\"m\"} 1000.0\n"
      "vllm:prefix_cache_queries_total{engine=\"1\",model_name=\"m\"} 2.5e+03\n"
      "vllm:request_success_total{engine=\"0\",finished_reason=\"stop\"} 5\n"
      "vllm:request_success_total{engine=\"0\",finished_reason=\"abort\"} 1\n"
      "vllm:num_requests_running{engine=\"0\"} 3.0\n"
      "vllm:num_requests_waiting{engine=\"0\"} 4.0\n"
      "vllm:num_requests_waiting_by_reason{engine=\"0\",reason=\"capacity\"} 4.0\n"
      "vllm:prefix_cache_hits_total{engine=\"0\",model_name=\"m\"} 64.0");
  EXPECT_EQ(facts.block_size_tokens, 16u);
  EXPECT_EQ(facts.prefix_caching, true);
  EXPECT_EQ(facts.queried_tokens, 3500);
  EXPECT_EQ(facts.hit_tokens, 64);
  EXPECT_EQ(facts.finished_requests, 6);
  EXPECT_EQ(facts.live_requests, 7);
  EXPECT_EQ(facts.total_kv_blocks, 1000u);
}

TEST(EngineFactsTest, WhatIsMissingOrNoneIsNotSaid) {
  for (const char* text :
       {"", "vllm:cache_config_info 1", "vllm:cache_config_info{} 1",
        "vllm:cache_config_info{block_size=\"None\",enable_prefix_caching=\"None\"} 1",
        "vllm:cache_config_info{block_size=\"16", "vllm:cache_config_info{block_size=\"16\"",
        "vllm:cache_config_info{block_size=\"-1\"} x", "vllm:", "vllm:{", "vllm:a{b}"}) {
    const EngineFacts facts = FromMetrics(text);
    EXPECT_FALSE(facts.block_size_tokens.has_value()) << text;
    EXPECT_FALSE(facts.prefix_caching.has_value()) << text;
  }
}

TEST(EngineFactsTest, RanksThatDisagreeSayNothing) {
  const EngineFacts facts = FromMetrics(
      "vllm:cache_config_info{block_size=\"16\",enable_prefix_caching=\"False\"} 1\n"
      "vllm:cache_config_info{block_size=\"32\",enable_prefix_caching=\"False\"} 1\n");
  EXPECT_FALSE(facts.block_size_tokens.has_value());
  EXPECT_EQ(facts.prefix_caching, false);
}

TEST(EngineFactsTest, TokensOfThePoolSayMoreThanItsBlocks) {
  const EngineFacts facts = FromMetrics(
      "vllm:cache_config_info{block_size=\"528\",num_gpu_blocks=\"4000\","
      "kv_cache_size_tokens=\"528000\"} 1\n");
  EXPECT_EQ(facts.total_kv_blocks, 1000u);
  EXPECT_FALSE(FromMetrics("vllm:cache_config_info{num_gpu_blocks=\"None\"} 1").total_kv_blocks);
}

TEST(EngineFactsTest, OlderNamesOfTheCountersServeToo) {
  const EngineFacts facts = FromMetrics(
      "vllm:gpu_prefix_cache_queries_total{engine=\"0\"} 10\n"
      "vllm:gpu_prefix_cache_hits_total{engine=\"0\"} 4\r\n");
  EXPECT_EQ(facts.queried_tokens, 10);
  EXPECT_EQ(facts.hit_tokens, 4);
}

TEST(EngineFactsTest, AdaptersAreNoModels) {
  EngineFacts facts;
  ReadModels(R"({"data":[{"id":"m","parent":null},{"id":"a","parent":"m"},{"id":"n"},{"id":7},3]})",
             &facts);
  EXPECT_THAT(facts.models, ElementsAre("m", "n"));
  for (const char* text : {"", "[]", "{}", R"({"data":{}})", "{\"data\":[{\"id\":\"\"}]}"}) {
    EngineFacts none;
    ReadModels(text, &none);
    EXPECT_THAT(none.models, IsEmpty()) << text;
  }
}

}  // namespace
}  // namespace kvrouter
