#include "sim/wire/kv_pins.h"

#include <algorithm>
#include <utility>

namespace kvrouter::sim {

void KvPins::Add(std::string request_id, Pin pin) {
  blocks_ += pin.blocks;
  ++totals_.added;
  pins_.emplace(std::move(request_id), pin);
}

bool KvPins::Extend(const std::string& request_id, MonotonicTime expires_at) {
  const auto pin = pins_.find(request_id);
  if (pin == pins_.end()) return false;
  pin->second.expires_at = std::max(pin->second.expires_at, expires_at);
  return true;
}

std::optional<KvPins::Pin> KvPins::TakeFetched(const std::string& request_id) {
  const auto found = pins_.find(request_id);
  if (found == pins_.end()) return std::nullopt;
  const Pin pin = found->second;
  pins_.erase(found);
  blocks_ -= pin.blocks;
  ++totals_.fetched;
  return pin;
}

std::vector<KvPins::Pin> KvPins::TakeExpired(MonotonicTime now) {
  std::vector<Pin> expired;
  for (auto pin = pins_.begin(); pin != pins_.end();) {
    if (pin->second.expires_at > now) {
      ++pin;
      continue;
    }
    expired.push_back(pin->second);
    blocks_ -= pin->second.blocks;
    ++totals_.expired;
    pin = pins_.erase(pin);
  }
  return expired;
}

MonotonicTime KvPins::NextExpiry() const {
  MonotonicTime next = MonotonicTime::max();
  for (const auto& [request_id, pin] : pins_) next = std::min(next, pin.expires_at);
  return next;
}

}  // namespace kvrouter::sim
