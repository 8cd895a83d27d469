#ifndef KVROUTER_CORE_SCHEDULE_SEEN_CANDIDATES_H_
#define KVROUTER_CORE_SCHEDULE_SEEN_CANDIDATES_H_

#include <algorithm>
#include <cstddef>
#include <memory>
#include <vector>

#include "core/schedule/record_memory.h"
#include "core/schedule/scorer.h"
#include "kvrouter/decision.h"

namespace kvrouter {

// The candidates of one decision. Those that an explanation is going to keep are written where they
// will stay: copying them there would mean waiting for memory that was last touched thousands of
// decisions ago, while writing them as they are found hides that wait.
//
// Thread-compatible. What was kept may be read by any thread; it is not written again.
class SeenCandidates {
 public:
  // Room in front of those that are kept and behind them, for what else there is to keep.
  static constexpr size_t kHeaderBytes = 256;
  static constexpr size_t kMaxBytesBehind = 32 * kMaxDetailedCandidates;

  // Empties it. Until something is kept, they are written where they can be kept, while they are at
  // most kMaxDetailedCandidates. To be called early: the memory is fetched meanwhile.
  void ExpectToKeep() {
    place_ = memory_.NextPlace(kHeaderBytes + kMaxDetailedCandidates * sizeof(SeenCandidate) +
                               kMaxBytesBehind);
    // For as many as there were the last time, as far as they can be kept.
    const size_t expected = std::min(size_, kMaxDetailedCandidates);
    for (size_t i = 0; i < kHeaderBytes + expected * sizeof(SeenCandidate); i += kCacheLineBytes) {
      __builtin_prefetch(place_ + i, /*rw=*/1);
    }
    Begin(0);
  }

  // Room for this many, of undefined content; Truncate says how many there are.
  void Begin(size_t count) {
    in_place_ = place_ != nullptr && count <= kMaxDetailedCandidates;
    if (!in_place_ && own_.size() < count) own_.resize(count);
    data_ = in_place_ ? reinterpret_cast<SeenCandidate*>(place_ + kHeaderBytes) : own_.data();
    size_ = count;
  }
  void Truncate(size_t count) { size_ = count; }

  // The memory of kHeaderBytes, the candidates and `bytes_behind` (at most kMaxBytesBehind); null
  // if they are not where they could be kept. They can still be read here until the next Begin.
  std::shared_ptr<std::byte> Keep(size_t bytes_behind) {
    if (!in_place_) return nullptr;
    return TakeMemory(kHeaderBytes + size_ * sizeof(SeenCandidate) + bytes_behind);
  }

  // For whoever keeps copies of some.
  std::shared_ptr<std::byte> TakeMemory(size_t bytes) {
    place_ = nullptr;
    in_place_ = false;
    return memory_.Take(bytes);
  }

  const SeenCandidate* data() const { return data_; }
  SeenCandidate* data() { return data_; }
  size_t size() const { return size_; }
  bool empty() const { return size_ == 0; }
  const SeenCandidate& operator[](size_t i) const { return data_[i]; }
  SeenCandidate& operator[](size_t i) { return data_[i]; }
  SeenCandidate* begin() { return data_; }
  SeenCandidate* end() { return data_ + size_; }
  const SeenCandidate* begin() const { return data_; }
  const SeenCandidate* end() const { return data_ + size_; }

 private:
  static constexpr size_t kCacheLineBytes = 64;

  RecordMemory memory_;
  std::vector<SeenCandidate> own_;
  std::byte* place_ = nullptr;  // where the next ones can be kept
  bool in_place_ = false;       // these are there
  SeenCandidate* data_ = nullptr;
  size_t size_ = 0;
};

}  // namespace kvrouter

#endif  // KVROUTER_CORE_SCHEDULE_SEEN_CANDIDATES_H_
