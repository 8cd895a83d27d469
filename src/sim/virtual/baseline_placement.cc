#include <random>
#include <vector>

#include "base/check.h"
#include "sim/virtual/placement.h"

namespace kvrouter::sim {
namespace {

// What the policies without a router share: they predict by looking into the chosen engine.
class BaselinePlacement : public Placement {
 public:
  explicit BaselinePlacement(const PlacementInputs& inputs) : inputs_(inputs) {}

  absl::StatusOr<Placed> Place(size_t row_index, MonotonicTime /*now*/) final {
    const uint32_t worker = Choose();
    const auto hashes = TraceBlocks::EngineHashes(worker, inputs_.trace.rows[row_index]);
    const Placed placed{.worker = worker,
                        .overlap_blocks = inputs_.fleet.engine(worker).CachedPrefixBlocks(hashes)};
    Note(row_index, placed);
    return placed;
  }

  void See(uint32_t /*worker*/, const EngineEvent& /*event*/) override {}

 protected:
  virtual uint32_t Choose() = 0;
  virtual void Note(size_t /*row_index*/, const Placed& /*placed*/) {}
  const PlacementInputs& inputs() const { return inputs_; }

 private:
  const PlacementInputs inputs_;
};

class RoundRobinPlacement final : public BaselinePlacement {
 public:
  using BaselinePlacement::BaselinePlacement;

 private:
  uint32_t Choose() override { return static_cast<uint32_t>(next_++ % inputs().fleet.size()); }

  uint64_t next_ = 0;
};

class RandomPlacement final : public BaselinePlacement {
 public:
  RandomPlacement(const PlacementInputs& inputs, uint64_t seed)
      : BaselinePlacement(inputs), random_(seed) {}

 private:
  uint32_t Choose() override { return static_cast<uint32_t>(random_() % inputs().fleet.size()); }

  std::mt19937_64 random_;
};

class LeastLoadedPlacement final : public BaselinePlacement {
 public:
  LeastLoadedPlacement(const PlacementInputs& inputs, uint64_t seed)
      : BaselinePlacement(inputs),
        random_(seed),
        outstanding_tokens_(inputs.fleet.size()),
        expected_tokens_(inputs.trace.rows.size()) {}

  void See(uint32_t worker, const EngineEvent& event) override {
    if (const auto* first = std::get_if<FirstToken>(&event.what)) {
      outstanding_tokens_[worker] -= expected_tokens_[first->id];
    }
  }

 private:
  uint32_t Choose() override {
    std::vector<uint32_t> least;
    double least_load_blocks = 0;
    for (uint32_t worker = 0; worker < inputs().fleet.size(); ++worker) {
      const double prefill_blocks = static_cast<double>(outstanding_tokens_[worker]) /
                                    static_cast<double>(inputs().trace.block_size_tokens);
      const double load_blocks =
          prefill_blocks +
          static_cast<double>(inputs().fleet.engine(worker).Gauges().active_blocks);
      if (least.empty() || load_blocks < least_load_blocks) {
        least = {worker};
        least_load_blocks = load_blocks;
      } else if (load_blocks == least_load_blocks) {
        least.push_back(worker);
      }
    }
    return least.size() == 1 ? least.front() : least[random_() % least.size()];
  }

  void Note(size_t row_index, const Placed& placed) override {
    const uint64_t cached_tokens = placed.overlap_blocks * inputs().trace.block_size_tokens;
    expected_tokens_[row_index] = inputs().trace.rows[row_index].isl_tokens - cached_tokens;
    outstanding_tokens_[placed.worker] += expected_tokens_[row_index];
  }

  std::mt19937_64 random_;
  std::vector<uint64_t> outstanding_tokens_;  // by worker: placed, prefill not ended
  std::vector<uint64_t> expected_tokens_;     // by row: uncached when it was placed
};

}  // namespace

std::string_view PolicyName(Policy policy) {
  switch (policy) {
    case Policy::kKv:
      return "kv";
    case Policy::kRoundRobin:
      return "round_robin";
    case Policy::kRandom:
      return "random";
    case Policy::kLeastLoaded:
      return "least_loaded";
  }
  KVR_CHECK(false, "policy={}", static_cast<int>(policy));
}

std::unique_ptr<Placement> MakeRoundRobinPlacement(const PlacementInputs& inputs) {
  return std::make_unique<RoundRobinPlacement>(inputs);
}

std::unique_ptr<Placement> MakeRandomPlacement(const PlacementInputs& inputs, uint64_t seed) {
  return std::make_unique<RandomPlacement>(inputs, seed);
}

std::unique_ptr<Placement> MakeLeastLoadedPlacement(const PlacementInputs& inputs, uint64_t seed) {
  return std::make_unique<LeastLoadedPlacement>(inputs, seed);
}

}  // namespace kvrouter::sim
