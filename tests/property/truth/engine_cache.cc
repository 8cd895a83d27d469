#include "property/truth/engine_cache.h"

#include <algorithm>
#include <chrono>
#include <map>
#include <utility>
#include <variant>

#include "sim/model/engine_model.h"

namespace kvrouter::truth {
namespace {

using std::chrono::milliseconds;

// Inside the model a block is named by its node.
std::vector<EngineHash> NamesOf(const std::vector<NodeId>& path) {
  std::vector<EngineHash> names;
  names.reserve(path.size());
  for (const NodeId node : path) names.push_back(EngineHash{node});
  return names;
}

class ModelCache final : public EngineCache {
 public:
  ModelCache(sim::EngineConfig::Service service, uint64_t seed)
      : dice_(seed), model_(Config(service, &dice_)) {}

  void Submit(const std::vector<NodeId>& path, MonotonicTime now) override {
    const uint64_t id = next_id_++;
    live_[id] = path;
    model_.Submit({.id = id,
                   .isl_tokens = path.size() * kBlockTokens + dice_.Below(kBlockTokens),
                   .osl_tokens = 1 + dice_.Below(8),
                   .block_hashes = NamesOf(path)},
                  now);
    // A caller hangs up; what is cached stays. Everything up to `now` has run.
    if (dice_.Chance(0.05)) {
      const auto victim = live_.begin();
      model_.Abort(victim->first, now);
      live_.erase(victim);
    }
  }
  MonotonicTime NextTime() const override { return model_.NextEventTime(); }

  void Advance(MonotonicTime now, std::vector<CacheOp>* ops) override {
    events_.clear();
    model_.AdvanceTo(now, &events_);
    for (const sim::EngineEvent& event : events_) {
      if (const auto* stored = std::get_if<sim::BlocksStored>(&event.what)) {
        const auto begin = live_.at(stored->id).begin() + static_cast<int64_t>(stored->first_block);
        ops->push_back(
            {.kind = CacheOp::Kind::kStored,
             .nodes = std::vector<NodeId>(begin, begin + static_cast<int64_t>(stored->count))});
      } else if (const auto* removed = std::get_if<sim::BlocksRemoved>(&event.what)) {
        CacheOp op{.kind = CacheOp::Kind::kRemoved, .nodes = {}};
        for (const EngineHash hash : removed->hashes)
          op.nodes.push_back(static_cast<NodeId>(static_cast<uint64_t>(hash)));
        ops->push_back(std::move(op));
      } else if (const auto* finished = std::get_if<sim::RequestFinished>(&event.what)) {
        live_.erase(finished->id);
      }
    }
  }
  bool Reset() override { return model_.ResetPrefixCache(); }
  uint32_t HeldPrefix(const std::vector<NodeId>& path) const override {
    return static_cast<uint32_t>(model_.CachedPrefixBlocks(NamesOf(path)));
  }

 private:
  static sim::EngineConfig Config(sim::EngineConfig::Service service, Dice* dice) {
    return {.service = service,
            .block_size_tokens = kBlockTokens,
            .capacity_blocks = 24 + dice->Below(60),
            .prefill_tokens_per_s = 2000,
            .inter_token = std::chrono::microseconds(10'000),
            .token_budget_per_step = 16 + dice->Below(64),
            .max_running = 8};
  }

  Dice dice_;
  sim::EngineModel model_;
  uint64_t next_id_ = 1;
  std::map<uint64_t, std::vector<NodeId>> live_;
  std::vector<sim::EngineEvent> events_;
};

// A prompt finds its longest cached prefix and stores all blocks behind it anew, those behind a
// hole a second time. Room is made by taking copies away at random.
class HoleyCache final : public EngineCache {
 public:
  explicit HoleyCache(uint64_t seed) : dice_(seed), capacity_blocks_(24 + dice_.Below(60)) {}

  void Submit(const std::vector<NodeId>& path, MonotonicTime now) override {
    waiting_.emplace_back(now + dice_.Between(milliseconds(1), milliseconds(30)), path);
  }
  MonotonicTime NextTime() const override {
    MonotonicTime next = MonotonicTime::max();
    for (const auto& [at, path] : waiting_) next = std::min(next, at);
    return next;
  }

  void Advance(MonotonicTime now, std::vector<CacheOp>* ops) override {
    std::vector<std::pair<MonotonicTime, std::vector<NodeId>>> due;
    std::erase_if(waiting_, [&](auto& waiting) {
      const bool is_due = waiting.first <= now;
      if (is_due) due.push_back(std::move(waiting));
      return is_due;
    });
    for (const auto& [at, path] : due) Run(path, ops);
  }
  bool Reset() override {
    copies_.clear();
    return true;
  }
  uint32_t HeldPrefix(const std::vector<NodeId>& path) const override {
    uint32_t held = 0;
    while (held < path.size() &&
           std::find(copies_.begin(), copies_.end(), path[held]) != copies_.end()) {
      ++held;
    }
    return held;
  }

 private:
  void Run(const std::vector<NodeId>& path, std::vector<CacheOp>* ops) {
    const uint32_t hit = HeldPrefix(path);
    // Sometimes only evicts: another group of the engine needed the room.
    const uint32_t end = dice_.Chance(0.1) ? hit : static_cast<uint32_t>(path.size());
    CacheOp removed{.kind = CacheOp::Kind::kRemoved, .nodes = {}};
    uint32_t to_evict = end == hit ? 1 + dice_.Below(4) : 0;
    if (copies_.size() + end - hit > capacity_blocks_)
      to_evict += static_cast<uint32_t>(copies_.size() + end - hit - capacity_blocks_);
    for (; to_evict > 0 && !copies_.empty(); --to_evict) {
      const size_t victim = dice_.Below(static_cast<uint32_t>(copies_.size()));
      // What the prompt stands on is in use.
      if (std::find(path.begin(), path.begin() + hit, copies_[victim]) != path.begin() + hit)
        continue;
      removed.nodes.push_back(copies_[victim]);
      copies_.erase(copies_.begin() + static_cast<int64_t>(victim));
    }
    if (!removed.nodes.empty()) ops->push_back(std::move(removed));
    if (end == hit) return;
    const std::vector<NodeId> stored(path.begin() + hit, path.begin() + end);
    copies_.insert(copies_.end(), stored.begin(), stored.end());
    ops->push_back({.kind = CacheOp::Kind::kStored, .nodes = stored});
  }

  Dice dice_;
  const size_t capacity_blocks_;
  std::vector<std::pair<MonotonicTime, std::vector<NodeId>>> waiting_;
  std::vector<NodeId> copies_;
};

}  // namespace

std::unique_ptr<EngineCache> MakeCache(CacheKind kind, uint64_t seed) {
  switch (kind) {
    case CacheKind::kFifo:
      return std::make_unique<ModelCache>(sim::EngineConfig::Service::kFifoPrefill, seed);
    case CacheKind::kContinuous:
      return std::make_unique<ModelCache>(sim::EngineConfig::Service::kContinuousBatching, seed);
    case CacheKind::kHoley:
      break;
  }
  return std::make_unique<HoleyCache>(seed);
}

}  // namespace kvrouter::truth
