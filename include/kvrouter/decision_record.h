#ifndef KVROUTER_DECISION_RECORD_H_
#define KVROUTER_DECISION_RECORD_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "kvrouter/decision.h"
#include "kvrouter/decision_sink.h"
#include "kvrouter/types.h"

namespace kvrouter {

// Decisions written down so that they can be made again: what the choice was made from, and what
// was chosen. Never a prompt; hashes of its blocks only if asked for.

// One candidate as it is when scored. Inputs whose source does not exist stay at 0
// (taint_multiplier: 1).
struct CandidateInput {
  Target target = {};
  double device_overlap_blocks = 0;
  double host_overlap_blocks = 0;
  double disk_overlap_blocks = 0;    // disk and external
  double shared_overlap_blocks = 0;  // hits in a shared cache at or beyond the device prefix
  uint64_t active_prefill_tokens = 0;
  double active_decode_blocks = 0;
  uint64_t additional_decode_blocks = 0;
  uint64_t active_requests = 0;
  double taint_multiplier = 1.0;

  friend bool operator==(const CandidateInput&, const CandidateInput&) = default;
};

// What a request replaced in the configuration for itself: another configuration would not have
// changed it.
struct OverriddenSettings {
  bool overlap_score_credit = false;
  bool prefill_load_scale = false;
  bool router_temperature = false;
  bool assume_kv_reuse = false;
  bool track_prefill_tokens = false;
  bool shared_cache_multiplier = false;

  friend bool operator==(const OverriddenSettings&, const OverriddenSettings&) = default;
};

struct DecisionRecord {
  uint64_t unix_ms = 0;  // when it was written down
  uint64_t config_generation = 0;
  std::string request_id = {};
  std::string model_name = {};
  std::string routing_group = {};
  bool booked = false;  // false: advice
  uint64_t isl_tokens = 0;
  uint32_t block_size_tokens = 1;  // > 0

  // What it was scored with, the request's own settings included.
  DecisionWeights weights = {};
  double temperature = 0;
  OverriddenSettings overridden = {};

  // Ascending target. Empty if there were more than the log takes: then it cannot be made again.
  std::vector<CandidateInput> candidates = {};
  uint32_t candidate_count = 0;

  DecisionReason reason = DecisionReason::kLowestCost;
  Target target = {};
  uint32_t tie_size = 1;
  double draw = 0;

  // Of the prompt's full blocks; empty: not recorded.
  std::vector<SequenceHash> sequence_hashes = {};

  bool CanBeReplayed() const { return !candidates.empty(); }
};

struct RecordBounds {
  size_t max_candidates = 1024;
  bool with_hashes = false;
};
DecisionRecord RecordOf(const DecisionFacts& facts, const RecordBounds& bounds, uint64_t unix_ms);

// ---- As bytes ----
//
// A log is a header and records. Little endian; numbers in the payload are LEB128.
//
//   header   "kvrdlog\n"   u64 version   u64 XXH3 of these 16 bytes
//   record   u32 payload bytes   u32 low half of the payload's XXH3   payload
//
// Whoever dies while writing leaves half a record at the end: the reader stops before it and says
// so. Anything else that does not fit its checksum is an error.

inline constexpr uint64_t kDecisionLogVersion = 1;
inline constexpr size_t kMaxRecordBytes = size_t{16} << 20;

std::string DecisionLogHeader();
// With length and checksum. Empty if it would pass kMaxRecordBytes.
std::string EncodeRecord(const DecisionRecord& record);
// Of what EncodeRecord put behind length and checksum. Errors: what is wrong, in one line.
absl::StatusOr<DecisionRecord> DecodeRecordPayload(std::string_view payload);

// Reads one log from beginning to end. Memory: one record. Thread-compatible.
class DecisionLogReader {
 public:
  // Fills up to `bytes` bytes, fewer only at the end; returns how many.
  using Read = std::function<size_t(char* out, size_t bytes)>;
  explicit DecisionLogReader(Read read) : read_(std::move(read)) {}

  // Nothing at the end. After an error or the end: do not call again.
  absl::StatusOr<std::optional<DecisionRecord>> Next();
  // Once it ended: bytes of a record that breaks off there. A file may also end within its header.
  size_t CutOffBytes() const { return cut_off_bytes_; }
  uint64_t RecordsRead() const { return records_; }

 private:
  absl::Status ReadHeader();
  absl::Status Broken(std::string_view what) const;

  const Read read_;
  bool header_read_ = false;
  uint64_t records_ = 0;
  size_t cut_off_bytes_ = 0;
};

// ---- Made again ----

// Settings of the choice, by the names of the daemon's settings; what is absent stays as it is.
struct PolicyChange {
  std::optional<double> overlap_score_credit = {};
  std::optional<double> overlap_score_credit_decay = {};
  std::optional<double> prefill_load_scale = {};
  std::optional<double> decode_active_request_weight = {};
  std::optional<double> host_cache_hit_weight = {};
  std::optional<double> disk_cache_hit_weight = {};
  std::optional<double> shared_cache_multiplier = {};
  std::optional<double> router_temperature = {};
};

// Of "router_temperature=0.5" and the like. INVALID_ARGUMENT for an unknown key, one that does not
// act on the choice alone, a key given twice, or a value out of its range.
absl::StatusOr<PolicyChange> ParsePolicyChange(std::span<const std::string> assignments);
// The same from one text, separated by commas; empty: no change.
absl::StatusOr<PolicyChange> ParsePolicyChange(std::string_view assignments);
// The keys it knows, separated by ", ".
std::string PolicyKeys();
// `config` as a policy with the change applied.
ShadowPolicy ApplyPolicyChange(const PolicyChange& change, const CostWeights& weights,
                               double router_temperature);

struct Redecision {
  size_t index = 0;  // of the chosen candidate in the record
  size_t recorded_index = 0;
  bool moves = false;
  // Of the two choices, by the changed policy.
  double cost_blocks = 0;
  double recorded_cost_blocks = 0;
  // Of the two choices, tiers weighted as recorded.
  double overlap_blocks = 0;
  double recorded_overlap_blocks = 0;
};

// Chooses again by the scorer and the pick that the router uses. The number that was drawn is used
// again; a choice that draws and did not before uses one made from `seed`. Error: a record that
// cannot be replayed, or whose target is not among its candidates.
absl::StatusOr<Redecision> Redecide(const DecisionRecord& record, const PolicyChange& change,
                                    uint64_t seed);

}  // namespace kvrouter

#endif  // KVROUTER_DECISION_RECORD_H_
