#ifndef KVROUTER_CTL_TOKEN_SPEC_H_
#define KVROUTER_CTL_TOKEN_SPEC_H_

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"

namespace kvrouter::ctl {

inline constexpr uint64_t kMaxPromptTokens = 16'000'000;  // what fits into one 64 MiB message

// What --tokens may say: ids and inclusive ranges, separated by commas or white space ("1,2,3",
// "0-4095", "7 10-20"), with or without the brackets of a JSON array. At least one token, and none
// missing between commas.
absl::StatusOr<std::vector<uint32_t>> ParseTokens(std::string_view text);

// As ParseTokens, or "@FILE" to read that text from a file ("@-": standard input).
absl::StatusOr<std::vector<uint32_t>> ReadTokens(const std::string& spec);

}  // namespace kvrouter::ctl

#endif  // KVROUTER_CTL_TOKEN_SPEC_H_
