#ifndef KVROUTER_TESTS_UNIT_DECISION_LOG_LOG_FOLDER_H_
#define KVROUTER_TESTS_UNIT_DECISION_LOG_LOG_FOLDER_H_

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include "kvrouter/decision_record.h"

namespace kvrouter::testing {

// A folder of its own for a log, gone with the test.
class LogFolder {
 public:
  LogFolder() {
    const auto* info = ::testing::UnitTest::GetInstance()->current_test_info();
    path_ = fmt::format("{}/kvrouter-{}-{}-{}", ::testing::TempDir(), getpid(),
                        info->test_suite_name(), info->name());
    std::filesystem::create_directories(path_);
  }
  ~LogFolder() { std::filesystem::remove_all(path_); }
  std::string File(const std::string& name = "log") const { return path_ + "/" + name; }
  std::vector<std::string> Names() const {
    std::vector<std::string> names;
    for (const auto& entry : std::filesystem::directory_iterator(path_))
      names.push_back(entry.path().filename().string());
    std::sort(names.begin(), names.end());
    return names;
  }

 private:
  std::string path_;
};

inline std::string BytesOf(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

inline void WriteBytes(const std::string& path, const std::string& bytes) {
  std::ofstream(path, std::ios::binary) << bytes;
}

// The ids of the requests in the file; what breaks off at its end, or is damaged, ends the list.
inline std::vector<std::string> IdsIn(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  DecisionLogReader reader([&file](char* out, size_t bytes) {
    file.read(out, static_cast<std::streamsize>(bytes));
    return static_cast<size_t>(file.gcount());
  });
  std::vector<std::string> ids;
  for (;;) {
    const auto record = reader.Next();
    if (!record.ok() || !*record) return ids;
    ids.push_back((*record)->request_id);
  }
}

inline std::string ARecord(const std::string& id) {
  DecisionRecord record;
  record.request_id = id;
  record.candidates = {{.target = {WorkerId{1}, 0}}};
  record.target = {WorkerId{1}, 0};
  return EncodeRecord(record);
}

}  // namespace kvrouter::testing

#endif  // KVROUTER_TESTS_UNIT_DECISION_LOG_LOG_FOLDER_H_
