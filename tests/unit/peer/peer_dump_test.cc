#include "adapters/peer/peer_dump.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "adapters/peer/peer_dumps.h"

namespace kvrouter {
namespace {

PeerWish Wish(uint64_t worker, uint32_t rank = 0, uint32_t block_size = 16) {
  PeerWish wish{.spec = {}, .dp_rank = rank};
  wish.spec.id = WorkerId{worker};
  wish.spec.incarnation = Incarnation{4};
  wish.spec.model_name = "m";
  wish.spec.block_size_tokens = block_size;
  return wish;
}

std::string Event(uint64_t worker, const std::string& stored, const std::string& more = "",
                  int rank = 0) {
  return fmt::format(
      R"({{"worker_id":{},{}"event":{{"event_id":0,"data":{{"stored":{}}},"dp_rank":{}}}}})",
      worker, more, stored, rank);
}

const char* const kTwoBlocks = R"({"parent_hash":null,"start_position":null,"blocks":[)"
                               R"({"block_hash":1,"tokens_hash":11,"mm_extra_info":null},)"
                               R"({"block_hash":18446744073709551615,"tokens_hash":12}]})";
const char* const kChild = R"({"parent_hash":1,"blocks":[{"tokens_hash":13,"block_hash":3}]})";

std::string Tree(const std::string& events, int block_size = 16) {
  return fmt::format(R"({{"m:default":{{"block_size":{},"events":[{}]}}}})", block_size, events);
}

std::string Read(const std::string& json, const std::vector<PeerWish>& wishes = {Wish(7)}) {
  const auto found = ReadPeerDump(json, wishes);
  if (!found.ok()) return "error";
  std::string text;
  for (const auto& [wish, events] : *found) {
    text += fmt::format("[{}]", wish);
    for (const KvEvent& event : events) {
      EXPECT_EQ(event.target, (Target{wishes[wish].spec.id, wishes[wish].dp_rank}));
      EXPECT_EQ(event.incarnation, Incarnation{4});
      EXPECT_EQ(event.counting, StoreCounting::kSet);
      const auto& stored = std::get<Stored>(event.data);
      text += stored.parent ? fmt::format(" {}>", fmt::underlying(*stored.parent)) : " ";
      for (const StoredBlock& block : stored.blocks)
        text += fmt::format("{}={} ", fmt::underlying(block.engine_hash),
                            fmt::underlying(block.local_hash));
      if (event.tier != StorageTier::kDevice) text += "lower ";
    }
  }
  return text;
}

TEST(PeerDumpTest, StoredEventsOfTheWishedRanksAreRead) {
  const std::string json = Tree(Event(7, kTwoBlocks) + "," + Event(8, kTwoBlocks) + "," +
                                Event(7, kChild) + "," + Event(7, kChild, "", /*rank=*/1));
  EXPECT_EQ(Read(json), "[0] 1=11 18446744073709551615=12  1>3=13 ");
  EXPECT_EQ(Read(json, {Wish(9), Wish(7, 1)}), "[1] 1>3=13 ");
  EXPECT_EQ(Read(json, {}), "");
}

TEST(PeerDumpTest, FieldsMayComeInAnyOrderAndBeMoreThanWeKnow) {
  EXPECT_EQ(
      Read(R"({"m:default":{"events":[{"event":{"data":{"stored":{"blocks":[{"mm_extra_info":)"
           R"({"x":[1]},"tokens_hash":13,"block_hash":3}],"parent_hash":1}},"dp_rank":0,)"
           R"("event_id":5},"new":{"a":[1,2]},"storage_tier":"device","worker_id":7}],)"
           R"("block_size":16}})"),
      "[0] 1>3=13 ");
}

TEST(PeerDumpTest, TheOtherFormHasARecordPerLine) {
  const auto record = [](const std::string& event) {
    return R"({"key":"m:default","block_size":16,"event":)" + event + "}";
  };
  const std::string json = record(Event(7, kTwoBlocks)) + "\n" + record(Event(8, kChild)) +
                           "\r\n\n" + record(Event(7, kChild));
  EXPECT_EQ(Read(json), "[0] 1=11 18446744073709551615=12  1>3=13 ");
  EXPECT_EQ(Read(json + "\n"), Read(json));
  EXPECT_EQ(Read(json + "\n{\"key\":"), "error");
}

TEST(PeerDumpTest, WhatCannotBePlacedIsPassedOver) {
  for (const std::string& event :
       {Event(7, kChild, R"("residency_domain":"cache_owner",)"),
        Event(7, kChild, R"("residency_domain":"a new one",)"),
        Event(7, kChild, R"("residency_domain":null,)"),
        Event(7, kChild, R"("storage_tier":"tape",)"),
        Event(7, R"({"parent_hash":null,"start_position":4,)"
                 R"("blocks":[{"block_hash":1,"tokens_hash":2}]})"),
        Event(7, R"({"parent_hash":"x","blocks":[{"block_hash":1,"tokens_hash":2}]})"),
        Event(7, R"({"parent_hash":1,"blocks":[{"block_hash":1}]})"),
        Event(7, R"({"parent_hash":1,"blocks":[]})"), Event(7, R"({"parent_hash":1})"),
        std::string(R"({"worker_id":7,"event":{"event_id":0,"data":"cleared","dp_rank":0}})"),
        std::string(R"({"worker_id":7,"event":{"data":{"removed":{"block_hashes":[1]}}}})"),
        std::string(R"({"worker_id":"seven"})"), std::string("{}")}) {
    EXPECT_EQ(Read(Tree(event + "," + Event(7, kChild))), "[0] 1>3=13 ") << event;
  }
  EXPECT_EQ(Read(Tree(Event(7, kChild, R"("residency_domain":"worker",)"))), "[0] 1>3=13 ");
  EXPECT_EQ(Read(Tree(Event(7, kChild, R"("storage_tier":"disk",)"))), "[0] 1>3=13 lower ");
}

TEST(PeerDumpTest, AnotherBlockSizeOrAFailedTreeIsPassedOver) {
  EXPECT_EQ(Read(Tree(Event(7, kChild), 32)), "");
  EXPECT_EQ(
      Read(R"({"m:default":{"error":"tree is gone"},"n:default":{"block_size":16,"events":[]}})"),
      "");
  EXPECT_EQ(Read("{}"), "");
}

TEST(PeerDumpTest, WhatIsNoDumpIsAnError) {
  for (const char* json : {"", "no json", "[]", "7", "{\"m:default\":", "{\"m:default\":7}",
                           R"({"m:default":{"block_size":16,"events":[7]}})",
                           R"({"m:default":{"block_size":16,"events":[{"worker_id":7)"})
    EXPECT_EQ(Read(json), "error") << json;
}

TEST(PeerDumpsTest, PeersAreAddresses) {
  EXPECT_TRUE(Validate(PeerDumpsConfig{.peers = {"http://10.0.0.1:8090", "router:8092", "[::1]:80",
                                                 "http://router:8092/"}})
                  .ok());
  for (const char* bad : {"https://router:8090", "router", ":80", "router:", "router:0",
                          "router:99999", "http://router:80/dump", "a b:80"})
    EXPECT_FALSE(Validate(PeerDumpsConfig{.peers = {bad}}).ok()) << bad;
}

TEST(PeerDumpsTest, WithoutPeersNobodyIsAsked) {
  PeerDumps peers({}, &SteadyClock());
  ASSERT_TRUE(peers.Start().ok());
  EXPECT_FALSE(peers.HasPeers());
  absl::StatusCode code = absl::StatusCode::kOk;
  peers.Request(Wish(1).spec, 0, [&](const auto& answer) { code = answer.status().code(); });
  EXPECT_EQ(code, absl::StatusCode::kCancelled);
}

TEST(PeerDumpsTest, StoppingAnswersEverybody) {
  PeerDumpsConfig config{.peers = {"127.0.0.1:1"}};
  config.timeout = std::chrono::milliseconds(30'000);
  PeerDumps peers(config, &SteadyClock());
  int answers = 0;
  peers.Request(Wish(1).spec, 0, [&](const auto& answer) { answers += answer.ok() ? 100 : 1; });
  peers.Request(Wish(2).spec, 0, [&](const auto& answer) { answers += answer.ok() ? 100 : 1; });
  peers.Stop();  // never started
  EXPECT_EQ(answers, 2);
}

}  // namespace
}  // namespace kvrouter
