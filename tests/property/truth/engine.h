#ifndef KVROUTER_TESTS_PROPERTY_TRUTH_ENGINE_H_
#define KVROUTER_TESTS_PROPERTY_TRUTH_ENGINE_H_

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "property/truth/engine_cache.h"
#include "property/truth/timeline.h"
#include "property/truth/wire.h"

namespace kvrouter::truth {

// A place in what an engine has said since it was first started. A new publisher begins a new life.
struct Said {
  uint64_t life = 0;
  uint64_t sequence = 0;

  friend auto operator<=>(const Said&, const Said&) = default;
};

struct Batch {
  Said said;
  std::string payload;
  std::vector<CacheOp> ops;
};

struct EngineConfig {
  CacheKind cache = CacheKind::kFifo;
  bool host_tier = false;
  Dialect dialect;
  uint32_t dp_rank = 0;
  size_t history_batches = 10'000;  // kept for replay
};

// One engine rank: a cache, and a publisher that numbers what happens to it and keeps some of it.
class Engine {
 public:
  using OnBatch = std::function<void(const Batch&)>;

  // `tree` and `timeline` must outlive it.
  Engine(const EngineConfig& config, const PromptTree* tree, Timeline* timeline, uint64_t seed)
      : config_(config), tree_(*tree), timeline_(*timeline), dice_(seed), seed_(seed) {
    Start();
  }

  // Called for every batch, as the publisher's socket.
  void SetSink(OnBatch sink) { sink_ = std::move(sink); }

  void Submit(const std::vector<NodeId>& path);
  // Runs what is due; false: nothing will be before the next Submit.
  std::optional<MonotonicTime> Advance();

  // The process dies; Start begins with an empty cache.
  void Stop();
  void Start();
  // The sequence begins anew and the kept batches are gone, the cache stays.
  void RestartPublisher();
  void ResetCache();
  void StepClock(double seconds) { clock_offset_s_ += seconds; }

  bool IsRunning() const { return cache_ != nullptr; }
  uint32_t HeldPrefix(const std::vector<NodeId>& path) const { return cache_->HeldPrefix(path); }
  bool HoldsOnHost(NodeId node) const { return cache_->HoldsOnHost(node); }
  const std::deque<Batch>& History() const { return history_; }
  const EngineConfig& config() const { return config_; }
  uint64_t publisher_life() const { return publisher_life_; }
  // What the next batch will be.
  Said Next() const { return {publisher_life_, next_sequence_}; }
  // Its publisher has not told all that the cache holds.
  bool HoldsUntold() const { return holds_untold_; }
  bool HistoryIsWhole() const { return history_.empty() || history_.front().said.sequence == 0; }

  // When and with which batch the engine last lost its last copy of the block on that tier; nothing
  // if it never had one since the first start.
  struct Loss {
    MonotonicTime at{};
    Said said;
  };
  std::optional<Loss> LastLoss(StorageTier tier, NodeId node) const;

 private:
  struct Holding {
    int64_t copies = 0;
    std::optional<Loss> last_loss;
  };

  void Publish(std::vector<CacheOp> ops);
  void Account(const std::vector<CacheOp>& ops, Said said);
  void LoseAll(Said said);
  void NewPublisher();

  const EngineConfig config_;
  const PromptTree& tree_;
  Timeline& timeline_;
  Dice dice_;
  const uint64_t seed_;
  OnBatch sink_;
  std::unique_ptr<EngineCache> cache_;
  uint64_t lives_ = 0;
  uint64_t publisher_life_ = 0;
  uint64_t next_sequence_ = 0;
  std::deque<Batch> history_;
  double clock_offset_s_ = 1.7e9;
  bool holds_untold_ = false;
  std::map<std::pair<StorageTier, NodeId>, Holding> holdings_;
};

}  // namespace kvrouter::truth

#endif  // KVROUTER_TESTS_PROPERTY_TRUTH_ENGINE_H_
