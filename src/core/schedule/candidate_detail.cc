#include "core/schedule/candidate_detail.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <memory>
#include <new>
#include <numeric>
#include <span>
#include <utility>

#include "base/mutex.h"

namespace kvrouter {
namespace {

// Candidates as they were seen, and what they were scored with, in one piece of memory.
class KeptCandidates : public CandidateSource {
 public:
  // Write(SeenCandidate* memory) puts `count` candidates into it.
  template <typename Kind, typename Write, typename... Args>
  static CandidateList Make(RecordMemory* memory, size_t count, const Write& write,
                            Args&&... args) {
    static_assert(sizeof(Kind) % alignof(SeenCandidate) == 0);
    const auto place = memory->Take(sizeof(Kind) + count * sizeof(SeenCandidate));
    auto* const kept = ::new (place.get()) Kind(std::forward<Args>(args)...);
    kept->seen_ = reinterpret_cast<SeenCandidate*>(place.get() + sizeof(Kind));
    kept->count_ = count;
    write(kept->seen_);
    // The destructor is never called: there is nothing for it to do.
    return CandidateList(std::shared_ptr<const CandidateSource>(place, kept));
  }

  explicit KeptCandidates(const ScoreContext& context) : context_(context) {}

  std::span<const SeenCandidate> all() const { return {seen_, count_}; }

  size_t size() const override { return count_; }
  CandidateCost At(size_t i) const override { return ScoreSeen(seen_[i], context_); }
  uint64_t bytes() const override { return sizeof(*this) + count_ * sizeof(SeenCandidate); }

 private:
  const ScoreContext context_;
  SeenCandidate* seen_ = nullptr;  // behind this object
  size_t count_ = 0;
};

// The same in ascending cost, put in order by the first who reads.
class KeptBest final : public KeptCandidates {
 public:
  KeptBest(const ScoreContext& context, Target chosen) : KeptCandidates(context), chosen_(chosen) {}

  CandidateCost At(size_t i) const override { return KeptCandidates::At(PlaceOf(i)); }

 private:
  size_t PlaceOf(size_t i) const {
    MutexLock lock(mu_);
    if (!in_order_) {
      Sort();
      in_order_ = true;
    }
    return order_[i];
  }

  void Sort() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_) {
    std::array<double, kBestCandidates> costs;
    for (size_t i = 0; i < size(); ++i) costs[i] = KeptCandidates::At(i).cost_blocks;
    std::iota(order_.begin(), order_.end(), uint8_t{0});
    std::sort(order_.begin(), order_.begin() + size(), [&](uint8_t a, uint8_t b) {
      if (costs[a] != costs[b]) return costs[a] < costs[b];
      const Target of_a = all()[a].target();
      const Target of_b = all()[b].target();
      if ((of_a == chosen_) != (of_b == chosen_)) return of_a == chosen_;
      return of_a < of_b;
    });
  }

  const Target chosen_;
  mutable Mutex mu_;
  mutable bool in_order_ ABSL_GUARDED_BY(mu_) = false;
  mutable std::array<uint8_t, kBestCandidates> order_ ABSL_GUARDED_BY(mu_);
};

class KeptOne final : public CandidateSource {
 public:
  KeptOne(const SeenCandidate& seen, const ScoreContext& context)
      : seen_(seen), context_(context) {}

  size_t size() const override { return 1; }
  CandidateCost At(size_t) const override { return ScoreSeen(seen_, context_); }
  uint64_t bytes() const override { return sizeof(*this); }

 private:
  const SeenCandidate seen_;
  const ScoreContext context_;
};

CandidateList All(const CandidateTable& table, RecordMemory* memory) {
  return KeptCandidates::Make<KeptCandidates>(
      memory, table.seen.size(),
      [&](SeenCandidate* out) {
        std::uninitialized_copy(table.seen.begin(), table.seen.end(), out);
      },
      table.context);
}

CandidateList Best(const CandidateTable& table, size_t chosen, std::span<const uint32_t> best,
                   RecordMemory* memory) {
  return KeptCandidates::Make<KeptBest>(
      memory, best.size(),
      [&](SeenCandidate* out) {
        for (const uint32_t i : best) ::new (out++) SeenCandidate(table.seen[i]);
      },
      table.context, table.seen[chosen].target());
}

// Not from the memory of records: in short-lived answers the allocator's own is used again at once.
CandidateList Only(const CandidateTable& table, size_t chosen) {
  return CandidateList(std::make_shared<const KeptOne>(table.seen[chosen], table.context));
}

}  // namespace

void DescribeCandidates(const CandidateTable& table, size_t chosen, DecisionDetail detail,
                        DetailBuffers* buffers, RouteDecision* decision) {
  const size_t count = table.seen.size();
  decision->candidate_count = static_cast<uint32_t>(count);
  if (detail == DecisionDetail::kWinner) {
    decision->candidates = Only(table, chosen);
    buffers->other_costs = table.costs;
    buffers->other_costs[chosen] = buffers->other_costs.back();
    buffers->other_costs.pop_back();
    decision->omitted = Summarise(buffers->other_costs);
  } else if (count <= kMaxDetailedCandidates) {
    decision->candidates = All(table, &buffers->memory);
  } else {
    BestCandidates& split = buffers->split;
    split.Split(table.costs, kBestCandidates, static_cast<uint32_t>(chosen));
    decision->candidates = Best(table, chosen, split.best(), &buffers->memory);
    decision->omitted = Summarise(split.other_costs());
  }
}

}  // namespace kvrouter
