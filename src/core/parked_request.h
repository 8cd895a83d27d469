#ifndef KVROUTER_CORE_PARKED_REQUEST_H_
#define KVROUTER_CORE_PARKED_REQUEST_H_

#include <memory>
#include <span>
#include <vector>

#include "core/index/block_index.h"
#include "core/prompt.h"
#include "core/request_course.h"
#include "core/router_settings.h"
#include "core/schedule/candidate_filter.h"
#include "core/schedule/scheduler.h"
#include "kvrouter/decision.h"

namespace kvrouter {

// A request that waits for its decision. Its caller's prompt is gone by then, so it owns what the
// scheduler, the explanation and the sinks read: the hashes of the blocks, not the tokens, which
// take several times as much. Not copied or moved: its parts point to each other.
// Thread-compatible; from Park until it is released it belongs to the scheduler's mutex.
struct ParkedRequest final : WaitingRequest {
  ParkedRequest(const RouteRequest& request, const IdentifiedPrompt& identified,
                const CandidateFilter& eligible, const ScheduleRequest& to_schedule,
                std::shared_ptr<const RouterSettings::Version> in_force);
  ParkedRequest(const ParkedRequest&) = delete;
  ParkedRequest& operator=(const ParkedRequest&) = delete;

  // What is held now, as find(hashes, &overlaps, &lower_overlaps) says,
  // replaces what was held then.
  template <typename Find>
  void LookUpOverlaps(const Find& find) {
    find(std::span<const LocalBlockHash>(local_hashes_), &overlaps_, &lower_overlaps_);
    schedule.overlaps = overlaps_;
    schedule.lower_overlaps = lower_overlaps_;
  }

  RouteRequest route;           // its prompt as hashes
  RequestCourse::State course;  // what was decided before it began to wait
  IdentifiedPrompt prompt;
  const std::shared_ptr<const RouterSettings::Version> settings;

 private:
  const CandidateFilter filter_;
  std::vector<LocalBlockHash> local_hashes_;
  std::vector<SequenceHash> sequence_hashes_;
  std::vector<OverlapMatch> overlaps_;
  std::vector<LowerTierMatch> lower_overlaps_;
  std::vector<BlockRange> shared_hits_;
};

}  // namespace kvrouter

#endif  // KVROUTER_CORE_PARKED_REQUEST_H_
