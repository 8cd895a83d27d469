#include "core/decision_scratch.h"

#include <algorithm>
#include <cstddef>

namespace kvrouter {
namespace {

// A very long prompt must not stay in the memory of every thread that ever saw one.
constexpr size_t kMaxKeptBlocks = 65'536;

}  // namespace

DecisionScratch* ScratchLease::OfThisThread() {
  static thread_local DecisionScratch scratch;
  return &scratch;
}

ScratchLease::~ScratchLease() {
  PromptBuffers& prompt = scratch_->prompt;  // either alone may be filled
  if (std::max(prompt.local_hashes.capacity(), prompt.sequence_hashes.capacity()) > kMaxKeptBlocks)
    prompt = {};
}

}  // namespace kvrouter
