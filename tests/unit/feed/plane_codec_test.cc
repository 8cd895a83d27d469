#include "feed/plane_codec.h"

#include <gtest/gtest.h>

#include <fstream>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "support/plane_payload.h"

namespace kvrouter {
namespace {

using Json = nlohmann::json;

PlaneEvent DecodeOne(const PlaneEventSpec& spec) {
  PlaneBatch batch;
  EXPECT_EQ(DecodeRouterEvents(RouterEventsPayload({spec}), &batch), std::nullopt);
  EXPECT_EQ(batch.events.size(), 1u);
  return batch.events.empty() ? PlaneEvent{} : batch.events[0];
}

TEST(PlaneEnvelopeTest, CarriesPublisherSequenceTopicAndPayload) {
  PlaneEnvelope envelope;
  const std::string bytes = EnvelopeBytes(81234567, 42, "kv-events", "payload");
  ASSERT_EQ(DecodeEnvelope(bytes, &envelope), std::nullopt);
  EXPECT_EQ(envelope.publisher_id, 81234567u);
  EXPECT_EQ(envelope.sequence, 42u);
  EXPECT_EQ(envelope.topic, "kv-events");
  EXPECT_EQ(envelope.payload, "payload");
}

TEST(PlaneEnvelopeTest, TopicThatIsAWholeSubjectCountsByItsLastSegment) {
  PlaneEnvelope envelope;
  const std::string bytes = EnvelopeBytes(1, 2, "namespace.dynamo.component.c.kv_metrics", "");
  ASSERT_EQ(DecodeEnvelope(bytes, &envelope), std::nullopt);
  EXPECT_EQ(envelope.topic, kKvMetricsTopic);
}

TEST(PlaneEnvelopeTest, NamesOfLaterVersionsAreSteppedOver) {
  const std::string bytes = MsgpackWriter()
                                .Map(6)
                                .Str("published_at_ns")
                                .Uint(1)
                                .Str("publisher_id")
                                .Uint(3)
                                .Uint(99)  // not even a name
                                .Nil()
                                .Str("payload")
                                .Bin("p")
                                .Str("sequence")
                                .Uint(4)
                                .Str("topic")
                                .Str("kv-events")
                                .bytes();
  PlaneEnvelope envelope;
  ASSERT_EQ(DecodeEnvelope(bytes, &envelope), std::nullopt);
  EXPECT_EQ(envelope.sequence, 4u);
}

TEST(PlaneEnvelopeTest, EveryTruncationIsRefused) {
  const std::string bytes = EventsEnvelope(1, 2, {{.data = PlaneStored(5, {{6, 7}})}});
  PlaneEnvelope envelope;
  for (size_t length = 0; length < bytes.size(); ++length) {
    EXPECT_EQ(DecodeEnvelope(bytes.substr(0, length), &envelope), SkipReason::kBadEnvelope)
        << length;
  }
}

TEST(PlaneEnvelopeTest, MissingOrWrongFieldsAreRefused) {
  PlaneEnvelope envelope;
  for (const char* missing : {"publisher_id", "sequence", "payload"}) {
    MsgpackWriter w;
    w.Map(2);
    for (const char* name : {"publisher_id", "sequence"}) {
      if (std::string(name) != missing) w.Str(name).Uint(1);
    }
    if (std::string("payload") != missing) w.Str("payload").Bin("");
    EXPECT_EQ(DecodeEnvelope(w.bytes(), &envelope), SkipReason::kBadEnvelope) << missing;
  }
  EXPECT_EQ(DecodeEnvelope(MsgpackWriter().Array(0).bytes(), &envelope), SkipReason::kBadEnvelope);
  EXPECT_EQ(DecodeEnvelope(std::string(kMaxPlaneMessageBytes + 1, '\0'), &envelope),
            SkipReason::kOversized);
}

TEST(PlaneFramesTest, FourFramesHoldSubjectAndEnvelope) {
  const std::string subject = "kv-events";
  const std::string number = BigEndian64(9);
  const std::string frame = PlaneFrame("envelope");
  const std::vector<std::string_view> frames{subject, number, number, frame};
  const auto parsed = ParsePlaneFrames(frames);
  ASSERT_TRUE(parsed.has_value());
  EXPECT_EQ(parsed->subject, "kv-events");
  EXPECT_EQ(parsed->envelope, "envelope");
}

TEST(PlaneFramesTest, OtherShapesAreRefused) {
  const std::string number = BigEndian64(9);
  const std::string good = PlaneFrame("envelope");
  std::string other_version = good;
  other_version[0] = 2;
  const auto parses = [](const std::vector<std::string_view>& frames) {
    return ParsePlaneFrames(frames).has_value();
  };
  EXPECT_TRUE(parses({"s", number, number, good}));
  EXPECT_FALSE(parses({"s", number, good}));
  EXPECT_FALSE(parses({"s", "short", number, good}));
  EXPECT_FALSE(parses({"s", number, "short", good}));
  EXPECT_FALSE(parses({"s", number, number, other_version}));
  EXPECT_FALSE(parses({"s", number, number, good.substr(0, good.size() - 1)}));
  EXPECT_FALSE(parses({"s", number, number, good + "x"}));
  EXPECT_FALSE(parses({"s", number, number, good.substr(0, 4)}));
  EXPECT_FALSE(parses({"s", number, number, ""}));
  EXPECT_FALSE(parses({}));
}

TEST(RouterEventsTest, StoredNamesParentAndBlocks) {
  const PlaneEvent event = DecodeOne(
      {.worker_id = 4096, .dp_rank = 3, .event_id = 17, .data = PlaneStored(640, {{901, 77001}})});
  EXPECT_EQ(event.target, (Target{WorkerId{4096}, 3}));
  EXPECT_EQ(event.event_id, 17u);
  EXPECT_FALSE(event.ignored);
  EXPECT_FALSE(event.unreadable);
  const auto& stored = std::get<Stored>(event.data);
  EXPECT_EQ(stored.parent, EngineHash{640});
  ASSERT_EQ(stored.blocks.size(), 1u);
  EXPECT_EQ(stored.blocks[0].engine_hash, EngineHash{901});
  EXPECT_EQ(stored.blocks[0].local_hash, LocalBlockHash{77001});
}

TEST(RouterEventsTest, ParentZeroIsAParent) {
  EXPECT_EQ(std::get<Stored>(DecodeOne({.data = PlaneStored(0, {{1, 1}})}).data).parent,
            EngineHash{0});
  EXPECT_EQ(std::get<Stored>(DecodeOne({.data = PlaneStored({}, {{1, 1}})}).data).parent,
            std::nullopt);
}

TEST(RouterEventsTest, NegativeHashesMeanTheSameBits) {
  const std::string data = MsgpackWriter()
                               .Map(1)
                               .Str("removed")
                               .Map(1)
                               .Str("block_hashes")
                               .Array(2)
                               .Int(-1)
                               .Uint(UINT64_MAX)
                               .bytes();
  EXPECT_EQ(std::get<Removed>(DecodeOne({.data = data}).data).engine_hashes,
            (std::vector<EngineHash>{EngineHash{UINT64_MAX}, EngineHash{UINT64_MAX}}));
}

TEST(RouterEventsTest, ClearedIsATextOrAMap) {
  EXPECT_TRUE(DecodeOne({.data = PlaneCleared()}).is_cleared());
  EXPECT_TRUE(
      DecodeOne({.data = MsgpackWriter().Map(1).Str("cleared").Nil().bytes()}).is_cleared());
}

TEST(RouterEventsTest, OneEventWithoutAnArrayAroundIt) {
  PlaneBatch batch;
  ASSERT_EQ(DecodeRouterEvents(RouterEventBytes({.event_id = 5}), &batch), std::nullopt);
  ASSERT_EQ(batch.events.size(), 1u);
  EXPECT_EQ(batch.events[0].event_id, 5u);
}

TEST(RouterEventsTest, RankIsZeroAndTierTheDeviceWhenMissing) {
  const std::string bytes = MsgpackWriter()
                                .Map(2)
                                .Str("worker_id")
                                .Uint(1)
                                .Str("event")
                                .Map(2)
                                .Str("event_id")
                                .Uint(2)
                                .Str("data")
                                .Raw(PlaneRemoved({3}))
                                .bytes();
  PlaneBatch batch;
  ASSERT_EQ(DecodeRouterEvents(bytes, &batch), std::nullopt);
  EXPECT_EQ(batch.events.at(0).target, (Target{WorkerId{1}, 0}));
  EXPECT_EQ(batch.events.at(0).ignored, std::nullopt);
  EXPECT_EQ(batch.events.at(0).tier, StorageTier::kDevice);
}

TEST(RouterEventsTest, LowerTiersAreKeptAndUnknownOnesPassedOver) {
  const std::string stored = PlaneStored({}, {{1, 1}});
  const auto keeps = [&](const char* name, StorageTier tier) {
    const PlaneEvent event = DecodeOne({.data = stored, .storage_tier = name});
    return event.ignored == std::nullopt && event.tier == tier;
  };
  EXPECT_TRUE(keeps("device", StorageTier::kDevice));
  EXPECT_TRUE(keeps("host_pinned", StorageTier::kHostPinned));
  EXPECT_TRUE(keeps("disk", StorageTier::kDisk));
  EXPECT_TRUE(keeps("external", StorageTier::kExternal));
  EXPECT_EQ(DecodeOne({.data = stored, .storage_tier = "attic"}).ignored,
            SkipReason::kUnknownMedium);
  EXPECT_EQ(DecodeOne({.data = stored, .storage_tier = "Device"}).ignored,
            SkipReason::kUnknownMedium);
}

TEST(RouterEventsTest, ClearedIsAboutEveryTier) {
  EXPECT_TRUE(DecodeOne({.storage_tier = "disk"}).is_cleared());
  EXPECT_TRUE(DecodeOne({.storage_tier = "attic"}).is_cleared());
}

TEST(RouterEventsTest, ResidencyDomainsFailClosed) {
  const auto ignored = [](const std::string& domain, bool source = false) {
    return DecodeOne({.residency_domain = domain, .state_source = source}).ignored;
  };
  EXPECT_EQ(ignored("worker"), std::nullopt);
  EXPECT_EQ(ignored(""), std::nullopt);  // missing: legacy
  EXPECT_EQ(ignored("cache_owner", true), SkipReason::kCacheOwner);
  EXPECT_EQ(ignored("cache_owner", false), SkipReason::kBadEvent);
  EXPECT_EQ(ignored("galaxy"), SkipReason::kUnknownDomain);
}

TEST(RouterEventsTest, NullDomainIsUnknownAndNullTierToo) {
  const auto with_null = [](const char* field) {
    return MsgpackWriter()
        .Map(3)
        .Str("worker_id")
        .Uint(1)
        .Str(field)
        .Nil()
        .Str("event")
        .Map(2)
        .Str("event_id")
        .Uint(2)
        .Str("data")
        .Raw(PlaneRemoved({3}))
        .bytes();
  };
  PlaneBatch batch;
  ASSERT_EQ(DecodeRouterEvents(with_null("residency_domain"), &batch), std::nullopt);
  EXPECT_EQ(batch.events.at(0).ignored, SkipReason::kUnknownDomain);
  ASSERT_EQ(DecodeRouterEvents(with_null("storage_tier"), &batch), std::nullopt);
  EXPECT_EQ(batch.events.at(0).ignored, SkipReason::kUnknownMedium);
}

TEST(RouterEventsTest, UnreadableContentKeepsItsId) {
  const std::string unknown = MsgpackWriter().Map(1).Str("moved").Nil().bytes();
  const std::string half = MsgpackWriter().Map(1).Str("stored").Map(0).bytes();
  const std::string text_hash =
      MsgpackWriter().Map(1).Str("removed").Map(1).Str("block_hashes").Array(1).Str("x").bytes();
  const std::string adrift = MsgpackWriter()
                                 .Map(1)
                                 .Str("stored")
                                 .Map(2)
                                 .Str("start_position")
                                 .Uint(4)
                                 .Str("blocks")
                                 .Array(0)
                                 .bytes();
  for (const std::string& data :
       {unknown, half, text_hash, adrift, MsgpackWriter().Str("evicted").bytes(),
        MsgpackWriter().Nil().bytes(), MsgpackWriter().Map(0).bytes()}) {
    const PlaneEvent event = DecodeOne({.event_id = 9, .data = data, .storage_tier = "disk"});
    EXPECT_TRUE(event.unreadable);
    EXPECT_EQ(event.event_id, 9u);
    EXPECT_EQ(event.ignored, std::nullopt);
  }
}

TEST(RouterEventsTest, EventWithoutWorkerOrIdIsBadAndTheOthersStay) {
  const std::string no_worker = MsgpackWriter().Map(1).Str("event").Map(0).bytes();
  const std::string payload = MsgpackWriter()
                                  .Array(3)
                                  .Raw(RouterEventBytes({.event_id = 1}))
                                  .Raw(no_worker)
                                  .Raw(RouterEventBytes({.event_id = 2}))
                                  .bytes();
  PlaneBatch batch;
  ASSERT_EQ(DecodeRouterEvents(payload, &batch), std::nullopt);
  ASSERT_EQ(batch.events.size(), 2u);
  EXPECT_EQ(batch.events[1].event_id, 2u);
  EXPECT_EQ(batch.bad_events, 1u);
}

TEST(RouterEventsTest, ForgedCountsAreRefused) {
  PlaneBatch batch;
  EXPECT_EQ(DecodeRouterEvents("\xdd\xff\xff\xff\xff", &batch), SkipReason::kBadEnvelope);
  EXPECT_EQ(DecodeRouterEvents("\xdd\x7f\xff\xff\xff" + RouterEventBytes({}), &batch),
            SkipReason::kBadEnvelope);
  std::string many = std::string("\xdd\x00\x01\x00\x01", 5) + std::string(65537, '\xc0');
  EXPECT_EQ(DecodeRouterEvents(many, &batch), SkipReason::kOversized);
  EXPECT_TRUE(batch.events.empty());
}

TEST(ActiveLoadTest, AbsentFieldsWereNotSaid) {
  const std::string bytes = MsgpackWriter()
                                .Map(6)
                                .Str("worker_id")
                                .Uint(4096)
                                .Str("dp_rank")
                                .Uint(1)
                                .Str("active_decode_blocks")
                                .Uint(310)
                                .Str("active_prefill_tokens")
                                .Nil()
                                .Str("kv_used_blocks")
                                .Uint(298)
                                .Str("scheduler_load_scope")
                                .Str("local")
                                .bytes();
  const auto load = DecodeActiveLoad(bytes);
  ASSERT_TRUE(load.has_value());
  EXPECT_EQ(load->target, (Target{WorkerId{4096}, 1}));
  EXPECT_EQ(load->active_decode_blocks, 310u);
  EXPECT_EQ(load->active_prefill_tokens, std::nullopt);
  EXPECT_EQ(load->kv_used_blocks, 298u);
  EXPECT_FALSE(DecodeActiveLoad(bytes.substr(0, bytes.size() - 1)));
  EXPECT_FALSE(DecodeActiveLoad(MsgpackWriter().Map(0).bytes()));
  EXPECT_FALSE(DecodeActiveLoad(MsgpackWriter().Map(1).Str("worker_id").Int(-1).bytes()));
}

TEST(PlaneSubjectTest, ScopesAndEncodedSegments) {
  EXPECT_EQ(PlaneSubject({"dynamo", "backend", "generate"}, "kv-events"),
            "namespace.dynamo.component.backend.endpoint.generate.kv-events");
  EXPECT_EQ(PlaneSubject({"dynamo", "backend", ""}, "kv-events"),
            "namespace.dynamo.component.backend.kv-events");
  EXPECT_EQ(PlaneSubject({"a.b c", "", ""}, "kv_metrics"), "namespace.a%2Eb%20c.kv_metrics");
  EXPECT_EQ(PlaneSubject({"d", "*", "*"}, "kv-events"),
            "namespace.d.component.*.endpoint.*.kv-events");
}

// Bytes made by another implementation: tests/data/make_plane_messages.py.
TEST(PlaneGoldenTest, MessagesOfPythonsMsgpackDecodeAsStated) {
  std::ifstream file("tests/data/plane_messages.json");
  ASSERT_TRUE(file);
  const Json cases = Json::parse(file);
  ASSERT_GE(cases.size(), 8u);
  for (const Json& c : cases) {
    SCOPED_TRACE(c["name"].get<std::string>());
    const std::string hex = c["hex"];
    std::string bytes;
    for (size_t i = 0; i < hex.size(); i += 2)
      bytes.push_back(static_cast<char>(std::stoi(hex.substr(i, 2), nullptr, 16)));
    PlaneEnvelope envelope;
    ASSERT_EQ(DecodeEnvelope(bytes, &envelope), std::nullopt);
    EXPECT_EQ(envelope.publisher_id, c["publisher_id"].get<uint64_t>());
    EXPECT_EQ(envelope.sequence, c["sequence"].get<uint64_t>());
    PlaneBatch batch;
    ASSERT_EQ(DecodeRouterEvents(envelope.payload, &batch), std::nullopt);
    Json events = Json::array();
    for (const PlaneEvent& event : batch.events) {
      Json e = {{"worker_id", static_cast<uint64_t>(event.target.worker)},
                {"dp_rank", event.target.dp_rank},
                {"event_id", event.event_id},
                {"tier", static_cast<int>(event.tier)},
                {"ignored", event.ignored ? std::string(SkipReasonName(*event.ignored)) : ""}};
      if (const auto* stored = std::get_if<Stored>(&event.data)) {
        e["parent"] = stored->parent ? Json(static_cast<uint64_t>(*stored->parent)) : Json();
        e["blocks"] = Json::array();
        for (const StoredBlock& block : stored->blocks)
          e["blocks"].push_back(
              {static_cast<uint64_t>(block.engine_hash), static_cast<uint64_t>(block.local_hash)});
      } else if (const auto* removed = std::get_if<Removed>(&event.data)) {
        e["hashes"] = Json::array();
        for (const EngineHash hash : removed->engine_hashes)
          e["hashes"].push_back(static_cast<uint64_t>(hash));
      }
      events.push_back(e);
    }
    EXPECT_EQ(events, c["events"]);
  }
}

}  // namespace
}  // namespace kvrouter
