#ifndef KVROUTER_TESTS_PROPERTY_TRUTH_ENGINE_CACHE_H_
#define KVROUTER_TESTS_PROPERTY_TRUTH_ENGINE_CACHE_H_

#include <cstdint>
#include <memory>
#include <vector>

#include "kvrouter/types.h"
#include "property/truth/dice.h"
#include "property/truth/prompt_tree.h"

namespace kvrouter::truth {

// What an engine did with its blocks. Stored nodes follow each other on one path.
struct CacheOp {
  enum class Kind : uint8_t { kStored, kRemoved, kCleared };
  Kind kind = Kind::kCleared;
  std::vector<NodeId> nodes;
  StorageTier tier = StorageTier::kDevice;  // cleared: all of them
};

// The prefix cache of one engine life: the truth that a router has to match.
class EngineCache {
 public:
  virtual ~EngineCache() = default;
  // REQUIRES: Advance(now) was called.
  virtual void Submit(const std::vector<NodeId>& path, MonotonicTime now) = 0;
  virtual MonotonicTime NextTime() const = 0;
  virtual void Advance(MonotonicTime now, std::vector<CacheOp>* ops) = 0;
  // False: not now.
  virtual bool Reset() = 0;
  // On the device, from the start without a hole.
  virtual uint32_t HeldPrefix(const std::vector<NodeId>& path) const = 0;
  virtual bool HoldsOnHost(NodeId) const { return false; }
};

enum class CacheKind : uint8_t {
  kFifo,        // sim::EngineModel, FIFO prefill
  kContinuous,  // sim::EngineModel, continuous batching: physical duplicates
  kHoley,       // evicts at random, so that holes and duplicates are the rule
};

std::unique_ptr<EngineCache> MakeCache(CacheKind kind, uint64_t seed);

}  // namespace kvrouter::truth

#endif  // KVROUTER_TESTS_PROPERTY_TRUTH_ENGINE_CACHE_H_
