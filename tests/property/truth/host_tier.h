#ifndef KVROUTER_TESTS_PROPERTY_TRUTH_HOST_TIER_H_
#define KVROUTER_TESTS_PROPERTY_TRUTH_HOST_TIER_H_

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <utility>
#include <vector>

#include "property/truth/dice.h"
#include "property/truth/engine_cache.h"

namespace kvrouter::truth {

// Host memory behind the device: most of what the device loses for good is copied there before it
// goes, and makes room for it at random. What the device stores again may leave the host or stay.
class HostTier final : public EngineCache {
 public:
  HostTier(std::unique_ptr<EngineCache> device, uint64_t seed)
      : device_(std::move(device)), dice_(seed), capacity_blocks_(8 + dice_.Below(60)) {}

  void Submit(const std::vector<NodeId>& path, MonotonicTime now) override {
    device_->Submit(path, now);
  }
  MonotonicTime NextTime() const override { return device_->NextTime(); }
  void Advance(MonotonicTime now, std::vector<CacheOp>* ops) override;
  bool Reset() override;
  uint32_t HeldPrefix(const std::vector<NodeId>& path) const override {
    return device_->HeldPrefix(path);
  }
  bool HoldsOnHost(NodeId node) const override;

 private:
  void Take(CacheOp op, std::vector<CacheOp>* ops);
  void Drop(std::vector<NodeId> nodes, std::vector<CacheOp>* ops);
  void MakeRoom(std::vector<CacheOp>* ops);

  std::unique_ptr<EngineCache> device_;
  Dice dice_;
  const size_t capacity_blocks_;
  std::map<NodeId, uint32_t> device_copies_;
  std::vector<NodeId> host_;
  std::vector<CacheOp> device_ops_;
};

}  // namespace kvrouter::truth

#endif  // KVROUTER_TESTS_PROPERTY_TRUTH_HOST_TIER_H_
