#include "adapters/http/selection_leg_report.h"

#include <fmt/format.h>

#include <charconv>
#include <cstdint>
#include <limits>
#include <optional>
#include <system_error>

#include "adapters/http/selection_json.h"
#include "kvrouter/error.h"

namespace kvrouter {
namespace {

// Longer than any request lasts.
constexpr uint64_t kMaxAfterMs = 86'400'000;

struct LegReportBody {
  std::string outcome;
  std::string leg;
  std::optional<uint64_t> worker_id;
  std::optional<uint64_t> dp_rank;
  std::optional<uint64_t> after_ms;
};

template <auto field, uint64_t max>
absl::Status Whole(JsonValue value, std::string_view name, LegReportBody* out) {
  uint64_t number = 0;
  KVR_RETURN_IF_ERROR(ReadUnsigned(value, name, max, &number));
  out->*field = number;
  return absl::OkStatus();
}

template <auto field>
absl::Status Text(JsonValue value, std::string_view name, LegReportBody* out) {
  return ReadText(value, name, &(out->*field));
}

constexpr JsonField<LegReportBody> kFields[] = {
    {"outcome", Text<&LegReportBody::outcome>},
    {"leg", Text<&LegReportBody::leg>},
    {"worker_id", Whole<&LegReportBody::worker_id, std::numeric_limits<uint64_t>::max()>},
    {"dp_rank", Whole<&LegReportBody::dp_rank, std::numeric_limits<uint32_t>::max()>},
    {"after_ms", Whole<&LegReportBody::after_ms, kMaxAfterMs>}};

absl::Status Invalid(std::string_view message) {
  return MakeError(absl::StatusCode::kInvalidArgument, ErrorReason::kInvalidRequest, message);
}

absl::StatusOr<std::optional<LegKind>> ParseLegKind(std::string_view text) {
  if (text.empty()) return std::nullopt;
  for (const LegKind kind :
       {LegKind::kServe, LegKind::kPrefill, LegKind::kKvSource, LegKind::kDecode})
    if (LegKindName(kind) == text) return kind;
  return Invalid(fmt::format("leg must be serve, prefill, kv_source or decode, got \"{}\"", text));
}

}  // namespace

absl::StatusOr<LegOutcome> ParseLegOutcome(std::string_view text) {
  if (text == "succeeded") return LegOutcome::kSucceeded;
  if (text == "failed") return LegOutcome::kFailed;
  return Invalid(fmt::format("outcome must be succeeded or failed, got \"{}\"", text));
}

absl::StatusOr<std::chrono::nanoseconds> ParseAfterMs(std::string_view text) {
  uint64_t after_ms = 0;
  const auto parsed = std::from_chars(text.data(), text.data() + text.size(), after_ms);
  if (parsed.ec != std::errc() || parsed.ptr != text.data() + text.size() ||
      after_ms > kMaxAfterMs) {
    return Invalid(
        fmt::format("after_ms must be a whole number in 0..{}, got \"{}\"", kMaxAfterMs, text));
  }
  return std::chrono::milliseconds(after_ms);
}

absl::StatusOr<LegNews> ReadLegReportBody(const std::string& body) {
  LegReportBody read;
  KVR_RETURN_IF_ERROR(ReadJsonBody<LegReportBody>(body, kFields, &read));
  LegNews news;
  KVR_ASSIGN_OR_RETURN(news.outcome, ParseLegOutcome(read.outcome));
  KVR_ASSIGN_OR_RETURN(news.kind, ParseLegKind(read.leg));
  if (read.dp_rank && !read.worker_id) return Invalid("dp_rank needs worker_id");
  if (read.worker_id) {
    news.target = Target{.worker = WorkerId{*read.worker_id},
                         .dp_rank = static_cast<uint32_t>(read.dp_rank.value_or(0))};
  }
  if (read.after_ms) news.after = std::chrono::milliseconds(*read.after_ms);
  return news;
}

}  // namespace kvrouter
