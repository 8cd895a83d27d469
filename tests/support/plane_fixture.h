#ifndef KVROUTER_TESTS_SUPPORT_PLANE_FIXTURE_H_
#define KVROUTER_TESTS_SUPPORT_PLANE_FIXTURE_H_

#include <gtest/gtest.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "kvrouter/router.h"
#include "service/feed_monitor.h"
#include "service/plane_intake.h"
#include "service/reported_loads.h"
#include "support/eventually.h"
#include "support/rank_views.h"

namespace kvrouter {

// A core, the event plane's intake in front of it, and what one wants to know of both.
class PlaneFixture : public testing::Test {
 protected:
  PlaneFixture() : router_(RouterConfig{}, nullptr) {}
  ~PlaneFixture() override {
    if (intake_) intake_->Stop();
  }

  void MakeIntake(const PlaneIntakeConfig& config = {},
                  std::vector<const RankHistory*> histories = {}) {
    intake_ = std::make_unique<PlaneIntake>(config, &router_, &monitor_, &loads_, &SteadyClock(),
                                            std::move(histories));
  }

  static WorkerSpec Spec(uint64_t id, uint64_t incarnation = 1) {
    WorkerSpec spec;
    spec.id = WorkerId{id};
    spec.incarnation = Incarnation{incarnation};
    spec.address = "http://127.0.0.1:1";
    spec.block_size_tokens = 4;
    return spec;
  }
  void Register(const WorkerSpec& spec) {
    ASSERT_TRUE(router_.UpsertWorker(spec).ok());
    intake_->OnWorkerChanged(spec);
  }
  void Register(uint64_t id, uint64_t incarnation = 1) { Register(Spec(id, incarnation)); }
  void Remove(uint64_t id, uint64_t incarnation = 1) {
    ASSERT_TRUE(router_.RemoveWorker(WorkerId{id}));
    intake_->OnWorkerRemoved(WorkerId{id}, Incarnation{incarnation});
  }

  // Blocks 1..limit that the index believes the worker holds, each at the start of a prompt.
  std::set<uint64_t> Held(uint64_t worker, uint64_t limit) {
    std::set<uint64_t> held;
    for (uint64_t block = 1; block <= limit; ++block) {
      RouteRequest request;
      const std::vector<LocalBlockHash> local{LocalBlockHash{block}};
      const std::vector<SequenceHash> sequence{SequenceHash{block}};
      request.prompt =
          HashPrompt{.local_hashes = local, .sequence_hashes = sequence, .isl_tokens = 4};
      const auto overlaps = router_.FindOverlap(request);
      if (!overlaps.ok()) continue;
      for (const TargetOverlap& overlap : *overlaps) {
        if (overlap.target.worker == WorkerId{worker} && overlap.device_blocks == 1)
          held.insert(block);
      }
    }
    return held;
  }
  uint64_t IndexBlocks(uint64_t worker) { return IndexBlocksOf(router_, RankOf(worker)); }
  std::optional<FeedReport> Report(uint64_t worker) { return ReportOf(monitor_, RankOf(worker)); }
  bool InState(uint64_t worker, FeedState state) {
    const auto report = Report(worker);
    return report && report->state == state;
  }
  std::string Detail(uint64_t worker) {
    const auto report = Report(worker);
    return report ? report->detail : "no report";
  }

  static Target RankOf(uint64_t worker) { return {WorkerId{worker}, 0}; }

  Router router_;
  FeedMonitor monitor_;
  ReportedLoads loads_;
  std::unique_ptr<PlaneIntake> intake_;
};

}  // namespace kvrouter

#endif  // KVROUTER_TESTS_SUPPORT_PLANE_FIXTURE_H_
