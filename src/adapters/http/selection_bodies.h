#ifndef KVROUTER_ADAPTERS_HTTP_SELECTION_BODIES_H_
#define KVROUTER_ADAPTERS_HTTP_SELECTION_BODIES_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "kvrouter/decision.h"
#include "service/selection_workers.h"

namespace kvrouter {

// Bodies of the selection API, read strictly: a field of another type, a number outside its range
// or a field sent twice is an error; unknown fields are checked as JSON and ignored, as upstream
// does. Token and hash arrays are read straight into their vectors.
//
// Errors: INVALID_ARGUMENT for text that is no JSON and for values that make no sense;
// OUT_OF_RANGE for JSON of another shape than the route takes (the doors' 400 and 422); kTooLarge
// for more than kMaxItemBlocks entries of block_mm_infos.
// Pure functions, safe from any thread.

enum class BodyKind : uint8_t { kSelect, kReserve, kPrompt };

// A body of /select, /select_and_reserve, /reservations, /potential_loads or /overlap_scores.
struct SelectionBody {
  std::string selection_id;
  std::string model_name = "default";
  std::string routing_group = "default";

  std::optional<std::vector<TokenId>> token_ids;
  // Items by block, empty ones at the end left out.
  std::vector<std::vector<MultimodalHash>> block_mm_infos;
  // mm_routing_info: with token ids it is the prompt, whatever token_ids says (as upstream).
  struct MultimodalRouting {
    std::optional<std::vector<TokenId>> token_ids;
    std::vector<std::vector<MultimodalHash>> block_mm_infos;
  };
  std::optional<MultimodalRouting> mm_routing;
  std::optional<std::vector<LocalBlockHash>> block_hashes;
  std::optional<std::vector<SequenceHash>> sequence_hashes;
  std::optional<uint64_t> isl_tokens;
  std::string lora_name;
  std::string cache_salt;
  std::optional<bool> is_eagle;

  ConfigOverride overrides;
  std::optional<uint64_t> expected_output_tokens;
  std::optional<TargetSelector> pinned;
  std::optional<std::vector<WorkerId>> allowed_workers;
  RoutingConstraints constraints;
  double priority_jump = 0;
  uint32_t strict_priority = 0;
  bool advisory = false;  // of /select: decided at once, whoever waits
  std::string session_id;
  std::string context_session_id;  // session_context.session_id; counts if session_id is blank

  // Ours: the legs of a request (docs/routing.md#legs).
  std::optional<RequestPhase> phase;
  std::optional<bool> fixed_plan;
  std::optional<TargetSelector> pinned_prefill;
  std::optional<TargetSelector> prefilled_by;
  std::optional<bool> has_prefill_result;
  std::optional<bool> prefill_here;

  // Of reservations.
  std::optional<uint64_t> worker_id;
  std::optional<uint32_t> dp_rank;
  std::optional<uint64_t> effective_prefill_tokens;
  std::optional<bool> track_prefill_tokens;

  bool HasPrompt() const {
    return token_ids || mm_routing || block_hashes || sequence_hashes || isl_tokens;
  }
};

// `body` with at least 64 bytes of capacity behind its text is read in place, else copied.
absl::StatusOr<SelectionBody> ReadSelectionBody(const std::string& body, BodyKind kind);

// The request as the core takes it; borrows the arrays of `body`.
absl::StatusOr<RouteRequest> ToRouteRequest(const SelectionBody& body);

// Bodies of /workers. Over kMaxWorkerBodyBytes they are refused before they are read.
inline constexpr size_t kMaxWorkerBodyBytes = 1 << 20;
absl::StatusOr<SelectionWorker> ReadWorkerBody(const std::string& body);
absl::StatusOr<SelectionWorkerPatch> ReadWorkerPatch(const std::string& body,
                                                     const WorkerSpec& current);

// {"decay_fraction":0.5}; an empty body is none.
absl::StatusOr<std::optional<double>> ReadOutputBlockBody(const std::string& body);

}  // namespace kvrouter

#endif  // KVROUTER_ADAPTERS_HTTP_SELECTION_BODIES_H_
