#include "sim/trace/trace.h"

#include <fmt/format.h>
#include <simdjson.h>

#include <algorithm>
#include <cmath>
#include <string_view>
#include <utility>

#include "base/check.h"
#include "base/status_macros.h"
#include "sim/trace/line_reader.h"

namespace kvrouter::sim {
namespace {

// Keeps times in nanoseconds within 64 bits: 100 years.
constexpr double kMaxTimestampMs = 3.2e12;
// Keeps sums of tokens over any trace far from overflow, and indices of blocks within 32 bits.
constexpr uint64_t kMaxTokens = uint64_t{1} << 31;

struct TimedRow {
  double timestamp_ms = 0;
  TraceRow row;
};

absl::Status FieldError(std::string_view field, std::string_view problem) {
  return absl::InvalidArgumentError(fmt::format("{}: {}", field, problem));
}

absl::StatusOr<uint64_t> TokenCount(const simdjson::dom::object& object, std::string_view field) {
  uint64_t tokens = 0;
  const auto error = object[field].get(tokens);
  if (error != simdjson::SUCCESS) {
    return FieldError(
        field, fmt::format("must be a whole number >= 0 ({})", simdjson::error_message(error)));
  }
  if (tokens > kMaxTokens) {
    return FieldError(field, fmt::format("must be at most {}, got {}", kMaxTokens, tokens));
  }
  return tokens;
}

absl::StatusOr<std::vector<uint32_t>> BlockIds(const simdjson::dom::object& object,
                                               uint64_t isl_tokens, uint32_t block_size_tokens) {
  simdjson::dom::array ids;
  if (const auto error = object["hash_ids"].get(ids); error != simdjson::SUCCESS) {
    return FieldError("hash_ids",
                      fmt::format("must be an array ({})", simdjson::error_message(error)));
  }
  const uint64_t full_blocks = isl_tokens / block_size_tokens;
  const uint64_t all_blocks = full_blocks + (isl_tokens % block_size_tokens != 0 ? 1 : 0);
  std::vector<uint32_t> block_ids;
  block_ids.reserve(full_blocks);
  uint64_t count = 0;
  for (const simdjson::dom::element element : ids) {
    uint64_t id = 0;
    if (element.get(id) != simdjson::SUCCESS || id >= kMaxBlockIds) {
      return FieldError("hash_ids", fmt::format("element {} must be a whole number in 0..{}", count,
                                                kMaxBlockIds - 1));
    }
    if (count < full_blocks) block_ids.push_back(static_cast<uint32_t>(id));
    ++count;
  }
  if (count < full_blocks || count > all_blocks) {
    return FieldError(
        "hash_ids",
        fmt::format("{} ids, but {} tokens in blocks of {} have {} full blocks (wrong block size?)",
                    count, isl_tokens, block_size_tokens, full_blocks));
  }
  return block_ids;
}

absl::StatusOr<TimedRow> ParseRow(simdjson::dom::parser& parser, std::string_view line,
                                  uint32_t block_size_tokens) {
  simdjson::dom::object object;
  // The line is followed by LineReader::kPaddingBytes readable bytes: no copy needed.
  static_assert(LineReader::kPaddingBytes >= simdjson::SIMDJSON_PADDING);
  if (const auto error =
          parser.parse(line.data(), line.size(), /*realloc_if_needed=*/false).get(object);
      error != simdjson::SUCCESS) {
    return absl::InvalidArgumentError(
        fmt::format("not a JSON object: {}", simdjson::error_message(error)));
  }
  TimedRow timed;
  if (const auto error = object["timestamp"].get(timed.timestamp_ms);
      error != simdjson::SUCCESS || timed.timestamp_ms < 0 ||
      timed.timestamp_ms > kMaxTimestampMs) {
    return FieldError("timestamp",
                      fmt::format("must be milliseconds in 0..{:.0f}", kMaxTimestampMs));
  }
  KVR_ASSIGN_OR_RETURN(timed.row.isl_tokens, TokenCount(object, "input_length"));
  KVR_ASSIGN_OR_RETURN(timed.row.osl_tokens, TokenCount(object, "output_length"));
  KVR_ASSIGN_OR_RETURN(timed.row.block_ids,
                       BlockIds(object, timed.row.isl_tokens, block_size_tokens));
  std::string_view session_id;
  const auto error = object["session_id"].get(session_id);
  if (error == simdjson::SUCCESS) {
    timed.row.session_id = session_id;
  } else if (error != simdjson::NO_SUCH_FIELD) {
    return FieldError("session_id", "must be a string");
  }
  return timed;
}

std::string NameOf(std::string_view path) {
  std::string_view name = path.substr(path.find_last_of('/') + 1);
  for (const std::string_view extension : {".gz", ".xz", ".jsonl"}) {
    if (name.ends_with(extension)) name.remove_suffix(extension.size());
  }
  return std::string(name);
}

}  // namespace

absl::StatusOr<Trace> ReadTrace(const std::string& path, uint32_t block_size_tokens) {
  if (block_size_tokens == 0) return absl::InvalidArgumentError("block size must be > 0, got 0");
  KVR_ASSIGN_OR_RETURN(LineReader reader, LineReader::Open(path));
  simdjson::dom::parser parser;
  std::vector<TimedRow> timed_rows;
  while (true) {
    KVR_ASSIGN_OR_RETURN(const std::optional<std::string_view> line, reader.Next());
    if (!line) break;
    if (line->find_first_not_of(" \t") == std::string_view::npos) continue;
    auto row = ParseRow(parser, *line, block_size_tokens);
    if (!row.ok()) {
      return absl::InvalidArgumentError(fmt::format("{}:{}: {}", path, reader.line_number(),
                                                    std::string(row.status().message())));
    }
    if (timed_rows.size() >= kMaxBlockIds) {
      return absl::InvalidArgumentError(
          fmt::format("{}:{}: more than {} rows", path, reader.line_number(), kMaxBlockIds));
    }
    timed_rows.push_back(*std::move(row));
  }
  std::stable_sort(timed_rows.begin(), timed_rows.end(), [](const TimedRow& a, const TimedRow& b) {
    return a.timestamp_ms < b.timestamp_ms;
  });

  Trace trace{.name = NameOf(path), .block_size_tokens = block_size_tokens, .rows = {}};
  trace.rows.reserve(timed_rows.size());
  for (TimedRow& timed : timed_rows) {
    const double since_first_ms = timed.timestamp_ms - timed_rows.front().timestamp_ms;
    timed.row.arrival = MonotonicTime(std::llround(since_first_ms * 1e6));
    trace.rows.push_back(std::move(timed.row));
  }
  return trace;
}

std::vector<TokenId> PromptTokens(const Trace& trace, size_t row_index) {
  KVR_CHECK(row_index < trace.rows.size(), "row={} rows={}", row_index, trace.rows.size());
  const TraceRow& row = trace.rows[row_index];
  std::vector<TokenId> tokens;
  tokens.reserve(row.isl_tokens);
  for (const uint32_t id : row.block_ids) {
    tokens.insert(tokens.end(), trace.block_size_tokens, TokenId{id});
  }
  tokens.resize(row.isl_tokens, kMaxBlockIds + static_cast<TokenId>(row_index));
  return tokens;
}

}  // namespace kvrouter::sim
