#include "adapters/discovery/pod.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "adapters/discovery/pod_worker_id.h"
#include "kubernetes_objects.h"

namespace kvrouter {
namespace {

using testing::HasSubstr;

Pod Read(const nlohmann::json& object, PodDefaults defaults = {}) {
  return ReadPod(object, defaults).value();
}

std::string ErrorOf(const Pod& pod) {
  const auto message = pod.spec.status().message();
  return {message.data(), message.size()};
}

TEST(PodTest, DefaultsComeFromTheContainersPorts) {
  const Pod pod = Read(APod("vllm-0"));
  ASSERT_TRUE(pod.spec.ok()) << pod.spec.status();
  EXPECT_EQ(pod.spec->id, PodWorkerId("vllm-0"));
  EXPECT_EQ(pod.spec->address, "http://10.0.0.1:8000");
  EXPECT_EQ(pod.spec->model_name, "default");
  EXPECT_EQ(pod.spec->events.at(0).live, "tcp://10.0.0.1:5557");
  EXPECT_EQ(pod.spec->events.at(0).replay, "");
  EXPECT_TRUE(pod.ready);
  EXPECT_FALSE(pod.terminating);
  EXPECT_EQ(pod.life, "u/0");
  EXPECT_FALSE(pod.spec->is_eagle);
  EXPECT_FALSE(pod.spec->image_token_id.has_value());
}

TEST(PodTest, WithoutPortsVllmsOwnAreAssumed) {
  nlohmann::json object = APod("vllm-0");
  object["spec"]["containers"][0].erase("ports");
  const Pod pod = Read(object);
  EXPECT_EQ(pod.spec->address, "http://10.0.0.1:8000");
  EXPECT_EQ(pod.spec->events.at(0).live, "tcp://10.0.0.1:5557");
}

TEST(PodTest, AnnotationsSayEverything) {
  nlohmann::json object = APod("vllm-0");
  for (const auto& [name, value] : std::initializer_list<std::pair<const char*, const char*>>{
           {"worker-id", "18446744073709551615"},
           {"model", "m"},
           {"routing-group", "g"},
           {"role", "prefill"},
           {"scheme", "https"},
           {"port", "9000"},
           {"block-size", "32"},
           {"dp-size", "2"},
           {"dp-start-rank", "4"},
           {"events-port", "6000"},
           {"replay-port", "6100"},
           {"total-kv-blocks", "1000"},
           {"max-num-batched-tokens", "8192"},
           {"is-eagle", "true"},
           {"image-token-id", "151655"}})
    object = WithAnnotation(object, name, value);
  const Pod pod = Read(object);
  ASSERT_TRUE(pod.spec.ok()) << pod.spec.status();
  EXPECT_EQ(pod.spec->id, WorkerId{18446744073709551615u});
  EXPECT_EQ(pod.spec->model_name, "m");
  EXPECT_EQ(pod.spec->routing_group, "g");
  EXPECT_EQ(pod.spec->role, WorkerRole::kPrefill);
  EXPECT_EQ(pod.spec->address, "https://10.0.0.1:9000");
  EXPECT_EQ(pod.spec->block_size_tokens, 32u);
  EXPECT_EQ(pod.spec->events.at(5),
            (EventEndpoints{.live = "tcp://10.0.0.1:6005", .replay = "tcp://10.0.0.1:6105"}));
  EXPECT_EQ(pod.spec->events.size(), 2u);
  EXPECT_EQ(pod.spec->total_kv_blocks, 1000u);
  EXPECT_EQ(pod.spec->max_num_batched_tokens, 8192u);
  EXPECT_TRUE(pod.spec->is_eagle);
  EXPECT_EQ(pod.spec->image_token_id, TokenId{151655});
}

TEST(PodTest, AnnotationsSayWhereItIsAndWhomItsBlocksMayReach) {
  nlohmann::json object = WithAnnotation(APod("vllm-0"), "topology-domains", "zone=eu-1,rack=r=7,");
  object = WithAnnotation(object, "taints", "gold,fast");
  object = WithAnnotation(object, "kv-transfer-domain", "rack");
  object = WithAnnotation(object, "kv-transfer-enforcement", "preferred");
  object = WithAnnotation(object, "kv-transfer-preferred-weight", "0.5");
  const Pod pod = Read(object);
  ASSERT_TRUE(pod.spec.ok()) << pod.spec.status();
  EXPECT_EQ(pod.spec->taints, (std::vector<std::string>{"gold", "fast"}));
  EXPECT_EQ(pod.spec->topology,
            (WorkerTopology{.topology_domains = {{"zone", "eu-1"}, {"rack", "r=7"}},
                            .kv_transfer_domain = "rack",
                            .kv_transfer_enforcement = "preferred",
                            .kv_transfer_preferred_weight = 0.5}));
}

TEST(PodTest, ATransferDomainNeedsALabelAndAnEnforcement) {
  const auto with = [](std::initializer_list<std::pair<const char*, const char*>> annotations) {
    nlohmann::json object = WithAnnotation(APod("vllm-0"), "kv-transfer-domain", "rack");
    for (const auto& [name, value] : annotations) object = WithAnnotation(object, name, value);
    return Read(object);
  };
  EXPECT_THAT(ErrorOf(with({})), HasSubstr("one of topology-domains"));
  EXPECT_THAT(ErrorOf(with({{"topology-domains", "rack=r7"}})),
              HasSubstr("kvrouter.io/kv-transfer-enforcement"));
  EXPECT_THAT(
      ErrorOf(with({{"topology-domains", "rack=r7"}, {"kv-transfer-enforcement", "preferred"}})),
      HasSubstr("kv-transfer-preferred-weight besides"));
  EXPECT_TRUE(
      with({{"topology-domains", "rack=r7"}, {"kv-transfer-enforcement", "required"}}).spec.ok());
}

TEST(PodTest, LabelServesWhereThereIsNoAnnotation) {
  nlohmann::json object = APod("vllm-0");
  object["metadata"]["labels"]["kvrouter.io/block-size"] = "64";
  object["metadata"]["labels"]["kvrouter.io/routing-group"] = "g";
  EXPECT_EQ(Read(object).spec->block_size_tokens, 16u);
  EXPECT_EQ(Read(object).spec->routing_group, "g");
}

TEST(PodTest, RoleFallsBackToTheLabelsOfDynamosOperator) {
  nlohmann::json object = APod("vllm-0");
  object["metadata"]["labels"]["nvidia.com/dynamo-component-type"] = "worker";
  EXPECT_EQ(Read(object).spec->role, WorkerRole::kAggregated);
  object["metadata"]["labels"]["nvidia.com/dynamo-sub-component-type"] = "decode";
  EXPECT_EQ(Read(object).spec->role, WorkerRole::kDecode);
  EXPECT_EQ(Read(WithAnnotation(object, "role", "prefill")).spec->role, WorkerRole::kPrefill);
}

TEST(PodTest, PortsMayBeNamedOrSwitchedOff) {
  nlohmann::json object = APod("vllm-0");
  object["spec"]["containers"][0]["ports"].push_back({{"name", "api"}, {"containerPort", 81}});
  object = WithAnnotation(WithAnnotation(object, "port", "api"), "events-port", "none");
  const Pod pod = Read(object);
  EXPECT_EQ(pod.spec->address, "http://10.0.0.1:81");
  EXPECT_TRUE(pod.spec->events.empty());
}

TEST(PodTest, Ipv6AddressStandsInBrackets) {
  const Pod pod = Read(APod("vllm-0", "fd00::7"));
  EXPECT_EQ(pod.spec->address, "http://[fd00::7]:8000");
  EXPECT_EQ(pod.spec->events.at(0).live, "tcp://[fd00::7]:5557");
}

TEST(PodTest, WrongAnnotationsAreNamed) {
  const std::pair<const char*, const char*> wrong[] = {{"block-size", "16k"},
                                                       {"block-size", "0"},
                                                       {"worker-id", "-1"},
                                                       {"dp-size", "0"},
                                                       {"dp-size", "100000"},
                                                       {"dp-start-rank", "4294967295"},
                                                       {"role", "router"},
                                                       {"port", "0"},
                                                       {"port", "none"},
                                                       {"events-port", "nowhere"},
                                                       {"scheme", "ftp"},
                                                       {"model", ""},
                                                       {"is-eagle", "yes"},
                                                       {"image-token-id", "4294967296"},
                                                       {"topology-domains", "rack"},
                                                       {"topology-domains", "=r7"},
                                                       {"topology-domains", "rack="},
                                                       {"kv-transfer-preferred-weight", "nan"}};
  for (const auto& [name, value] : wrong) {
    const Pod pod = Read(WithAnnotation(APod("vllm-0"), name, value));
    EXPECT_FALSE(pod.spec.ok()) << name << "=" << value;
  }
  EXPECT_EQ(ErrorOf(Read(WithAnnotation(APod("vllm-0"), "role", "router"))),
            "kvrouter.io/role: bad value 'router': want aggregated, prefill or decode");
}

TEST(PodTest, BlockSizeComesFromTheSettingOrIsMissed) {
  nlohmann::json object = APod("vllm-0");
  object["metadata"].erase("annotations");
  EXPECT_THAT(ErrorOf(Read(object)),
              HasSubstr("kvrouter.io/block-size, kv_cache_block_size or introspect_workers"));
  EXPECT_EQ(Read(object, {.block_size_tokens = 64}).spec->block_size_tokens, 64u);
}

TEST(PodTest, WhatTheEngineMaySayIsLeftOpen) {
  nlohmann::json object = WithAnnotation(APod("vllm-0"), "model", "");
  object["metadata"]["annotations"].erase("kvrouter.io/block-size");
  const Pod pod = Read(object, {.may_be_learned = true});
  ASSERT_TRUE(pod.spec.ok()) << pod.spec.status();
  EXPECT_EQ(pod.spec->block_size_tokens, 0u);
  EXPECT_EQ(pod.spec->model_name, "");
  EXPECT_EQ(pod.spec->events.at(0).live, "tcp://10.0.0.1:5557");
  EXPECT_FALSE(Read(WithAnnotation(object, "dp-size", "0"), {.may_be_learned = true}).spec.ok());
}

TEST(PodTest, RestartOfASideCarIsNoNewLife) {
  nlohmann::json object = APod("vllm-0");
  object["spec"]["containers"].insert(object["spec"]["containers"].begin(), {{"name", "proxy"}});
  object["status"]["containerStatuses"].push_back({{"name", "proxy"}, {"restartCount", 9}});
  EXPECT_EQ(Read(object).life, "u/0");
  EXPECT_EQ(Read(WithAnnotation(object, "container", "proxy")).life, "u/9");
  object["status"]["containerStatuses"][0]["restartCount"] = 2;
  EXPECT_EQ(Read(object).life, "u/2");
}

TEST(PodTest, FinishedAndUnscheduledPodsHaveNoAddress) {
  for (const char* phase : {"Succeeded", "Failed"}) {
    nlohmann::json object = APod("vllm-0");
    object["status"]["phase"] = phase;
    EXPECT_FALSE(Read(object).has_address) << phase;
  }
  nlohmann::json object = APod("vllm-0");
  object["status"] = nlohmann::json::object();
  EXPECT_FALSE(Read(object).has_address);
  EXPECT_FALSE(Read(object).ready);
}

TEST(PodTest, OddShapesAreRefusedOrIgnoredNeverFatal) {
  for (const char* text :
       {"null", "[]", "3", "{}", R"({"metadata":[]})", R"({"metadata":{"name":1}})"})
    EXPECT_FALSE(ReadPod(nlohmann::json::parse(text), {}).ok()) << text;
  const char* odd = R"({"metadata":{"name":"a","uid":"u","labels":[],"annotations":"x"},
      "spec":{"containers":{"a":1}},"status":{"podIP":["x"],"conditions":7,
      "containerStatuses":{}}})";
  EXPECT_TRUE(ReadPod(nlohmann::json::parse(odd), {}).ok());
  for (const char* text : {"null", "{}", R"({"metadata":{"name":""}})"})
    EXPECT_FALSE(ReadEndpointSlice(nlohmann::json::parse(text)).ok()) << text;
  const char* odd_slice =
      R"({"metadata":{"name":"s"},"endpoints":[1,{},{"targetRef":{"kind":"Node"}},
          {"targetRef":{"kind":"Pod","name":"p"},"conditions":{"ready":null}}]})";
  const auto slice = ReadEndpointSlice(nlohmann::json::parse(odd_slice));
  ASSERT_EQ(slice->endpoints.size(), 1u);
  EXPECT_TRUE(slice->endpoints[0].ready) << "unknown means ready";
}

}  // namespace
}  // namespace kvrouter
