#include "core/schedule/taints.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>

#include "kvrouter/error.h"

namespace kvrouter {
namespace {

using ::testing::ElementsAre;

WorkerTopology InRack(std::string enforcement) {
  WorkerTopology topology;
  topology.topology_domains = {{"rack", "r7"}, {"zone", "z1"}};
  topology.kv_transfer_domain = "rack";
  topology.kv_transfer_enforcement = std::move(enforcement);
  return topology;
}

TEST(TaintsTest, AWorkerCarriesItsTaintsAndItsTopologyOnceAndSorted) {
  const std::vector<std::string> own = {"gpu=h100", "a", "gpu=h100"};
  EXPECT_THAT(TaintsOf(own, InRack("")),
              ElementsAre("a", "dynamo.topology/rack=r7", "dynamo.topology/zone=z1", "gpu=h100"));
}

TEST(TaintsTest, AllRequiredOnesMustBeThere) {
  const std::vector<std::string> carried = {"a", "b", "c"};
  EXPECT_TRUE(CarriesRequired({}, {}));
  EXPECT_TRUE(CarriesRequired({.required_taints = {"c", "a"}}, carried));
  EXPECT_FALSE(CarriesRequired({.required_taints = {"a", "d"}}, carried));
  EXPECT_FALSE(CarriesRequired({.required_taints = {"a"}}, {}));
}

TEST(TaintsTest, PreferredWeightsOfCarriedTaintsAddUp) {
  const std::vector<std::string> carried = {"a", "b"};
  const RoutingConstraints wishes{.preferred_taints = {{"a", 1.5}, {"b", -0.5}, {"c", 9}}};
  EXPECT_EQ(PreferredWeight(wishes, carried), 1.0);
  EXPECT_EQ(PreferredWeight(wishes, {}), 0);
}

TEST(TaintsTest, ARequiredTopologyBindsTheDecodeLeg) {
  RoutingConstraints constraints;
  EXPECT_TRUE(AddTopologyConstraint(InRack("required"), &constraints).ok());
  EXPECT_THAT(constraints.required_taints, ElementsAre("dynamo.topology/rack=r7"));
  EXPECT_TRUE(constraints.preferred_taints.empty());
  EXPECT_TRUE(CarriesRequired(constraints, TaintsOf({}, InRack(""))));
}

TEST(TaintsTest, APreferredTopologyNeedsItsWeight) {
  RoutingConstraints constraints;
  WorkerTopology topology = InRack("preferred");
  topology.kv_transfer_preferred_weight = 2;
  EXPECT_TRUE(AddTopologyConstraint(topology, &constraints).ok());
  EXPECT_TRUE(constraints.required_taints.empty());
  EXPECT_EQ(constraints.preferred_taints.at("dynamo.topology/rack=r7"), 2);
  topology.kv_transfer_preferred_weight.reset();
  EXPECT_EQ(ErrorReasonOf(AddTopologyConstraint(topology, &constraints)),
            ErrorReason::kInvalidRequest);
}

TEST(TaintsTest, ATopologyWithoutLabelOrEnforcementIsAnError) {
  RoutingConstraints constraints;
  WorkerTopology no_label = InRack("required");
  no_label.kv_transfer_domain = "row";
  EXPECT_EQ(AddTopologyConstraint(no_label, &constraints).message(),
            "kv_transfer_domain row has no label in topology_domains");
  EXPECT_EQ(AddTopologyConstraint(InRack("maybe"), &constraints).message(),
            "kv_transfer_enforcement must be required or preferred, got \"maybe\"");
  EXPECT_TRUE(AddTopologyConstraint(WorkerTopology{}, &constraints).ok()) << "no domain, no wish";
  EXPECT_TRUE(constraints.required_taints.empty() && constraints.preferred_taints.empty());
}

TEST(TaintsTest, WeightsMustBeFinite) {
  EXPECT_TRUE(Validate(RoutingConstraints{.preferred_taints = {{"a", -3}}}).ok());
  EXPECT_FALSE(Validate(RoutingConstraints{
                            .preferred_taints = {{"a", std::numeric_limits<double>::infinity()}}})
                   .ok());
}

}  // namespace
}  // namespace kvrouter
