#include "sim/virtual/virtual_command.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "kvrouter/config.h"
#include "sim/virtual/router_settings.h"

namespace kvrouter::sim {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::StartsWith;

class VirtualCommandTest : public ::testing::Test {
 protected:
  struct Answer {
    int exit_code = 0;
    std::string out;
    std::string error;
  };

  void SetUp() override {
    std::string pattern = std::filesystem::temp_directory_path() / "kvr_virtual_XXXXXX";
    ASSERT_NE(mkdtemp(pattern.data()), nullptr);
    folder_ = pattern;
    trace_path_ = folder_ + "/two.jsonl";
    std::ofstream(trace_path_)
        << R"({"timestamp":0,"input_length":9,"output_length":1,"hash_ids":[0,1]})" << '\n'
        << R"({"timestamp":9000,"input_length":9,"output_length":1,"hash_ids":[0,1]})" << '\n';
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }

  Answer RunCommand(std::vector<std::string> arguments) {
    arguments.insert(arguments.begin(), "kvrouter-sim");
    std::vector<const char*> argv;
    for (const std::string& argument : arguments) argv.push_back(argument.c_str());
    testing::internal::CaptureStdout();
    testing::internal::CaptureStderr();
    Answer answer;
    answer.exit_code = RunVirtualCommand(static_cast<int>(argv.size()), argv.data());
    std::fflush(stdout);
    answer.out = testing::internal::GetCapturedStdout();
    answer.error = testing::internal::GetCapturedStderr();
    return answer;
  }

  Answer RunOnTrace(std::vector<std::string> arguments) {
    arguments.insert(arguments.begin(), {"--virtual", trace_path_, "--block-size", "4"});
    return RunCommand(std::move(arguments));
  }

  std::string folder_;
  std::string trace_path_;
};

TEST_F(VirtualCommandTest, PrintsARowForEachPolicyInOrder) {
  const Answer answer = RunOnTrace({});
  EXPECT_EQ(answer.exit_code, 0) << answer.error;
  EXPECT_THAT(answer.out, StartsWith("two: 2 requests, block 4; 8 workers x 20000 blocks"));
  const size_t kv = answer.out.find("\nkv ");
  const size_t round_robin = answer.out.find("\nround_robin ");
  const size_t random = answer.out.find("\nrandom ");
  const size_t least_loaded = answer.out.find("\nleast_loaded ");
  EXPECT_NE(least_loaded, std::string::npos);
  EXPECT_TRUE(kv < round_robin && round_robin < random && random < least_loaded) << answer.out;
}

TEST_F(VirtualCommandTest, JsonHasTheSameFiguresAndTheSums) {
  const std::string path = folder_ + "/out.json";
  const Answer answer = RunOnTrace({"--policy", "kv,round_robin", "--workers", "1", "--blocks", "0",
                                    "--sequential", "--json", path});
  ASSERT_EQ(answer.exit_code, 0) << answer.error;
  EXPECT_THAT(answer.out, HasSubstr("kv: expected 2 of 6 blocks (partial ones counted); found 2 of "
                                    "4 full blocks, 8 of 18 tokens"));
  std::ifstream file(path);
  const auto rows = nlohmann::json::parse(file);
  ASSERT_EQ(rows.size(), 2u);
  for (const auto& row : rows) {
    EXPECT_EQ(row["trace"], "two");
    EXPECT_EQ(row["mode"], "virtual");
    EXPECT_EQ(row["details"]["overlap_blocks"], 2);
    EXPECT_EQ(row["details"]["isl_blocks"], 6);
    EXPECT_EQ(row["details"]["full_blocks"], 4);
    EXPECT_DOUBLE_EQ(row["full_block_hit"], 0.5);
    EXPECT_DOUBLE_EQ(row["router_block_weighted"], 2.0 / 6);
    EXPECT_DOUBLE_EQ(row["router_token_weighted"], 8.0 / 18);
  }
  EXPECT_EQ(rows[0]["policy"], "kv");
  EXPECT_EQ(rows[1]["policy"], "round_robin");
}

TEST_F(VirtualCommandTest, MistakesGiveOneLineAndExitCode1) {
  const Answer missing = RunCommand({"--virtual", folder_ + "/none.jsonl", "--block-size", "4"});
  EXPECT_EQ(missing.exit_code, 1);
  EXPECT_THAT(missing.error, AllOf(StartsWith("kvrouter-sim: "), HasSubstr("none.jsonl")));
  EXPECT_EQ(std::count(missing.error.begin(), missing.error.end(), '\n'), 1);
  EXPECT_EQ(missing.out, "");

  EXPECT_EQ(RunCommand({"--virtual", trace_path_}).exit_code, 1) << "no block size";
  EXPECT_EQ(RunOnTrace({"--policy", "best"}).exit_code, 1);
  EXPECT_EQ(RunOnTrace({"--workers", "0"}).exit_code, 1);
  EXPECT_EQ(RunOnTrace({"--speedup", "0"}).exit_code, 1);
  EXPECT_EQ(RunOnTrace({"--nonsense"}).exit_code, 1);
  EXPECT_THAT(RunOnTrace({"--set", "prefil_load_scale=2"}).error,
              AllOf(HasSubstr("prefil_load_scale"), HasSubstr("prefill_load_scale")));
  EXPECT_THAT(RunOnTrace({"--set", "router_temperature=-1"}).error,
              HasSubstr("router_temperature"));
  EXPECT_THAT(RunOnTrace({"--set", "session_soft_max_cost_factor=0.5"}).error,
              HasSubstr("soft_pin.max_cost_factor"));
  EXPECT_THAT(RunOnTrace({"--set", "session_from_prefix_tokens=2.5"}).error,
              HasSubstr("'2.5' is not a whole number"));
  EXPECT_THAT(RunOnTrace({"--set", "router_session_affinity_ttl_secs=soon"}).error,
              HasSubstr("'soon' is not a whole number"));
  EXPECT_THAT(RunOnTrace({"--set", "session_soft=2"}).error, HasSubstr("truth value"));
  EXPECT_THAT(RunOnTrace({"--json", folder_ + "/no/such/folder.json"}).error,
              HasSubstr("cannot write --json"));
}

TEST_F(VirtualCommandTest, HelpIsNoMistake) {
  const Answer answer = RunCommand({"--help"});
  EXPECT_EQ(answer.exit_code, 0);
  EXPECT_THAT(answer.out, HasSubstr("--block-size"));
}

TEST(RouterSettingsTest, SetsFieldsByDynamosNames) {
  RouterConfig config;
  for (const char* setting : {"overlap_score_credit=0.5", "prefill_load_scale=16",
                              "decode_active_request_weight=2", "router_temperature=0.25",
                              "router_assume_kv_reuse=false", "router_track_output_blocks=1"}) {
    EXPECT_TRUE(ApplySetting(setting, &config).ok()) << setting;
  }
  EXPECT_EQ(config.scheduler.weights.overlap_score_credit, 0.5);
  EXPECT_EQ(config.scheduler.weights.prefill_load_scale, 16);
  EXPECT_EQ(config.scheduler.weights.decode_active_request_weight, 2);
  EXPECT_EQ(config.scheduler.router_temperature, 0.25);
  EXPECT_FALSE(config.scheduler.assume_kv_reuse);
  EXPECT_TRUE(config.scheduler.track_output_blocks);
}

TEST(RouterSettingsTest, RefusesWhatItCannotRead) {
  RouterConfig config;
  for (const char* setting : {"prefill_load_scale", "prefill_load_scale=", "prefill_load_scale=1x",
                              "prefill_load_scale= 1", "router_assume_kv_reuse=maybe", "=1", ""}) {
    EXPECT_FALSE(ApplySetting(setting, &config).ok()) << setting;
  }
}

}  // namespace
}  // namespace kvrouter::sim
