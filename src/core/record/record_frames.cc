#include "core/record/record_frames.h"

#include <fmt/format.h>
#include <xxhash.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>

#include "base/status_macros.h"
#include "kvrouter/decision_record.h"
#include "kvrouter/error.h"

namespace kvrouter {
namespace {

static_assert(std::endian::native == std::endian::little, "numbers are written as they lie");

constexpr std::string_view kMagic = "kvrdlog\n";
constexpr size_t kHeaderBytes = 24;

struct Frame {
  uint32_t payload_bytes = 0;
  uint32_t checksum = 0;
};

uint64_t HashOf(std::string_view bytes) { return XXH3_64bits(bytes.data(), bytes.size()); }
uint32_t ChecksumOf(std::string_view bytes) { return static_cast<uint32_t>(HashOf(bytes)); }

void Append(const void* from, size_t bytes, std::string* out) {
  out->append(static_cast<const char*>(from), bytes);
}

}  // namespace

void FillRecordFrame(std::string* record) {
  static_assert(sizeof(Frame) == kRecordFrameBytes);
  const std::string_view payload = std::string_view(*record).substr(kRecordFrameBytes);
  const Frame frame{.payload_bytes = static_cast<uint32_t>(payload.size()),
                    .checksum = ChecksumOf(payload)};
  std::memcpy(record->data(), &frame, sizeof(frame));
}

std::string DecisionLogHeader() {
  std::string out(kMagic);
  Append(&kDecisionLogVersion, sizeof(kDecisionLogVersion), &out);
  const uint64_t checksum = HashOf(out);
  Append(&checksum, sizeof(checksum), &out);
  return out;
}

absl::Status DecisionLogReader::Broken(std::string_view what) const {
  return MakeError(absl::StatusCode::kDataLoss, ErrorReason::kInvalidRequest,
                   fmt::format("{}, after {} good records", what, records_));
}

absl::Status DecisionLogReader::ReadHeader() {
  std::string header(kHeaderBytes, '\0');
  const size_t got = read_(header.data(), header.size());
  const std::string expected = DecisionLogHeader();
  const std::string_view seen(header.data(), got);
  if (seen == expected) return absl::OkStatus();
  if (seen == std::string_view(expected).substr(0, got)) {
    cut_off_bytes_ = got;
    return absl::OkStatus();
  }
  if (!seen.starts_with(kMagic)) return Broken("this is no decision log");
  uint64_t version = 0;
  if (got >= kMagic.size() + sizeof(version))
    std::memcpy(&version, header.data() + kMagic.size(), sizeof(version));
  if (got == kHeaderBytes && version != kDecisionLogVersion) {
    return Broken(fmt::format("a decision log of version {}, this program reads {}", version,
                              kDecisionLogVersion));
  }
  return Broken("the header is damaged");
}

absl::StatusOr<std::optional<DecisionRecord>> DecisionLogReader::Next() {
  if (!header_read_) {
    KVR_RETURN_IF_ERROR(ReadHeader());
    header_read_ = true;
    if (cut_off_bytes_ > 0) return std::optional<DecisionRecord>();
  }
  Frame frame;
  const size_t got = read_(reinterpret_cast<char*>(&frame), sizeof(frame));
  if (got < sizeof(frame)) {
    cut_off_bytes_ = got;
    return std::optional<DecisionRecord>();
  }
  if (frame.payload_bytes > kMaxRecordBytes) {
    return Broken(
        fmt::format("a record of {} bytes, more than {}", frame.payload_bytes, kMaxRecordBytes));
  }
  std::string payload(frame.payload_bytes, '\0');
  const size_t got_payload = read_(payload.data(), payload.size());
  if (got_payload < payload.size()) {
    cut_off_bytes_ = sizeof(frame) + got_payload;
    return std::optional<DecisionRecord>();
  }
  if (ChecksumOf(payload) != frame.checksum) return Broken("a record is damaged");
  absl::StatusOr<DecisionRecord> record = DecodeRecordPayload(payload);
  if (!record.ok())
    return Broken(
        std::string_view(record.status().message().data(), record.status().message().size()));
  ++records_;
  return std::optional<DecisionRecord>(*std::move(record));
}

}  // namespace kvrouter
