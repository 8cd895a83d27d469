#ifndef KVROUTER_SIM_MODEL_CONTINUOUS_BATCHING_H_
#define KVROUTER_SIM_MODEL_CONTINUOUS_BATCHING_H_

#include <cstdint>
#include <deque>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "sim/model/block_pool.h"
#include "sim/model/engine_service.h"

namespace kvrouter::sim {

// The kContinuousBatching service model: steps of batched work over a pool of pinned blocks.
//
// One step: Schedule hands out the token budget and caches the prompt blocks that become full; the
// step then lasts as long as its work; EndStep gives every request that is past its prompt one
// output token.
//
// A request takes the blocks for its prompt and its whole answer when it is admitted (the model
// knows the answer's length), so no running request ever runs out of blocks and nothing is
// preempted. One that needs more than the whole pool takes the whole pool: it runs alone and caches
// what fits.
//
//   waiting ──blocks free──> running ──> finished ──hold_blocks──> held ──ReleaseHeld──> gone
//      └──KV from elsewhere──> loading ──all there──^
class ContinuousBatching final : public EngineService {
 public:
  explicit ContinuousBatching(const EngineConfig& config)
      : config_(config), pool_(config.capacity_blocks) {}

  void Submit(EngineRequest request, MonotonicTime now) override;
  void Abort(uint64_t id, MonotonicTime now) override;
  std::span<const uint32_t> HeldBlocks(uint64_t id) const override;
  void ReleaseHeld(uint64_t id, MonotonicTime now) override;
  MonotonicTime NextEventTime() const override;
  void AdvanceTo(MonotonicTime now, std::vector<EngineEvent>* out) override;
  bool ResetPrefixCache() override { return pool_.Clear(); }
  const EngineTotals& Totals() const override { return totals_; }
  EngineGauges Gauges() const override;
  uint64_t CachedPrefixBlocks(std::span<const EngineHash> block_hashes) const override {
    return pool_.PrefixBlocks(block_hashes);
  }

 private:
  struct Waiting {
    EngineRequest request;
    MonotonicTime arrival{};
  };
  struct Running {
    EngineRequest request;
    uint64_t prompt_tokens = 0;    // to be computed before the first output token; at least 1
    uint64_t computed_tokens = 0;  // of them, found in the cache, loaded or scheduled so far
    uint64_t cached_blocks = 0;    // leading ones of the prompt
    uint64_t output_tokens = 0;
    bool in_step = false;  // has tokens in the step that runs now
    std::vector<BlockPool::BlockIndex> blocks;

    bool InPrefill() const { return computed_tokens < prompt_tokens; }
  };
  struct Loading {
    Running running;
    uint64_t load_blocks = 0;
    MonotonicTime end{};
  };
  struct StepWork {
    uint64_t budget_tokens = 0;  // left
    uint64_t prefill_tokens = 0;
    uint64_t decode_tokens = 0;
  };

  void Schedule(MonotonicTime at, std::vector<EngineEvent>* out);
  // What came of taking the first waiting request.
  enum class Admitted { kNone, kRunning, kLoading };
  Admitted AdmitNext(MonotonicTime at, std::vector<EngineEvent>* out);
  void EndLoad(MonotonicTime at, std::vector<EngineEvent>* out);
  std::vector<Loading>::iterator FirstLoadEnd();
  MonotonicTime NextLoadEnd() const;
  void CacheUpTo(MonotonicTime at, uint64_t computed_blocks, Running& running,
                 std::vector<EngineEvent>* out);
  // Blocks were unpinned outside of a step: what waits may fit now.
  void Unblock(MonotonicTime now);
  void SchedulePrefill(MonotonicTime at, Running& running, StepWork& work,
                       std::vector<EngineEvent>* out);
  void EndStep(MonotonicTime at, std::vector<EngineEvent>* out);
  uint64_t BlocksNeeded(const EngineRequest& request) const;

  const EngineConfig config_;
  BlockPool pool_;
  absl::flat_hash_set<uint64_t> live_ids_;
  std::deque<Waiting> waiting_;   // in order of arrival
  std::vector<Running> running_;  // in order of admission; at most max_running, and the loaded
  std::vector<Loading> loading_;
  absl::flat_hash_map<uint64_t, std::vector<BlockPool::BlockIndex>> held_;  // by request id
  // The first one that waits found too few blocks while nothing ran: it looks again when blocks are
  // unpinned.
  bool waiting_blocked_ = false;
  std::optional<MonotonicTime> step_end_;
  MonotonicTime last_step_end_{};
  EngineTotals totals_;
};

}  // namespace kvrouter::sim

#endif  // KVROUTER_SIM_MODEL_CONTINUOUS_BATCHING_H_
