#include "sim/virtual/kv_moves.h"

#include <algorithm>
#include <utility>

#include "base/check.h"
#include "sim/model/engine_service.h"
#include "sim/virtual/trace_blocks.h"

namespace kvrouter::sim {
namespace {

// For how long a source holds blocks that nobody has fetched: the default of the wire engine.
constexpr std::chrono::seconds kLease{30};

}  // namespace

EngineRequest KvMoves::RequestOn(uint32_t worker, size_t row_index) const {
  const TraceRow& row = trace_.rows[row_index];
  return {.id = row_index,
          .isl_tokens = row.isl_tokens,
          .osl_tokens = row.osl_tokens,
          .block_hashes = TraceBlocks::EngineHashes(worker, row)};
}

void KvMoves::Begin(size_t row_index, const Pull& pull, uint32_t target, MonotonicTime now) {
  KVR_CHECK(pull.source != target, "row={} worker={}", row_index, target);
  EngineRequest step = RequestOn(pull.source, row_index);
  step.id |= kSourceStepBit;
  step.osl_tokens = 1;
  step.hold_blocks = true;
  fleet_.engine(pull.source).Submit(std::move(step), now);
  const auto timer = timers_.emplace(now + pull.timeout, row_index);
  const bool is_new =
      moves_
          .try_emplace(row_index,
                       Move{.source = pull.source, .target = target, .began = now, .timer = timer})
          .second;
  KVR_CHECK(is_new, "row {} was moved before", row_index);
}

void KvMoves::See(const EngineEvent& event) {
  if (const auto* started = std::get_if<PrefillStarted>(&event.what)) {
    if (IsSourceStep(started->id)) StepStarted(*started);
  } else if (const auto* finished = std::get_if<RequestFinished>(&event.what)) {
    if (IsSourceStep(finished->id)) StepFinished(RowOf(finished->id), event.at);
  } else if (const auto* loaded = std::get_if<ExternalLoaded>(&event.what)) {
    const auto it = moves_.find(RowOf(loaded->id));
    KVR_CHECK(it != moves_.end(), "row {} was not moved", loaded->id);
    sums_.pulled_blocks += loaded->blocks;
    if (it->second.state == State::kReleased) {
      moves_.erase(it);
      return;
    }
    Pulled(it->first, it->second);
  }
}

void KvMoves::StepStarted(const PrefillStarted& started) {
  const size_t row_index = RowOf(started.id);
  Move& move = moves_.at(row_index);
  move.hit_blocks = started.hit_blocks;
  const uint64_t found_tokens = started.hit_blocks * trace_.block_size_tokens;
  const uint64_t left_tokens = trace_.rows[row_index].isl_tokens - found_tokens;
  move.computing = PrefillTime(fleet_.config(), std::max<uint64_t>(1, left_tokens));
}

void KvMoves::StepFinished(size_t row_index, MonotonicTime now) {
  Move& move = moves_.at(row_index);
  StopTimer(move);
  move.state = State::kHeld;
  move.timer = timers_.emplace(now + kLease, row_index);
  ++sums_.moved;
  sums_.source_wait_s += std::chrono::duration<double>(now - move.began - move.computing).count();
  const uint64_t held_blocks =
      fleet_.engine(move.source).HeldBlocks(row_index | kSourceStepBit).size();
  const uint64_t external_tokens =
      std::min<uint64_t>(held_blocks * trace_.block_size_tokens, trace_.rows[row_index].isl_tokens);
  Serve(row_index, move.target, external_tokens, now);
  // An empty prompt asks for nothing, so nothing will arrive.
  if (external_tokens == 0) Pulled(row_index, move);
}

void KvMoves::Pulled(size_t row_index, Move& move) {
  StopTimer(move);
  move.state = State::kPulled;
  endings_.push_back({.worker = move.source, .row_index = row_index, .state = move.state});
}

void KvMoves::Serve(size_t row_index, uint32_t target, uint64_t external_tokens,
                    MonotonicTime now) {
  EngineRequest request = RequestOn(target, row_index);
  request.external_tokens = external_tokens;
  fleet_.engine(target).Submit(std::move(request), now);
}

std::optional<uint64_t> KvMoves::SourceHitBlocks(size_t row_index) const {
  const auto it = moves_.find(row_index);
  if (it == moves_.end()) return std::nullopt;
  return it->second.hit_blocks;
}

MonotonicTime KvMoves::NextExpiry() const {
  return timers_.empty() ? MonotonicTime::max() : timers_.begin()->first;
}

void KvMoves::Expire(MonotonicTime now) {
  while (NextExpiry() <= now) {
    const size_t row_index = timers_.begin()->second;
    Move& move = moves_.at(row_index);
    StopTimer(move);
    endings_.push_back({.worker = move.source, .row_index = row_index, .state = move.state});
  }
}

void KvMoves::StopTimer(Move& move) {
  if (move.timer == timers_.end()) return;
  timers_.erase(move.timer);
  move.timer = timers_.end();
}

std::optional<KvMoves::Ending> KvMoves::TakeEnding() {
  if (endings_.empty()) return std::nullopt;
  const Ending ending = endings_.front();
  endings_.pop_front();
  return ending;
}

void KvMoves::End(const Ending& ending, MonotonicTime now) {
  const auto it = moves_.find(ending.row_index);
  if (it == moves_.end() || it->second.state != ending.state) return;
  Move& move = it->second;
  EngineModel& source = fleet_.engine(move.source);
  const uint64_t step_id = ending.row_index | kSourceStepBit;
  switch (move.state) {
    case State::kComputing:
      ++sums_.timed_out;
      source.Abort(step_id, now);
      Serve(ending.row_index, move.target, 0, now);
      moves_.erase(it);
      return;
    case State::kHeld:
      ++sums_.leases_ended;
      source.ReleaseHeld(step_id, now);
      move.state = State::kReleased;
      return;
    case State::kPulled:
      source.ReleaseHeld(step_id, now);
      moves_.erase(it);
      return;
    case State::kReleased:
      return;
  }
}

}  // namespace kvrouter::sim
