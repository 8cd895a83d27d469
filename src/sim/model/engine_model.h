#ifndef KVROUTER_SIM_MODEL_ENGINE_MODEL_H_
#define KVROUTER_SIM_MODEL_ENGINE_MODEL_H_

#include <chrono>
#include <cstdint>
#include <memory>
#include <span>
#include <variant>
#include <vector>

#include "kvrouter/types.h"

namespace kvrouter::sim {

// A model of one vLLM engine rank: block pool, prefix cache, request queue, batching. Time is
// handed in, so the same model runs a whole trace in virtual time (src/sim/virtual) and behind real
// sockets (src/sim/wire).
//
// Two service models:
// - kFifoPrefill, the model behind the published policy tables: one FIFO prefill server at a fixed
//   token rate, then decode at a fixed pace without limit; hits are counted when prefill starts,
//   blocks are cached (and stored events emitted) when it ends; active blocks are not pinned;
//   generated blocks are not cached.
// - kContinuousBatching: steps with a token budget shared by decodes (one token each, first) and
//   chunked prefill; blocks are pinned while a request runs, a request waits when the pool has no
//   free block. As in vLLM a prompt block is cached (and announced) when the step that computes it
//   starts, and a block computed twice at a time is cached twice: two stored events, later two
//   removals. Generated blocks take space but are not cached. A prompt's KV may come from another
//   engine instead of being computed, and a finished request may leave its blocks pinned for one.
//
// Deterministic: the same calls give the same events. Thread-compatible.

struct EngineConfig {
  enum class Service : uint8_t { kFifoPrefill, kContinuousBatching };
  Service service = Service::kFifoPrefill;
  uint32_t block_size_tokens = 16;     // > 0
  uint64_t capacity_blocks = 20'000;   // prefix-cache blocks; 0 = unlimited
  double prefill_tokens_per_s = 8000;  // > 0
  std::chrono::microseconds inter_token{20'000};
  // kContinuousBatching only. A step lasts its prefill tokens at the rate above, plus inter_token
  // if any request decodes.
  uint32_t token_budget_per_step = 8192;  // > 0
  uint32_t max_running = 256;             // > 0
  // For each block that comes from another engine.
  std::chrono::microseconds transfer_per_block{100};
};

struct EngineRequest {
  uint64_t id = 0;  // caller's, unique among live requests
  uint64_t isl_tokens = 0;
  uint64_t osl_tokens = 1;
  // Engine hashes of the prompt's full blocks, in order: floor(isl_tokens / block size) of them, no
  // hash twice. They are prefix-chained: an equal hash means an equal prompt up to there.
  std::vector<EngineHash> block_hashes;

  // kContinuousBatching only.
  // KV of this many leading prompt tokens is to be had from another engine. What of it is not
  // cached here arrives block by block once the request has its blocks; meanwhile it takes no part
  // in steps. The last prompt token is computed here in any case.
  uint64_t external_tokens = 0;
  // The blocks stay pinned when the request has finished, until ReleaseHeld.
  bool hold_blocks = false;
};

// What happened, in order.
struct PrefillStarted {
  uint64_t id = 0;
  // Found in the prefix cache. kFifoPrefill counts a prompt that is cached whole as such;
  // kContinuousBatching, as vLLM, leaves at least one token to compute: at most floor((isl - 1) /
  // block) blocks.
  uint64_t hit_blocks = 0;
  uint64_t external_tokens = 0;  // that will come from another engine
};
// All of it has come; only if external_tokens were asked for.
struct ExternalLoaded {
  uint64_t id = 0;
  uint64_t blocks = 0;
};
// Blocks [first_block, first_block + count) of the request's prompt were newly cached. kFifoPrefill
// announces a prompt longer than the whole cache first and then its evicted tail.
struct BlocksStored {
  uint64_t id = 0;
  uint64_t first_block = 0;
  uint64_t count = 0;
};
struct BlocksRemoved {
  std::vector<EngineHash> hashes;  // evicted, tail of a chain first
};
struct FirstToken {
  uint64_t id = 0;
};
// Output grew to `output_tokens`. kFifoPrefill emits only the last one.
struct TokensGenerated {
  uint64_t id = 0;
  uint64_t output_tokens = 0;
};
// Not emitted for aborted requests.
struct RequestFinished {
  uint64_t id = 0;
};

struct EngineEvent {
  MonotonicTime at{};
  std::variant<PrefillStarted, ExternalLoaded, BlocksStored, BlocksRemoved, FirstToken,
               TokensGenerated, RequestFinished>
      what;
};

// Monotone sums, as vLLM's own counters count them.
struct EngineTotals {
  uint64_t prefix_cache_query_tokens = 0;  // prompt tokens looked up
  uint64_t prefix_cache_hit_tokens = 0;    // at most floor((isl - 1) / block) blocks a request
  uint64_t computed_prefill_tokens = 0;    // at least one a request
  uint64_t external_query_tokens = 0;      // not cached here, asked of another engine
  uint64_t external_tokens = 0;            // of them, come
  uint64_t requests_finished = 0;
  uint64_t requests_aborted = 0;
};

struct EngineGauges {
  uint64_t running = 0;
  uint64_t waiting = 0;  // those that wait for KV from another engine, too
  uint64_t cached_blocks = 0;
  // kFifoPrefill: distinct prompt blocks of all live requests, waiting ones too.
  // kContinuousBatching: pinned blocks, those held after the end too.
  uint64_t active_blocks = 0;
  uint64_t held_requests = 0;
};

class EngineService;

class EngineModel {
 public:
  explicit EngineModel(EngineConfig config);
  ~EngineModel();
  EngineModel(EngineModel&&) noexcept;
  EngineModel& operator=(EngineModel&&) noexcept;

  // `now` of all calls must not go back. Nothing happens in here: AdvanceTo(now) starts what can
  // start at once.
  void Submit(EngineRequest request, MonotonicTime now);
  // Ends a request early; its cached blocks stay. Unknown ids are ignored. REQUIRES: AdvanceTo(now)
  // was called.
  void Abort(uint64_t id, MonotonicTime now);

  // The blocks of a finished request that asked to hold them, in order of the prompt; empty for any
  // other. Valid until the next call.
  std::span<const uint32_t> HeldBlocks(uint64_t id) const;
  // Unpins them; cached ones stay cached. Unknown ids are ignored. REQUIRES: AdvanceTo(now) was
  // called.
  void ReleaseHeld(uint64_t id, MonotonicTime now);

  // When AdvanceTo has something to do next; MonotonicTime::max() when idle.
  MonotonicTime NextEventTime() const;
  // Runs up to and including `now`; events in time order are appended.
  void AdvanceTo(MonotonicTime now, std::vector<EngineEvent>* out);

  // Drops the whole prefix cache, as vLLM's reset: the caller publishes AllBlocksCleared. False
  // (and nothing happens) while any block is pinned; kFifoPrefill pins none.
  bool ResetPrefixCache();

  const EngineTotals& Totals() const;
  EngineGauges Gauges() const;
  // Leading blocks of a prompt that are cached now.
  uint64_t CachedPrefixBlocks(std::span<const EngineHash> block_hashes) const;

 private:
  std::unique_ptr<EngineService> service_;
};

}  // namespace kvrouter::sim

#endif  // KVROUTER_SIM_MODEL_ENGINE_MODEL_H_
