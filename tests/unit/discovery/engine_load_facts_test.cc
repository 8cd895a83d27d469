#include "adapters/discovery/engine_load_facts.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

namespace kvrouter {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::Pair;

WorkerSpec AWorker(uint32_t dp_start_rank = 0, uint32_t dp_size = 1) {
  WorkerSpec spec;
  spec.block_size_tokens = 16;
  spec.dp_start_rank = dp_start_rank;
  spec.dp_size = dp_size;
  return spec;
}

TEST(EngineLoadFactsTest, VllmsRanksAreToldApart) {
  const std::string text =
      "# TYPE vllm:num_requests_running gauge\n"
      "vllm:num_requests_running{engine=\"0\",model_name=\"m\"} 3.0\n"
      "vllm:num_requests_running{engine=\"1\",model_name=\"m\"} 5.0\n"
      "vllm:num_requests_running{engine=\"7\",model_name=\"m\"} 9.0\n"
      "vllm:num_requests_waiting{engine=\"0\"} 2\n"
      "vllm:num_requests_waiting_by_reason{engine=\"0\"} 77\n"
      "vllm:kv_cache_usage_perc{engine=\"0\"} 0.25\n"
      "vllm:gpu_cache_usage_perc{engine=\"1\"} 0.5\n"
      "vllm:cache_config_info{block_size=\"16\",engine=\"0\",num_gpu_blocks=\"1000\"} 1.0\n"
      "vllm:cache_config_info{block_size=\"16\",engine=\"1\",num_gpu_blocks=\"2000\"} 1.0\n";
  const EngineLoad first{
      .running_requests = 3, .waiting_requests = 2, .used_blocks = 250, .total_blocks = 1000};
  const EngineLoad second{.running_requests = 5,
                          .waiting_requests = std::nullopt,
                          .used_blocks = 1000,
                          .total_blocks = 2000};
  EXPECT_THAT(ReadEngineLoads(text, AWorker(0, 2)), ElementsAre(Pair(0, first), Pair(1, second)));
}

TEST(EngineLoadFactsTest, OneRankNeedsNoName) {
  const EngineLoad load{.running_requests = 4};
  EXPECT_THAT(ReadEngineLoads("vllm:num_requests_running 4", AWorker(3)),
              ElementsAre(Pair(3, load)));
  EXPECT_THAT(ReadEngineLoads("vllm:num_requests_running{engine=\"0\"} 4", AWorker(3)),
              ElementsAre(Pair(3, load)))
      << "a server of one rank counts its engines from 0";
  EXPECT_THAT(ReadEngineLoads("vllm:num_requests_running{engine=\"0\"} 4\n"
                              "vllm:num_requests_running{engine=\"1\"} 4",
                              AWorker(3)),
              IsEmpty())
      << "which is it?";
  EXPECT_THAT(ReadEngineLoads("vllm:num_requests_running 4", AWorker(0, 2)), IsEmpty());
}

TEST(EngineLoadFactsTest, SglangCountsTokens) {
  const std::string text =
      "sglang:num_running_reqs{model_name=\"m\",tp_rank=\"0\"} 6.0\n"
      "sglang:num_running_reqs{model_name=\"m\",tp_rank=\"1\"} 6.0\n"
      "sglang:num_queue_reqs{model_name=\"m\",tp_rank=\"0\"} 1.0\n"
      "sglang:num_used_tokens{model_name=\"m\",tp_rank=\"0\"} 33.0\n"
      "sglang:token_usage{model_name=\"m\",tp_rank=\"0\"} 0.9\n"
      "sglang:max_total_num_tokens{model_name=\"m\",tp_rank=\"0\"} 1600.0\n";
  const EngineLoad load{
      .running_requests = 6, .waiting_requests = 1, .used_blocks = 3, .total_blocks = 100};
  EXPECT_THAT(ReadEngineLoads(text, AWorker()), ElementsAre(Pair(0, load)));
}

TEST(EngineLoadFactsTest, AShareOfWhatTheRecordSaysIsEnough) {
  WorkerSpec worker = AWorker();
  EXPECT_THAT(ReadEngineLoads("vllm:kv_cache_usage_perc 0.5", worker), IsEmpty());
  worker.total_kv_blocks = 40;
  EXPECT_EQ(ReadEngineLoads("vllm:kv_cache_usage_perc 0.5", worker).at(0).used_blocks, 20);
}

TEST(EngineLoadFactsTest, WhatIsNoFigureSaysNothing) {
  WorkerSpec worker = AWorker();
  worker.total_kv_blocks = 40;
  for (const char* text : {"", "\n", "vllm:num_requests_running", "vllm:num_requests_running nan",
                           "vllm:num_requests_running -1", "vllm:num_requests_running{engine=\"0 1",
                           "vllm:kv_cache_usage_perc 1.5", "vllm:kv_cache_usage_perc inf",
                           "\xff\xfe{\"} 1", "vllm:cache_config_info{num_gpu_blocks=\"9\"} 1"}) {
    EXPECT_THAT(ReadEngineLoads(text, worker), IsEmpty()) << text;
  }
}

TEST(EngineLoadFactsTest, NamesOfManyRanksAreBounded) {
  std::string text;
  for (int rank = 0; rank < 5000; ++rank) {
    text += "vllm:num_requests_running{engine=\"" + std::to_string(rank) + "\"} 1\n";
  }
  EXPECT_EQ(ReadEngineLoads(text, AWorker(0, 1024)).size(), 1024u);
}

}  // namespace
}  // namespace kvrouter
