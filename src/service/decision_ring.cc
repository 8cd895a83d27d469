#include "service/decision_ring.h"

#include <utility>
#include <vector>

namespace kvrouter {
namespace {

template <typename T>
uint64_t BytesOf(const std::vector<T>& values) {
  return values.capacity() * sizeof(T);
}

}  // namespace

void DecisionRing::Record(std::string_view request_id, const RouteDecision& decision,
                          MonotonicTime now) {
  if (bounds_.max_entries == 0) return;
  auto entry = std::make_shared<Entry>();
  entry->request_id = std::string(request_id);
  entry->recorded = {.decision = decision, .decided_at = now};
  const RouteDecision& kept = entry->recorded.decision;
  entry->bytes = sizeof(Entry) + request_id.size() + kept.address.size() +
                 BytesOf(kept.candidates) + BytesOf(kept.filtered_targets);

  std::vector<EntryPtr> gone;  // freed after the lock
  MutexLock lock(mu_);
  bytes_ += entry->bytes;
  // Not assigned through the old key: that is a view into the entry it belonged to.
  if (const auto same_id = by_id_.find(entry->request_id); same_id != by_id_.end()) {
    by_id_.erase(same_id);
  }
  by_id_.emplace(entry->request_id, entry);
  entries_.push_back(std::move(entry));
  while (entries_.size() > bounds_.max_entries || bytes_ > bounds_.max_bytes) {
    gone.push_back(PopOldest());
    if (entries_.empty()) break;
  }
}

DecisionRing::EntryPtr DecisionRing::PopOldest() {
  EntryPtr oldest = std::move(entries_.front());
  entries_.pop_front();
  const auto it = by_id_.find(oldest->request_id);
  if (it != by_id_.end() && it->second == oldest) by_id_.erase(it);
  bytes_ -= oldest->bytes;
  ++evicted_total_;
  return oldest;
}

std::shared_ptr<const RecordedDecision> DecisionRing::Find(std::string_view request_id) const {
  MutexLock lock(mu_);
  const auto it = by_id_.find(request_id);
  if (it == by_id_.end()) return nullptr;
  return {it->second, &it->second->recorded};
}

DecisionRing::Figures DecisionRing::Read() const {
  MutexLock lock(mu_);
  return {.entries = entries_.size(), .bytes = bytes_, .evicted_total = evicted_total_};
}

}  // namespace kvrouter
