#include "adapters/discovery/workers_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "discovery_builders.h"

namespace kvrouter {
namespace {

TEST(WorkersFileTest, WrongFileAtStartIsAnErrorAndRegistersNothing) {
  SourcesFixture f;
  WorkersFile file(
      {.path = "/nowhere"},
      [](const std::string& path) -> absl::StatusOr<std::vector<WorkerSpec>> {
        return absl::InvalidArgumentError(path + ":1: broken");
      },
      &f.sources, &f.journal);
  const absl::Status status = file.Start();
  EXPECT_THAT(std::string(status.message()), testing::HasSubstr("/nowhere:1: broken"));
  EXPECT_TRUE(f.registry.List().empty());
}

TEST(WorkersFileTest, OneWrongWorkerMakesTheWholeFileWrong) {
  SourcesFixture f;
  WorkersFile file(
      {.path = "/nowhere"},
      [](const std::string&) -> absl::StatusOr<std::vector<WorkerSpec>> {
        WorkerSpec wrong = ADeclared(2).spec;
        wrong.block_size_tokens = 0;
        return std::vector<WorkerSpec>{ADeclared(1).spec, wrong};
      },
      &f.sources, &f.journal);
  const absl::Status status = file.Start();
  EXPECT_THAT(std::string(status.message()),
              testing::HasSubstr("/nowhere: worker 2: block_size_tokens"));
  EXPECT_TRUE(f.registry.List().empty());
}

}  // namespace
}  // namespace kvrouter
