#include "adapters/discovery/pod_fleet.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "adapters/discovery/pod_worker_id.h"
#include "kubernetes_objects.h"

namespace kvrouter {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

// Pods by name, "~" before those that drain.
std::vector<std::string> Addresses(const PodFleet& fleet) {
  std::vector<std::string> out;
  for (const DeclaredWorker& worker : fleet.Workers().workers)
    out.push_back((worker.spec.draining ? "~" : "") + worker.spec.address.substr(7));
  std::sort(out.begin(), out.end());
  return out;
}

void Replace(WatchedResource* resource, const std::vector<nlohmann::json>& objects) {
  resource->BeginList();
  for (const auto& object : objects) ASSERT_TRUE(resource->AddListed(object).ok());
  resource->CommitList();
}

struct Fixture {
  PodFleet fleet{{}, true};
  Fixture() {
    Replace(fleet.pods(), {APod("a", "10.0.0.1"), APod("b", "10.0.0.2")});
    Replace(fleet.slices(), {ASlice("s", {{.pod = "a"}, {.pod = "b"}})});
  }
  void PutPod(const nlohmann::json& pod) { ASSERT_TRUE(fleet.pods()->Upsert(pod).ok()); }
  void PutSlice(const nlohmann::json& slice) { ASSERT_TRUE(fleet.slices()->Upsert(slice).ok()); }
};

TEST(PodFleetTest, NothingIsSaidBeforeBothListsAreRead) {
  PodFleet fleet({}, true);
  EXPECT_FALSE(fleet.IsComplete());
  Replace(fleet.pods(), {});
  EXPECT_FALSE(fleet.IsComplete());
  Replace(fleet.slices(), {});
  EXPECT_TRUE(fleet.IsComplete());
  PodFleet without_slices({}, false);
  Replace(without_slices.pods(), {});
  EXPECT_TRUE(without_slices.IsComplete());
}

TEST(PodFleetTest, WorkerIsAPodThatASliceNames) {
  Fixture f;
  EXPECT_THAT(Addresses(f.fleet), ElementsAre("10.0.0.1:8000", "10.0.0.2:8000"));
  f.PutPod(APod("c", "10.0.0.3"));
  f.PutSlice(ASlice("s", {{.pod = "a"}, {.pod = "unknown"}}));
  EXPECT_THAT(Addresses(f.fleet), ElementsAre("10.0.0.1:8000"));
}

TEST(PodFleetTest, ListUnderWayTakesNothingAway) {
  Fixture f;
  for (WatchedResource* resource : {f.fleet.pods(), f.fleet.slices()}) {
    resource->BeginList();
    EXPECT_EQ(Addresses(f.fleet).size(), 2u);
  }
}

TEST(PodFleetTest, SliceThatSpeaksOfAnotherUidDoesNotCount) {
  Fixture f;
  f.PutPod(APod("a", "10.0.0.9", "new"));
  EXPECT_THAT(Addresses(f.fleet), ElementsAre("10.0.0.2:8000"));
  f.PutSlice(ASlice("s", {{.pod = "a", .uid = "new"}}));
  EXPECT_THAT(Addresses(f.fleet), ElementsAre("10.0.0.9:8000"));
  f.PutSlice(ASlice("s", {{.pod = "a", .uid = ""}}));
  EXPECT_THAT(Addresses(f.fleet), ElementsAre("10.0.0.9:8000"));
}

TEST(PodFleetTest, PodInTwoSlicesIsOneWorkerReadyInEither) {
  Fixture f;
  f.PutSlice(ASlice("t", {{.pod = "a", .ready = false}}));
  EXPECT_THAT(Addresses(f.fleet), ElementsAre("10.0.0.1:8000", "10.0.0.2:8000"));
  f.fleet.slices()->Remove("s");
  EXPECT_THAT(Addresses(f.fleet), ElementsAre("~10.0.0.1:8000"));
}

TEST(PodFleetTest, TerminatingAndUnreadyPodsDrain) {
  Fixture f;
  nlohmann::json terminating = APod("a", "10.0.0.1");
  terminating["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z";
  f.PutPod(terminating);
  nlohmann::json unready = APod("b", "10.0.0.2");
  unready["status"]["conditions"][0]["status"] = "False";
  f.PutPod(unready);
  EXPECT_THAT(Addresses(f.fleet), ElementsAre("~10.0.0.1:8000", "~10.0.0.2:8000"));
}

TEST(PodFleetTest, EndpointsTerminatingEverywhereDrain) {
  Fixture f;
  f.PutSlice(ASlice("s", {{.pod = "a", .terminating = true}, {.pod = "b"}}));
  EXPECT_THAT(Addresses(f.fleet), ElementsAre("10.0.0.2:8000", "~10.0.0.1:8000"));
}

TEST(PodFleetTest, WrongAnnotationKeepsTheLastGoodRecordOfThatPod) {
  Fixture f;
  const nlohmann::json wrong = WithAnnotation(APod("a", "10.0.0.1"), "role", "router");
  f.PutPod(wrong);
  EXPECT_THAT(Addresses(f.fleet), ElementsAre("10.0.0.1:8000", "10.0.0.2:8000"));
  ASSERT_EQ(f.fleet.Workers().problems.size(), 1u);
  EXPECT_EQ(f.fleet.Workers().problems[0].pod, "a");
  // Through a list as well.
  Replace(f.fleet.pods(), {wrong});
  EXPECT_THAT(Addresses(f.fleet), ElementsAre("10.0.0.1:8000"));
  // Not beyond the pod's life.
  f.PutPod(WithAnnotation(APod("a", "10.0.0.1", "new"), "role", "router"));
  f.PutSlice(ASlice("s", {{.pod = "a", .uid = "new"}}));
  EXPECT_THAT(Addresses(f.fleet), IsEmpty());
}

TEST(PodFleetTest, OneIdOfTwoPodsIsTheLivingOnes) {
  Fixture f;
  nlohmann::json leaving = WithAnnotation(APod("a", "10.0.0.1"), "worker-id", "7");
  leaving["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z";
  f.PutPod(leaving);
  f.PutPod(WithAnnotation(APod("b", "10.0.0.2"), "worker-id", "7"));
  EXPECT_THAT(Addresses(f.fleet), ElementsAre("10.0.0.2:8000"));
  EXPECT_THAT(f.fleet.Workers().problems,
              ElementsAre(PodFleet::Problem{"a", "worker id 7 is also pod b's"}));
}

TEST(PodFleetTest, WithoutSlicesThePodsOwnReadinessDecides) {
  PodFleet fleet({}, false);
  Replace(fleet.pods(), {APod("a", "10.0.0.1")});
  EXPECT_THAT(Addresses(fleet), ElementsAre("10.0.0.1:8000"));
}

}  // namespace
}  // namespace kvrouter
