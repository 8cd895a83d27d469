#ifndef KVROUTER_SIM_VIRTUAL_KV_MOVES_H_
#define KVROUTER_SIM_VIRTUAL_KV_MOVES_H_

#include <chrono>
#include <cstdint>
#include <deque>
#include <map>
#include <optional>

#include "absl/container/flat_hash_map.h"
#include "sim/trace/trace.h"
#include "sim/virtual/fleet.h"
#include "sim/virtual/placement.h"
#include "sim/virtual/policy_figures.h"

namespace kvrouter::sim {

// Carries migrations out over a fleet of kContinuousBatching engines, as kvrouterd's door does over
// real ones:
//
//   source: the whole prompt, one output token ──finished──> its blocks are held (pinned)
//      │ not finished in time                                   │
//      v                                                        v
//   target: computes the prompt itself         target: blocks come one by one, last token computed
//                                                              │ all have come, or the lease ended
//                                                              v
//                                              source: unpinned
//
// Requests and source steps are both named by rows of the trace; ids of source steps have a bit
// that says so.
//
// Thread-compatible.
class KvMoves {
 public:
  enum class State : uint8_t { kComputing, kHeld, kPulled, kReleased };
  // What a source still has to be told. The owner first runs that engine up to now, and delivers
  // what happened, which may settle the matter: then the move's state is another one.
  struct Ending {
    uint32_t worker = 0;
    size_t row_index = 0;
    State state = State::kPulled;
  };

  // Both must outlive this.
  KvMoves(const Trace& trace, Fleet& fleet) : trace_(trace), fleet_(fleet) {}

  static bool IsSourceStep(uint64_t id) { return (id & kSourceStepBit) != 0; }
  static size_t RowOf(uint64_t id) { return id & ~kSourceStepBit; }

  // REQUIRES: pull.source != target; no move of the row was begun.
  void Begin(size_t row_index, const Pull& pull, uint32_t target, MonotonicTime now);

  // All events of all engines, in time order.
  void See(const EngineEvent& event);
  // What the source of a prompt that comes from there found cached; nothing for any other prompt.
  std::optional<uint64_t> SourceHitBlocks(size_t row_index) const;

  // When Expire has something to do next; MonotonicTime::max() if never.
  MonotonicTime NextExpiry() const;
  void Expire(MonotonicTime now);

  std::optional<Ending> TakeEnding();
  // REQUIRES: the fleet's engine ending.worker was advanced to `now`.
  void End(const Ending& ending, MonotonicTime now);

  const MoveSums& sums() const { return sums_; }

 private:
  static constexpr uint64_t kSourceStepBit = uint64_t{1} << 63;
  using Timers = std::multimap<MonotonicTime, size_t>;  // -> row

  struct Move {
    uint32_t source = 0;
    uint32_t target = 0;
    State state = State::kComputing;
    MonotonicTime began{};
    MonotonicTime computing{};  // of the source's step alone, without what it waited for
    uint64_t hit_blocks = 0;    // on the source
    Timers::iterator timer;     // time-out of the step, then end of the lease; end() once fired
  };

  void StepStarted(const PrefillStarted& started);
  void StepFinished(size_t row_index, MonotonicTime now);
  void Serve(size_t row_index, uint32_t target, uint64_t external_tokens, MonotonicTime now);
  void Pulled(size_t row_index, Move& move);
  void StopTimer(Move& move);
  EngineRequest RequestOn(uint32_t worker, size_t row_index) const;

  const Trace& trace_;
  Fleet& fleet_;
  absl::flat_hash_map<size_t, Move> moves_;  // by row, until the source is unpinned and all came
  Timers timers_;
  std::deque<Ending> endings_;
  MoveSums sums_;
};

}  // namespace kvrouter::sim

#endif  // KVROUTER_SIM_VIRTUAL_KV_MOVES_H_
