#ifndef KVROUTER_SIM_WIRE_KV_PINS_H_
#define KVROUTER_SIM_WIRE_KV_PINS_H_

#include <cstdint>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "kvrouter/types.h"

namespace kvrouter::sim {

struct KvPinTotals {
  uint64_t added = 0;
  uint64_t fetched = 0;  // released because their KV had been fetched, or was no longer wanted
  uint64_t expired = 0;  // released by the end of the lease: a producer's work for nobody
};

// What an engine keeps pinned for others, each until it is fetched or its lease ends. Leases bound
// their number. Thread-compatible.
class KvPins {
 public:
  struct Pin {
    uint64_t model_id = 0;  // of the finished request that holds the blocks
    uint64_t blocks = 0;
    MonotonicTime expires_at{};
  };

  void Add(std::string request_id, Pin pin);
  // Whether it is held; then its lease ends at `expires_at`, if that is later.
  bool Extend(const std::string& request_id, MonotonicTime expires_at);
  // Forgets a fetched one; nothing if it is not held.
  std::optional<Pin> TakeFetched(const std::string& request_id);
  std::vector<Pin> TakeExpired(MonotonicTime now);
  MonotonicTime NextExpiry() const;  // max(): none held

  uint64_t size() const { return pins_.size(); }
  uint64_t blocks() const { return blocks_; }
  const KvPinTotals& totals() const { return totals_; }

 private:
  std::unordered_map<std::string, Pin> pins_;  // by request id
  uint64_t blocks_ = 0;
  KvPinTotals totals_;
};

}  // namespace kvrouter::sim

#endif  // KVROUTER_SIM_WIRE_KV_PINS_H_
