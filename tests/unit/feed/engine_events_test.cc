// Batches of all engines' dialects, encoded by Python's msgpack (tests/data/make_engine_events.py),
// against what the generator meant to say.
#include <gtest/gtest.h>

#include <fstream>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "feed/event_codec.h"
#include "support/engine_payload.h"

namespace kvrouter {
namespace {

using Json = nlohmann::json;

Json Batches() {
  std::ifstream file("tests/data/engine_events.json");
  EXPECT_TRUE(file.is_open()) << "run from the source root";
  return Json::parse(file)["batches"];
}

RawKind KindOf(const std::string& name) {
  if (name == "stored") return RawKind::kStored;
  return name == "removed" ? RawKind::kRemoved : RawKind::kCleared;
}

void ExpectStored(const Json& said, const RawBatch& batch, const RawEvent& event) {
  EXPECT_EQ(event.parent, said["parent"].is_null()
                              ? std::nullopt
                              : std::optional<uint64_t>(said["parent"].get<uint64_t>()));
  const auto tokens = batch.Tokens(event);
  EXPECT_EQ(std::vector<TokenId>(tokens.begin(), tokens.end()),
            said["tokens"].get<std::vector<TokenId>>());
  EXPECT_TRUE(event.tokens_readable);
  EXPECT_EQ(event.tokens_in_pairs, said["pairs"].get<bool>());
  EXPECT_EQ(event.Positions(), said["block_size"].get<uint32_t>() * said["hashes"].size());
  EXPECT_EQ(event.block_size_tokens, said["block_size"].get<uint32_t>());
  EXPECT_EQ(event.lora_name, said["lora_name"].get<std::string>());
  EXPECT_FALSE(event.has_lora_number);
  EXPECT_EQ(event.cache_salt, said["cache_salt"].get<std::string>());
  EXPECT_EQ(event.group_idx, said["group"].is_null()
                                 ? std::nullopt
                                 : std::optional<uint64_t>(said["group"].get<uint64_t>()));
  EXPECT_EQ(event.spec_kind, said["spec_kind"].get<std::string>());
  EXPECT_FALSE(event.first_unknown_block);
  std::vector<BlockItem> items;
  for (uint32_t block = 0; block < said["items"].size(); ++block) {
    for (const Json& item : said["items"][block])
      items.push_back({block, MultimodalHash{item.get<uint64_t>()}});
  }
  const auto read = batch.Items(event);
  EXPECT_EQ(std::vector<BlockItem>(read.begin(), read.end()), items);
}

TEST(EngineEventsTest, PythonsBytesSayWhatTheyWereMadeFrom) {
  const Json batches = Batches();
  ASSERT_GE(batches.size(), 100u);
  RawBatch batch;
  for (size_t n = 0; n < batches.size(); ++n) {
    const Json& said = batches[n];
    SCOPED_TRACE(std::to_string(n) + " " + said["dialect"].get<std::string>());
    const std::string payload = FromHex(said["payload"].get<std::string>());
    ASSERT_FALSE(DecodeBatch(payload, &batch));
    EXPECT_EQ(batch.ts_seconds, 1.5 + static_cast<double>(n));
    EXPECT_EQ(batch.rank, said["rank"].is_null()
                              ? std::nullopt
                              : std::optional<uint64_t>(said["rank"].get<uint64_t>()));
    ASSERT_EQ(batch.events.size(), said["events"].size());
    for (size_t i = 0; i < batch.events.size(); ++i) {
      const Json& event = said["events"][i];
      const RawKind kind = KindOf(event["kind"]);
      ASSERT_EQ(batch.events[i].kind, kind);
      if (kind == RawKind::kCleared) continue;
      const auto hashes = batch.Hashes(batch.events[i]);
      EXPECT_EQ(std::vector<uint64_t>(hashes.begin(), hashes.end()),
                event["hashes"].get<std::vector<uint64_t>>());
      EXPECT_EQ(batch.events[i].medium, event["medium"].get<std::string>());
      if (kind == RawKind::kStored) ExpectStored(event, batch, batch.events[i]);
    }
  }
}

}  // namespace
}  // namespace kvrouter
