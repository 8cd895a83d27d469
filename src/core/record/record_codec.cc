#include <fmt/format.h>

#include <array>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <utility>

#include "base/byte_codec.h"
#include "core/record/record_frames.h"
#include "kvrouter/decision_record.h"
#include "kvrouter/error.h"
#include "kvrouter/limits.h"

namespace kvrouter {
namespace {

// ---- Numbers that are mostly whole ----

constexpr double kFirstNotWhole = 0x1p53;

// Whole ones as twice their value, others as 1 and their bits: equal to the bit when read.
void WriteReal(double value, ByteWriter* out) {
  const bool whole =
      value >= 0 && value < kFirstNotWhole && !std::signbit(value) && value == std::floor(value);
  if (whole) {
    out->Number(static_cast<uint64_t>(value) * 2);
  } else {
    out->Number(1);
    out->Word(std::bit_cast<uint64_t>(value));
  }
}

// Finite and not below 0, else the read fails: nothing that is recorded is otherwise.
double ReadReal(ByteReader* in) {
  const uint64_t number = in->Number();
  if ((number & 1) == 0) return static_cast<double>(number / 2);
  const double value = std::bit_cast<double>(in->Word());
  if (number == 1 && std::isfinite(value) && value >= 0) return value;
  in->Fail();
  return 0;
}

// ---- Weights: only those that differ from the defaults of the product ----

constexpr std::array kWeights = {
    &CostWeights::overlap_score_credit,   &CostWeights::overlap_score_credit_decay,
    &CostWeights::prefill_load_scale,     &CostWeights::decode_active_request_weight,
    &CostWeights::host_cache_hit_weight,  &CostWeights::disk_cache_hit_weight,
    &CostWeights::shared_cache_multiplier};

void WriteWeights(const CostWeights& weights, ByteWriter* out) {
  const CostWeights defaults;
  unsigned differing = 0;
  for (size_t i = 0; i < kWeights.size(); ++i) {
    if (weights.*kWeights[i] != defaults.*kWeights[i]) differing |= 1u << i;
  }
  out->Byte(static_cast<uint8_t>(differing));
  for (size_t i = 0; i < kWeights.size(); ++i) {
    if ((differing & 1u << i) != 0) WriteReal(weights.*kWeights[i], out);
  }
}

CostWeights ReadWeights(ByteReader* in) {
  CostWeights weights;
  const unsigned differing = in->Byte();
  if (differing >= 1u << kWeights.size()) in->Fail();
  for (size_t i = 0; i < kWeights.size(); ++i) {
    if ((differing & 1u << i) != 0) weights.*kWeights[i] = ReadReal(in);
  }
  return weights;
}

// ---- Switches in one number ----

constexpr std::array kOverridden = {
    &OverriddenSettings::overlap_score_credit, &OverriddenSettings::prefill_load_scale,
    &OverriddenSettings::router_temperature,   &OverriddenSettings::assume_kv_reuse,
    &OverriddenSettings::track_prefill_tokens, &OverriddenSettings::shared_cache_multiplier};
enum Switch : unsigned {
  kBooked = 1u << 0,
  kTrackPrefill = 1u << 1,
  kAssumeReuse = 1u << 2,
  kDecodePool = 1u << 3,
  kHasDraw = 1u << 4,
  kFirstOverridden = 1u << 5,
};
constexpr uint64_t kSwitchesEnd = uint64_t{kFirstOverridden} << kOverridden.size();

uint64_t SwitchesOf(const DecisionRecord& record) {
  uint64_t out =
      (record.booked ? kBooked : 0u) | (record.weights.track_prefill_tokens ? kTrackPrefill : 0u) |
      (record.weights.assume_kv_reuse ? kAssumeReuse : 0u) |
      (record.weights.decode_pool ? kDecodePool : 0u) | (record.draw != 0 ? kHasDraw : 0u);
  for (size_t i = 0; i < kOverridden.size(); ++i) {
    if (record.overridden.*kOverridden[i]) out |= uint64_t{kFirstOverridden} << i;
  }
  return out;
}

void TakeSwitches(uint64_t switches, DecisionRecord* record) {
  record->booked = (switches & kBooked) != 0;
  record->weights.track_prefill_tokens = (switches & kTrackPrefill) != 0;
  record->weights.assume_kv_reuse = (switches & kAssumeReuse) != 0;
  record->weights.decode_pool = (switches & kDecodePool) != 0;
  for (size_t i = 0; i < kOverridden.size(); ++i) {
    record->overridden.*kOverridden[i] = (switches & uint64_t{kFirstOverridden} << i) != 0;
  }
}

// ---- Candidates: the worker as the distance from the one before, and only inputs that are not 0

enum Field : unsigned {
  kDevice = 1u << 0,
  kHost = 1u << 1,
  kDisk = 1u << 2,
  kShared = 1u << 3,
  kPrefillTokens = 1u << 4,
  kDecodeBlocks = 1u << 5,
  kRequests = 1u << 6,
  kTaint = 1u << 7,
};
constexpr size_t kLeastCandidateBytes = 4;

void WriteCandidate(const CandidateInput& c, uint64_t* last_worker, ByteWriter* out) {
  const auto worker = static_cast<uint64_t>(c.target.worker);
  const unsigned fields =
      (c.device_overlap_blocks != 0 ? kDevice : 0u) | (c.host_overlap_blocks != 0 ? kHost : 0u) |
      (c.disk_overlap_blocks != 0 ? kDisk : 0u) | (c.shared_overlap_blocks != 0 ? kShared : 0u) |
      (c.active_prefill_tokens != 0 ? kPrefillTokens : 0u) |
      (c.active_decode_blocks != 0 ? kDecodeBlocks : 0u) |
      (c.active_requests != 0 ? kRequests : 0u) | (c.taint_multiplier != 1 ? kTaint : 0u);
  out->Number(worker - *last_worker);
  *last_worker = worker;
  out->Number(c.target.dp_rank);
  out->Byte(static_cast<uint8_t>(fields));
  out->Number(c.additional_decode_blocks);
  if ((fields & kDevice) != 0) WriteReal(c.device_overlap_blocks, out);
  if ((fields & kHost) != 0) WriteReal(c.host_overlap_blocks, out);
  if ((fields & kDisk) != 0) WriteReal(c.disk_overlap_blocks, out);
  if ((fields & kShared) != 0) WriteReal(c.shared_overlap_blocks, out);
  if ((fields & kPrefillTokens) != 0) out->Number(c.active_prefill_tokens);
  if ((fields & kDecodeBlocks) != 0) WriteReal(c.active_decode_blocks, out);
  if ((fields & kRequests) != 0) out->Number(c.active_requests);
  if ((fields & kTaint) != 0) WriteReal(c.taint_multiplier, out);
}

CandidateInput ReadCandidate(uint64_t* last_worker, ByteReader* in) {
  CandidateInput c;
  *last_worker += in->Number();
  c.target.worker = WorkerId{*last_worker};
  c.target.dp_rank = static_cast<uint32_t>(in->NumberUpTo(std::numeric_limits<uint32_t>::max()));
  const unsigned fields = in->Byte();
  c.additional_decode_blocks = in->Number();
  if ((fields & kDevice) != 0) c.device_overlap_blocks = ReadReal(in);
  if ((fields & kHost) != 0) c.host_overlap_blocks = ReadReal(in);
  if ((fields & kDisk) != 0) c.disk_overlap_blocks = ReadReal(in);
  if ((fields & kShared) != 0) c.shared_overlap_blocks = ReadReal(in);
  if ((fields & kPrefillTokens) != 0) c.active_prefill_tokens = in->Number();
  if ((fields & kDecodeBlocks) != 0) c.active_decode_blocks = ReadReal(in);
  if ((fields & kRequests) != 0) c.active_requests = in->Number();
  if ((fields & kTaint) != 0) c.taint_multiplier = ReadReal(in);
  return c;
}

// Of usual decisions, so that the bytes are not moved while they grow.
size_t ExpectedBytes(const DecisionRecord& record) {
  constexpr size_t kBesidesBytes = 64;
  constexpr size_t kCandidateBytes = 16;
  return kBesidesBytes + record.request_id.size() + record.model_name.size() +
         record.routing_group.size() + kCandidateBytes * record.candidates.size() +
         sizeof(uint64_t) * record.sequence_hashes.size();
}

// With a frame that is still to be filled.
std::string Encoded(const DecisionRecord& record) {
  ByteWriter out;
  out.Reserve(ExpectedBytes(record));
  static_assert(kRecordFrameBytes == sizeof(uint64_t));
  out.Word(0);
  out.Number(record.unix_ms);
  out.Number(record.config_generation);
  out.Text(record.request_id);
  out.Text(record.model_name);
  out.Text(record.routing_group);
  out.Number(SwitchesOf(record));
  out.Number(record.isl_tokens);
  out.Number(record.block_size_tokens);
  WriteWeights(record.weights.cost, &out);
  out.Number(record.weights.least_active_prefill_tokens);
  WriteReal(record.temperature, &out);
  out.Byte(static_cast<uint8_t>(record.reason));
  out.Number(static_cast<uint64_t>(record.target.worker));
  out.Number(record.target.dp_rank);
  out.Number(record.tie_size);
  if (record.draw != 0) WriteReal(record.draw, &out);
  out.Number(record.candidate_count);
  out.Number(record.candidates.size());
  uint64_t last_worker = 0;
  for (const CandidateInput& candidate : record.candidates)
    WriteCandidate(candidate, &last_worker, &out);
  out.Number(record.sequence_hashes.size());
  for (const SequenceHash hash : record.sequence_hashes) out.Word(static_cast<uint64_t>(hash));
  return std::move(out).Take();
}

}  // namespace

std::string EncodeRecord(const DecisionRecord& record) {
  std::string out = Encoded(record);
  if (out.size() > kMaxRecordBytes + kRecordFrameBytes) return {};
  FillRecordFrame(&out);
  return out;
}

absl::StatusOr<DecisionRecord> DecodeRecordPayload(std::string_view payload) {
  constexpr uint64_t kMaxU32 = std::numeric_limits<uint32_t>::max();
  ByteReader in(payload);
  DecisionRecord record;
  record.unix_ms = in.Number();
  record.config_generation = in.Number();
  record.request_id = in.Text();
  record.model_name = in.Text();
  record.routing_group = in.Text();
  const uint64_t switches = in.NumberUpTo(kSwitchesEnd - 1);
  TakeSwitches(switches, &record);
  record.isl_tokens = in.Number();
  record.block_size_tokens = static_cast<uint32_t>(in.NumberUpTo(kMaxBlockSizeTokens));
  if (record.block_size_tokens == 0) in.Fail();
  record.weights.cost = ReadWeights(&in);
  record.weights.least_active_prefill_tokens = in.Number();
  record.temperature = ReadReal(&in);
  const uint8_t reason = in.Byte();
  if (reason >= kDecisionReasonCount) in.Fail();
  record.reason = static_cast<DecisionReason>(reason);
  record.target.worker = WorkerId{in.Number()};
  record.target.dp_rank = static_cast<uint32_t>(in.NumberUpTo(kMaxU32));
  record.tie_size = static_cast<uint32_t>(in.NumberUpTo(kMaxU32));
  if ((switches & kHasDraw) != 0) record.draw = ReadReal(&in);
  if (record.draw >= 1) in.Fail();
  record.candidate_count = static_cast<uint32_t>(in.NumberUpTo(kMaxU32));
  const size_t candidates = in.Count(kLeastCandidateBytes);
  uint64_t last_worker = 0;
  for (size_t i = 0; i < candidates && in.ok(); ++i)
    record.candidates.push_back(ReadCandidate(&last_worker, &in));
  const size_t hashes = in.Count(sizeof(uint64_t));
  for (size_t i = 0; i < hashes && in.ok(); ++i)
    record.sequence_hashes.push_back(SequenceHash{in.Word()});
  if (!in.AtEnd()) {
    return MakeError(absl::StatusCode::kDataLoss, ErrorReason::kInvalidRequest,
                     fmt::format("{} bytes that are no decision", payload.size()));
  }
  return record;
}

}  // namespace kvrouter
