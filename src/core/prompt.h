#ifndef KVROUTER_CORE_PROMPT_H_
#define KVROUTER_CORE_PROMPT_H_

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "core/phase_timer.h"
#include "kvrouter/block_hash.h"
#include "kvrouter/decision.h"
#include "kvrouter/types.h"

namespace kvrouter {

// A prompt as blocks. Borrows from the request or from the buffers it was identified with.
struct IdentifiedPrompt {
  std::span<const LocalBlockHash> local_hashes;
  std::span<const SequenceHash> sequence_hashes;  // same length
  uint64_t isl_tokens = 0;
  uint32_t block_size_tokens = 1;
  bool is_eagle = false;
  std::optional<TokenId> image_token_id = {};
};

// Reused by a thread from request to request.
struct PromptBuffers {
  std::vector<LocalBlockHash> local_hashes;
  std::vector<SequenceHash> sequence_hashes;
};

// The request's blocks: hashed from its tokens, or as the caller hashed them. Tells `timer` of the
// hashing it did. Errors: kInvalidRequest when the caller's hashes do not fit together or not to
// isl_tokens, when it names items behind the prompt's end, or takes the partition for another kind
// (is_eagle). REQUIRES: naming.block_size_tokens > 0.
absl::StatusOr<IdentifiedPrompt> IdentifyPrompt(const RouteRequest& request,
                                                const BlockNaming& naming, PromptBuffers* buffers,
                                                PhaseTimer* timer);

// What can be checked of a request without knowing its partition: overrides, expected output, the
// length of the session's id.
absl::Status ValidateRequest(const RouteRequest& request);

}  // namespace kvrouter

#endif  // KVROUTER_CORE_PROMPT_H_
