#include "core/parked_request.h"

#include <utility>

namespace kvrouter {
namespace {

// Without the prompt, which is borrowed.
RouteRequest WithoutPrompt(const RouteRequest& request) {
  RouteRequest copy = request;
  copy.prompt = HashPrompt{};
  return copy;
}

}  // namespace

ParkedRequest::ParkedRequest(const RouteRequest& request, const IdentifiedPrompt& identified,
                             const CandidateFilter& eligible, const ScheduleRequest& to_schedule,
                             std::shared_ptr<const RouterSettings::Version> in_force)
    : route(WithoutPrompt(request)),
      prompt(identified),
      settings(std::move(in_force)),
      filter_(eligible),
      local_hashes_(identified.local_hashes.begin(), identified.local_hashes.end()),
      sequence_hashes_(identified.sequence_hashes.begin(), identified.sequence_hashes.end()),
      overlaps_(to_schedule.overlaps.begin(), to_schedule.overlaps.end()),
      lower_overlaps_(to_schedule.lower_overlaps.begin(), to_schedule.lower_overlaps.end()),
      shared_hits_(to_schedule.shared_hits.begin(), to_schedule.shared_hits.end()) {
  prompt.local_hashes = local_hashes_;
  prompt.sequence_hashes = sequence_hashes_;
  route.prompt = HashPrompt{.local_hashes = local_hashes_,
                            .sequence_hashes = sequence_hashes_,
                            .isl_tokens = identified.isl_tokens};
  schedule = to_schedule;
  schedule.filter = &filter_;
  schedule.queue = nullptr;
  policy_class = route.policy_class;
  schedule.overlaps = overlaps_;
  schedule.lower_overlaps = lower_overlaps_;
  schedule.shared_hits = shared_hits_;
  if (!to_schedule.chain.empty()) schedule.chain = sequence_hashes_;
}

}  // namespace kvrouter
