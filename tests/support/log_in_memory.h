#ifndef KVROUTER_TESTS_SUPPORT_LOG_IN_MEMORY_H_
#define KVROUTER_TESTS_SUPPORT_LOG_IN_MEMORY_H_

#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <string_view>
#include <vector>

#include "kvrouter/decision_record.h"

namespace kvrouter::testing {

// Keeps the log as the bytes of a file.
class LogInMemory final : public DecisionRecorder {
 public:
  explicit LogInMemory(RecordBounds bounds) : bounds_(bounds) {}
  void Record(const DecisionFacts& facts) override {
    bytes_ += EncodeRecord(RecordOf(facts, bounds_, 1'700'000'000'000));
  }
  std::vector<DecisionRecord> ReadBack() const {
    std::string_view rest = bytes_;
    DecisionLogReader reader([&rest](char* out, size_t bytes) {
      const size_t got = std::min(bytes, rest.size());
      std::copy_n(rest.data(), got, out);
      rest.remove_prefix(got);
      return got;
    });
    std::vector<DecisionRecord> records;
    for (;;) {
      const auto record = reader.Next();
      EXPECT_TRUE(record.ok()) << record.status();
      if (!record.ok() || !*record) break;
      records.push_back(**record);
    }
    EXPECT_EQ(reader.CutOffBytes(), 0u);
    return records;
  }

 private:
  const RecordBounds bounds_;
  std::string bytes_ = DecisionLogHeader();
};

}  // namespace kvrouter::testing

#endif  // KVROUTER_TESTS_SUPPORT_LOG_IN_MEMORY_H_
