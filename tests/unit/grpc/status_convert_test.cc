#include "adapters/grpc/status_convert.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cctype>
#include <string>

namespace kvrouter {
namespace {

// The wire's enum and the core's are two lists that must stay one.
TEST(StatusConvertTest, EveryReasonHasItsNameOnTheWire) {
  EXPECT_EQ(static_cast<int>(ErrorReason::kQueueDeadline) + 1,
            v1::ErrorReason_descriptor()->value_count());
  for (int i = 0; i < v1::ErrorReason_descriptor()->value_count(); ++i) {
    const auto reason = static_cast<ErrorReason>(i);
    std::string name = "ERROR_REASON_" + std::string(ErrorReasonName(reason));
    std::transform(name.begin(), name.end(), name.begin(),
                   [](unsigned char c) { return static_cast<char>(std::toupper(c)); });
    EXPECT_EQ(v1::ErrorReason_Name(ToProto(reason)), name);
  }
}

TEST(StatusConvertTest, CodesAreTheSameNumbers) {
  EXPECT_EQ(static_cast<int>(absl::StatusCode::kCancelled), grpc::StatusCode::CANCELLED);
  EXPECT_EQ(static_cast<int>(absl::StatusCode::kInvalidArgument),
            grpc::StatusCode::INVALID_ARGUMENT);
  EXPECT_EQ(static_cast<int>(absl::StatusCode::kNotFound), grpc::StatusCode::NOT_FOUND);
  EXPECT_EQ(static_cast<int>(absl::StatusCode::kAlreadyExists), grpc::StatusCode::ALREADY_EXISTS);
  EXPECT_EQ(static_cast<int>(absl::StatusCode::kResourceExhausted),
            grpc::StatusCode::RESOURCE_EXHAUSTED);
  EXPECT_EQ(static_cast<int>(absl::StatusCode::kFailedPrecondition),
            grpc::StatusCode::FAILED_PRECONDITION);
  EXPECT_EQ(static_cast<int>(absl::StatusCode::kUnavailable), grpc::StatusCode::UNAVAILABLE);
}

}  // namespace
}  // namespace kvrouter
