#include "service/decision_ring.h"

#include <algorithm>
#include <utility>

#include "absl/container/inlined_vector.h"

namespace kvrouter {

uint64_t DecisionRing::BytesOf(const Entry& entry) {
  return sizeof(Entry) + sizeof(size_t) + sizeof(BookedRequest) + entry.request->request_id.size() +
         entry.request->decision.address.size() + entry.candidates.bytes() +
         entry.filtered_targets.capacity() * sizeof(FilteredTarget);
}

void DecisionRing::Record(std::shared_ptr<const BookedRequest> request, CandidateList candidates,
                          std::vector<FilteredTarget> filtered_targets) {
  if (bounds_.max_entries == 0) return;
  const size_t id_hash = request->id_hash;
  Entry entry{.request = std::move(request),
              .candidates = std::move(candidates),
              .filtered_targets = std::move(filtered_targets)};
  entry.bytes = BytesOf(entry);

  absl::InlinedVector<Entry, 2> gone;  // freed after the lock
  MutexLock lock(mu_);
  if (next_ - oldest_ == bounds_.max_entries) gone.push_back(PopOldest());
  bytes_ += entry.bytes;
  const size_t place = next_++ % bounds_.max_entries;
  if (place == entries_.size()) {
    entries_.push_back(std::move(entry));
    id_hashes_.push_back(id_hash);
  } else {
    entries_[place] = std::move(entry);
    id_hashes_[place] = id_hash;
  }
  while (bytes_ > bounds_.max_bytes) gone.push_back(PopOldest());
  FetchOldest();
}

// Whoever leaves next was last touched thousands of decisions ago: this way it is there by then.
void DecisionRing::FetchOldest() const {
  constexpr size_t kCacheLineBytes = 64;
  if (oldest_ == 0 || oldest_ == next_) return;  // nobody has left yet
  const BookedRequest* const request = entries_[oldest_ % bounds_.max_entries].request.get();
  const auto* const bytes = reinterpret_cast<const char*>(request);
  for (size_t i = 0; i < sizeof(BookedRequest); i += kCacheLineBytes) {
    __builtin_prefetch(bytes + i, /*rw=*/1);
  }
}

DecisionRing::Entry DecisionRing::PopOldest() {
  Entry oldest = std::move(entries_[oldest_++ % bounds_.max_entries]);
  bytes_ -= oldest.bytes;
  return oldest;
}

std::optional<RecordedDecision> DecisionRing::Find(std::string_view request_id) const {
  const size_t id_hash = HashOfId(request_id);
  uint64_t end = 0;
  for (bool first_stretch = true;; first_stretch = false) {
    MutexLock lock(mu_);
    if (first_stretch) end = next_;
    if (end <= oldest_) return std::nullopt;
    const uint64_t first = std::max(oldest_, end - std::min(end, kEntriesPerStretch));
    if (const Entry* entry = FindAmong(request_id, id_hash, first, end)) {
      RecordedDecision found{.decision = entry->request->decision,
                             .decided_at = entry->request->decided_at};
      found.decision.candidates = entry->candidates;
      found.decision.filtered_targets = entry->filtered_targets;
      return found;
    }
    end = first;
  }
}

const DecisionRing::Entry* DecisionRing::FindAmong(std::string_view request_id, size_t id_hash,
                                                   uint64_t first, uint64_t end) const {
  for (uint64_t n = end; n-- > first;) {
    const size_t place = n % bounds_.max_entries;
    if (id_hashes_[place] == id_hash && entries_[place].request->request_id == request_id) {
      return &entries_[place];
    }
  }
  return nullptr;
}

std::vector<std::shared_ptr<const BookedRequest>> DecisionRing::Newest(size_t count) const {
  std::vector<std::shared_ptr<const BookedRequest>> newest;
  MutexLock lock(mu_);
  for (uint64_t n = next_; n > oldest_ && newest.size() < count; --n) {
    newest.push_back(entries_[(n - 1) % bounds_.max_entries].request);
  }
  return newest;
}

DecisionRing::Figures DecisionRing::Read() const {
  MutexLock lock(mu_);
  return {.entries = next_ - oldest_, .bytes = bytes_, .evicted_total = oldest_};
}

}  // namespace kvrouter
