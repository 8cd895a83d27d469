#ifndef KVROUTER_SIM_TRACE_TRACE_H_
#define KVROUTER_SIM_TRACE_TRACE_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "kvrouter/types.h"

namespace kvrouter::sim {

// One request of a trace file. Rows are JSON objects, one a line, with timestamp (ms),
// input_length, output_length, hash_ids (prefix-chained block ids) and optional session_id.
struct TraceRow {
  MonotonicTime arrival{};  // since the first row
  uint64_t isl_tokens = 0;
  uint64_t osl_tokens = 1;
  std::vector<uint32_t> block_ids;  // of full blocks only: floor(isl / block size)
  std::string session_id;           // empty: a single request
};

struct Trace {
  std::string name;  // file name without folder and extensions
  uint32_t block_size_tokens = 0;
  std::vector<TraceRow> rows;  // by arrival, file order for equal times
};

// Block ids end here, so that the token values from here on are free for partial tails.
inline constexpr uint32_t kMaxBlockIds = 0x8000'0000;

// Reads plain, gzip or xz files of any number of rows. Strict: all four fields must be there, and a
// row must name a block id for each full block and at most one more (for a partial one, ignored),
// which also catches a wrong block size. Errors name the file and line.
absl::StatusOr<Trace> ReadTrace(const std::string& path, uint32_t block_size_tokens);

// A prompt's tokens: block id h becomes block_size tokens of value h; the partial tail repeats
// kMaxBlockIds + row_index, a token no other row has.
std::vector<TokenId> PromptTokens(const Trace& trace, size_t row_index);

}  // namespace kvrouter::sim

#endif  // KVROUTER_SIM_TRACE_TRACE_H_
