// Requests and events meet in block hashes. Random prompts of random partitions (block size, EAGLE,
// image token, items, adapter, salt) go through the router as a request and through the feed as the
// engine's event, and both are compared with hashes put together byte by byte here.
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <xxhash.h>

#include <algorithm>
#include <optional>
#include <random>
#include <string>
#include <vector>

#include "feed/rank_filter.h"
#include "support/core_builders.h"
#include "support/engine_payload.h"

namespace kvrouter {
namespace {

using Items = std::vector<std::vector<MultimodalHash>>;

constexpr TokenId kImageToken = 9;

struct Case {
  BlockNaming naming;
  std::string lora_name;
  std::string cache_salt;
  std::vector<TokenId> tokens;
  std::vector<std::vector<std::string>> names;  // of the items of each block

  size_t blocks() const {
    const size_t ahead = naming.is_eagle ? 1 : 0;
    return tokens.size() < ahead ? 0 : (tokens.size() - ahead) / naming.block_size_tokens;
  }
};

void AppendLittleEndian(uint64_t value, int bytes, std::string* out) {
  for (int i = 0; i < bytes; ++i) out->push_back(static_cast<char>(value >> (8 * i) & 0xff));
}

uint64_t NaiveItem(const std::string& name) { return XXH3_64bits(name.data(), name.size()); }

// Of one block, from the specification and nothing else.
uint64_t NaiveHash(const Case& c, size_t block) {
  uint64_t seed = 1337;
  if (!c.lora_name.empty()) seed += XXH3_64bits_withSeed(c.lora_name.data(), c.lora_name.size(), 0);
  if (!c.cache_salt.empty())
    seed += XXH3_64bits_withSeed(c.cache_salt.data(), c.cache_salt.size(), 1);
  std::vector<uint64_t> items;
  for (const std::string& name : c.names[block]) items.push_back(NaiveItem(name));
  std::string bytes;
  size_t run = 0;
  const size_t begin = block * c.naming.block_size_tokens;
  const size_t end = begin + c.naming.block_size_tokens + (c.naming.is_eagle ? 1 : 0);
  for (size_t i = begin; i < end; ++i) {
    uint64_t token = c.tokens[i];
    if (c.naming.image_token_id && !items.empty() && token == *c.naming.image_token_id) {
      token = 1'000'000 + (items[std::min(run, items.size() - 1)] & 0x3fffffff);
      if (i + 1 < end && c.tokens[i + 1] != *c.naming.image_token_id) ++run;
    }
    AppendLittleEndian(token, 4, &bytes);
  }
  if (!c.naming.image_token_id) {
    std::sort(items.begin(), items.end());
    for (const uint64_t item : items) AppendLittleEndian(item, 8, &bytes);
  }
  return XXH3_64bits_withSeed(bytes.data(), bytes.size(), seed);
}

Case RandomCase(std::mt19937_64& rng) {
  const auto below = [&](uint64_t n) { return rng() % n; };
  Case c;
  c.naming.block_size_tokens = static_cast<uint32_t>(1 + below(6));
  c.naming.is_eagle = below(2) == 0;
  if (below(2) == 0) c.naming.image_token_id = kImageToken;
  if (below(3) == 0) c.lora_name = "adapter";
  if (below(3) == 0) c.cache_salt = "tenant";
  c.tokens.resize(below(40));
  for (TokenId& token : c.tokens) token = static_cast<TokenId>(7 + below(4));  // 9 among them
  c.names.resize(c.blocks());
  for (auto& block : c.names) {
    if (below(2) == 0) continue;
    for (uint64_t n = below(4); n > 0; --n) block.push_back(fmt::format("item-{}", below(3)));
  }
  return c;
}

// The event of an engine that has just cached all blocks of the prompt.
std::string StoreEvent(const Case& c, std::optional<bool> mm_keys) {
  MsgpackWriter w;
  std::vector<uint64_t> hashes(c.blocks());
  for (size_t i = 0; i < hashes.size(); ++i) hashes[i] = 1000 + i;
  w.Map(8).Str("type").Str("BlockStored").Str("block_hashes").UintArray(hashes);
  w.Str("parent_block_hash").Nil().Str("lora_name").Str(c.lora_name);
  w.Str("cache_salt").Str(c.cache_salt).Str("block_size").Uint(c.naming.block_size_tokens);
  const size_t positions = c.blocks() * c.naming.block_size_tokens;
  w.Str("token_ids").Array(positions);
  for (size_t i = 0; i < positions; ++i) {
    if (c.naming.is_eagle) {
      w.Array(2).Uint(c.tokens[i]).Uint(c.tokens[i + 1]);
    } else {
      w.Uint(c.tokens[i]);
    }
  }
  if (mm_keys) {
    w.Str(*mm_keys ? "mm_keys" : "extra_keys").Array(c.names.size());
    for (const auto& block : c.names) {
      w.Array(block.size());
      for (const std::string& name : block) {
        *mm_keys ? w.Map(1).Str("hash").Str(name) : w.Array(2).Str(name).Int(-1);
      }
    }
  } else {
    w.Str("block_mm_infos").Array(c.names.size());
    for (const auto& block : c.names) {
      w.Map(1).Str("mm_objects").Array(block.size());
      for (const std::string& name : block) w.Map(1).Str("mm_hash").Uint(NaiveItem(name));
    }
  }
  return BatchPayload(1.0, {w.bytes()});
}

Items ItemsOf(const Case& c) {
  Items items;
  for (const auto& block : c.names) {
    auto& hashes = items.emplace_back();
    for (const std::string& name : block) hashes.push_back(*MultimodalHashOf(name));
  }
  return items;
}

TEST(BlockNamingPropertyTest, EventsAreNamedAsTheFormulaSays) {
  for (uint64_t seed = 0; seed < 1500; ++seed) {
    SCOPED_TRACE(fmt::format("seed={}", seed));
    std::mt19937_64 rng(seed);
    const Case c = RandomCase(rng);
    const std::optional<bool> forms[] = {std::nullopt, false, true};
    for (const auto& form : forms) {
      const std::string payload = StoreEvent(c, form);
      RawBatch batch;
      ASSERT_FALSE(DecodeBatch(payload, &batch));
      ASSERT_EQ(batch.events.size(), 1u);
      RankFilter filter(c.naming);
      FeedCounters counters;
      const auto stored = filter.Store(batch, batch.events[0], &counters);
      ASSERT_EQ(stored.has_value(), c.blocks() > 0);
      if (!stored) continue;
      ASSERT_EQ(stored->blocks.size(), c.blocks());
      for (size_t i = 0; i < c.blocks(); ++i) {
        ASSERT_EQ(static_cast<uint64_t>(stored->blocks[i].local_hash), NaiveHash(c, i))
            << "block " << i;
      }
    }
  }
}

// A prompt matches what was stored for another one up to the first block the formula tells apart.
TEST(BlockNamingPropertyTest, RequestsMatchAsFarAsTheFormulaSays) {
  for (uint64_t seed = 0; seed < 1500; ++seed) {
    SCOPED_TRACE(fmt::format("seed={}", seed));
    std::mt19937_64 rng(seed);
    const Case held = RandomCase(rng);
    Case asked = held;
    if (!asked.tokens.empty() && rng() % 2 == 0) {
      asked.tokens[rng() % asked.tokens.size()] = static_cast<TokenId>(7 + rng() % 4);
    }
    if (!asked.names.empty() && rng() % 2 == 0)
      asked.names[rng() % asked.names.size()] = {"item-1"};

    Router router(RouterConfig{}, nullptr);
    WorkerSpec worker = testing::AWorker(1);
    worker.block_size_tokens = held.naming.block_size_tokens;
    worker.is_eagle = held.naming.is_eagle;
    worker.image_token_id = held.naming.image_token_id;
    ASSERT_TRUE(router.UpsertWorker(worker).ok());
    Stored stored;
    for (size_t i = 0; i < held.blocks(); ++i)
      stored.blocks.push_back({EngineHash{i}, LocalBlockHash{NaiveHash(held, i)}});
    if (!stored.blocks.empty()) {
      ASSERT_EQ(router.Apply(testing::AnEvent(testing::TargetOf(1), std::move(stored))).status,
                ApplyStatus::kOk);
    }

    size_t expected = 0;
    while (expected < asked.blocks() && NaiveHash(asked, expected) == NaiveHash(held, expected))
      ++expected;
    const Items items = ItemsOf(asked);
    RouteRequest request;
    request.lora_name = asked.lora_name;
    request.cache_salt = asked.cache_salt;
    request.prompt = TokenPrompt{.token_ids = asked.tokens, .multimodal = items};
    const auto decision = testing::Decide(router, request);
    ASSERT_EQ(decision.full_blocks, asked.blocks());
    ASSERT_EQ(decision.effective_overlap_blocks, static_cast<double>(expected));
  }
}

}  // namespace
}  // namespace kvrouter
