#ifndef KVROUTER_ADAPTERS_DISCOVERY_WORKER_SIGN_RULE_H_
#define KVROUTER_ADAPTERS_DISCOVERY_WORKER_SIGN_RULE_H_

#include <chrono>
#include <cstdint>
#include <optional>

#include "adapters/discovery/engine_facts.h"
#include "kvrouter/types.h"
#include "kvrouter/worker.h"
#include "service/worker_signs.h"

namespace kvrouter {

// Weighs what is declared of one worker against what its engine says and what its feeds have
// brought.
//
// Silence alone is no sign: an engine may be idle for hours, or find every prompt in its cache. A
// publisher counts as silent when no event message has come for kGrace although its engine computed
// new blocks after the last one: at least kNewBlocks. Of each request it may compute one block's
// tokens and have nothing to tell, since neither a last, partial block is announced nor a block
// that is found in the cache but computed again for its last token.
//
// Pure; thread-compatible; one per record of a worker.
class WorkerSignRule {
 public:
  static constexpr std::chrono::seconds kGrace{10};
  static constexpr uint32_t kNewBlocks = 8;

  // All signs but those of the declaration alone. `event_messages` so far, over all ranks. The
  // model name "default" stands for any.
  WorkerSigns Weigh(const WorkerSpec& spec, const EngineFacts& facts, uint64_t event_messages,
                    MonotonicTime now);

 private:
  struct Work {
    double queried_tokens = 0;
    double hit_tokens = 0;
    double finished_requests = 0;
  };
  bool IsSilent(const EngineFacts& facts, uint32_t block_size_tokens, uint64_t event_messages,
                MonotonicTime now);

  uint64_t messages_ = 0;
  std::optional<Work> before_;  // done by the first look after the last message
  Work latest_;
  std::optional<MonotonicTime> owes_since_;
};

}  // namespace kvrouter

#endif  // KVROUTER_ADAPTERS_DISCOVERY_WORKER_SIGN_RULE_H_
