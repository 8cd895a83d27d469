#include "kvrouter/error.h"

#include <gtest/gtest.h>

#include <set>
#include <string>

namespace kvrouter {
namespace {

TEST(ErrorTest, StatusCarriesItsReason) {
  const absl::Status status =
      MakeError(absl::StatusCode::kResourceExhausted, ErrorReason::kAllOverloaded,
                "all 3 workers are overloaded");
  EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_EQ(ErrorReasonOf(status), ErrorReason::kAllOverloaded);
  EXPECT_EQ(std::string(status.message()), "all 3 workers are overloaded");
}

TEST(ErrorTest, ForeignStatusHasNoReason) {
  EXPECT_EQ(ErrorReasonOf(absl::OkStatus()), ErrorReason::kUnspecified);
  EXPECT_EQ(ErrorReasonOf(absl::InternalError("x")), ErrorReason::kUnspecified);
}

TEST(ErrorTest, EveryReasonHasItsOwnName) {
  std::set<std::string_view> names;
  const int last = static_cast<int>(ErrorReason::kQueueDeadline);
  for (int i = 0; i <= last; ++i) names.insert(ErrorReasonName(static_cast<ErrorReason>(i)));
  EXPECT_EQ(names.size(), static_cast<size_t>(last) + 1);
}

}  // namespace
}  // namespace kvrouter
