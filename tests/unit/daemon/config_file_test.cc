#include "daemon/config_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdio>
#include <fstream>
#include <string>

#include "daemon/worker_yaml.h"

namespace kvrouter {
namespace {

using testing::HasSubstr;

std::string ErrorOf(const std::string& text) {
  const auto parsed = ParseConfigFile(text, "kv.yaml");
  return parsed.ok() ? "" : std::string(parsed.status().message());
}

TEST(ConfigFileTest, EmptyFileSaysNothing) {
  for (const char* text : {"", "# only a comment\n", "---\n", "workers:\n", "workers: []\n"}) {
    const auto parsed = ParseConfigFile(text, "kv.yaml");
    ASSERT_TRUE(parsed.ok()) << parsed.status();
    EXPECT_TRUE(parsed->settings.empty());
    EXPECT_TRUE(parsed->workers.empty());
  }
}

TEST(ConfigFileTest, SecondDocumentIsRefused) {
  EXPECT_THAT(ErrorOf("a: 1\n---\nb: 2\n"), HasSubstr("kv.yaml:3: a second YAML document"));
  EXPECT_EQ(ErrorOf("---\na: 1\n...\n"), "") << "one document with both marks";
}

TEST(ConfigFileTest, OnlyRegularFilesUpToTheLimitAreRead) {
  const auto error_of = [](const std::string& path) {
    const auto read = ReadConfigFile(path);
    return read.ok() ? "" : std::string(read.status().message());
  };
  EXPECT_THAT(error_of(testing::TempDir()), HasSubstr("not a regular file"));
  EXPECT_THAT(error_of("/dev/zero"), HasSubstr("/dev/zero: not a regular file"));
  const std::string path = testing::TempDir() + "/config_file_test.yaml";
  EXPECT_THAT(error_of(path + ".missing"), HasSubstr("No such file"));
  std::ofstream(path) << "#" << std::string(kMaxConfigFileBytes - 2, ' ') << "\n";
  EXPECT_EQ(error_of(path), "");
  std::ofstream(path, std::ios::app) << "\n";
  EXPECT_THAT(error_of(path), HasSubstr("more than 16777216 bytes"));
  std::remove(path.c_str());
}

TEST(ConfigFileTest, SettingsKeepTheirLine) {
  const auto parsed = ParseConfigFile("\na: 1\nb: \"x y\"\nc:\n", "kv.yaml");
  ASSERT_TRUE(parsed.ok()) << parsed.status();
  ASSERT_EQ(parsed->settings.size(), 3u);
  EXPECT_EQ(parsed->settings[0].line, 2);
  EXPECT_EQ(parsed->settings[1].value, "x y");
  EXPECT_EQ(parsed->settings[2].value, "");
}

TEST(ConfigFileTest, WorkerHasEveryField) {
  const auto parsed = ParseConfigFile(R"(
workers:
  - worker_id: 18446744073709551615
    address: http://10.0.0.1:8000
    block_size: 16
    model_name: m
    routing_group: g
    dp_start_rank: 2
    dp_size: 2
    role: prefill
    total_kv_blocks: 20000
    max_num_batched_tokens: 8192
    is_eagle: true
    image_token_id: 151655
    kv_events_endpoint: tcp://10.0.0.1:5557
    replay_endpoints: {2: "tcp://10.0.0.1:6000", 3: "tcp://10.0.0.1:6001"}
)",
                                      "kv.yaml");
  ASSERT_TRUE(parsed.ok()) << parsed.status();
  WorkerSpec want;
  want.id = WorkerId{18446744073709551615u};
  want.address = "http://10.0.0.1:8000";
  want.block_size_tokens = 16;
  want.model_name = "m";
  want.routing_group = "g";
  want.dp_start_rank = 2;
  want.dp_size = 2;
  want.role = WorkerRole::kPrefill;
  want.total_kv_blocks = 20000;
  want.max_num_batched_tokens = 8192;
  want.is_eagle = true;
  want.image_token_id = 151655;
  want.events = {{2, {"tcp://10.0.0.1:5559", "tcp://10.0.0.1:6000"}},
                 {3, {"tcp://10.0.0.1:5560", "tcp://10.0.0.1:6001"}}};
  ASSERT_EQ(parsed->workers.size(), 1u);
  EXPECT_EQ(parsed->workers[0], want);
}

TEST(ConfigFileTest, RankPortIsBasePlusRank) {
  EXPECT_EQ(*EndpointForRank("tcp://h:5557", 0), "tcp://h:5557");
  EXPECT_EQ(*EndpointForRank("tcp://h:5557", 3), "tcp://h:5560");
  EXPECT_EQ(*EndpointForRank("tcp://[::1]:5557", 1), "tcp://[::1]:5558");
  EXPECT_EQ(*EndpointForRank("ipc:///tmp/x", 0), "ipc:///tmp/x");
  EXPECT_FALSE(EndpointForRank("ipc:///tmp/x", 1).ok());
  EXPECT_FALSE(EndpointForRank("tcp://h", 1).ok());
  EXPECT_FALSE(EndpointForRank("tcp://h:5557x", 1).ok());
  EXPECT_FALSE(EndpointForRank("tcp://h:65535", 1).ok());
}

TEST(ConfigFileTest, ErrorsNameFileAndLine) {
  EXPECT_EQ(ErrorOf("a: 1\na: 2\n"), "kv.yaml:2: a is given twice");
  EXPECT_EQ(ErrorOf("- 1\n"), "kv.yaml:1: the file must be a map of settings");
  EXPECT_EQ(ErrorOf("a: {b: 1}\n"), "kv.yaml:1: a: want a single value");
  EXPECT_EQ(ErrorOf("workers: 3\n"), "kv.yaml:1: workers must be a list");
  EXPECT_EQ(ErrorOf("workers:\n  - address: x\n"), "kv.yaml:2: a worker needs worker_id");
  EXPECT_EQ(ErrorOf("workers:\n  - worker_id: 1\n    blocksize: 16\n"),
            "kv.yaml:3: unknown key 'blocksize' of a worker (did you mean 'block_size'?)");
  EXPECT_EQ(ErrorOf("workers:\n  - worker_id: 1\n    block_size: -16\n"),
            "kv.yaml:3: block_size: bad value '-16': want a whole number in 0..4294967295");
  EXPECT_EQ(ErrorOf("workers:\n  - worker_id: 1\n    is_eagle: yes\n"),
            "kv.yaml:3: is_eagle: bad value 'yes': want true or false");
  EXPECT_EQ(ErrorOf("workers:\n  - worker_id: 1\n    image_token_id: -1\n"),
            "kv.yaml:3: image_token_id: bad value '-1': want a whole number in 0..4294967295");
  EXPECT_EQ(ErrorOf("workers:\n  - worker_id: 1\n    role: both\n"),
            "kv.yaml:3: role: bad value 'both': want aggregated, prefill or decode");
  EXPECT_EQ(ErrorOf("workers:\n  - worker_id: 1\n  - worker_id: 1\n"),
            "kv.yaml:3: worker_id 1 is given twice");
  EXPECT_THAT(
      ErrorOf("workers:\n  - {worker_id: 1, kv_events_endpoint: a, kv_events_endpoints: {0: b}}\n"),
      HasSubstr("exclude each other"));
  EXPECT_THAT(ErrorOf("workers:\n  - {worker_id: 1, dp_size: 2, kv_events_endpoint: 'ipc:///x'}\n"),
              HasSubstr("rank 1"));
  EXPECT_THAT(ErrorOf("a: [1\n"), HasSubstr("kv.yaml:2: "));
}

std::string WorkersFileError(const std::string& text) {
  const auto workers = ParseWorkersFile(text, "w.yaml");
  return workers.ok() ? "" : std::string(workers.status().message());
}

TEST(WorkersFileTextTest, ListAloneOrUnderItsKeyInYamlOrJson) {
  for (const char* text :
       {"- {worker_id: 1, address: a, block_size: 16}\n",
        "workers:\n  - worker_id: 1\n    address: a\n    block_size: 16\n",
        R"([{"worker_id": 1, "address": "a", "block_size": 16}])",
        R"({"workers": [{"worker_id": 1, "address": "a", "block_size": 16}]})"}) {
    const auto workers = ParseWorkersFile(text, "w.yaml");
    ASSERT_TRUE(workers.ok()) << text << workers.status();
    ASSERT_EQ(workers->size(), 1u) << text;
    EXPECT_EQ(workers->front().address, "a");
  }
}

TEST(WorkersFileTextTest, EmptyListIsAListAndEmptyFileIsNot) {
  const auto none = ParseWorkersFile("workers: []\n", "w.yaml");
  ASSERT_TRUE(none.ok()) << none.status();
  EXPECT_TRUE(none->empty());
  for (const char* text : {"", "# nothing\n", "workers:\n", "worker", "{}"})
    EXPECT_NE(WorkersFileError(text), "") << '"' << text << '"';
}

TEST(WorkersFileTextTest, SettingsDoNotBelongIntoIt) {
  EXPECT_THAT(WorkersFileError("workers: []\nlog_level: info\n"),
              testing::HasSubstr("w.yaml:1: want a list of workers"));
}

}  // namespace
}  // namespace kvrouter
