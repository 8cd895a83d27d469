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

// Candidates as they were seen, and what they were scored with, in one piece of memory: first this
// object, then the candidates, then what is kept beside them.
class KeptCandidates : public CandidateSource {
 public:
  // All of the table, where they are.
  template <typename Kind, typename... Args>
  static CandidateList MakeInPlace(CandidateTable* table, Args&&... args) {
    static_assert(sizeof(Kind) <= SeenCandidates::kHeaderBytes);
    const size_t count = table->seen.size();
    const auto place = table->seen.Keep(BytesBeside(*table, count));
    if (place == nullptr) return {};
    auto* const kept = ::new (place.get()) Kind(std::forward<Args>(args)...);
    kept->Beside(*table, count, [](size_t i) { return i; });
    return ListOf(place, kept);
  }

  // Copies of those candidates of the table whose indexes number_of(0) .. number_of(count - 1)
  // names.
  template <typename Kind, typename NumberOf, typename... Args>
  static CandidateList Make(CandidateTable* table, size_t count, const NumberOf& number_of,
                            Args&&... args) {
    static_assert(sizeof(Kind) <= SeenCandidates::kHeaderBytes);
    const auto place = table->seen.TakeMemory(
        SeenCandidates::kHeaderBytes + count * sizeof(SeenCandidate) + BytesBeside(*table, count));
    auto* const seen = reinterpret_cast<SeenCandidate*>(place.get() + SeenCandidates::kHeaderBytes);
    for (size_t i = 0; i < count; ++i) ::new (seen + i) SeenCandidate(table->seen[number_of(i)]);
    auto* const kept = ::new (place.get()) Kind(std::forward<Args>(args)...);
    kept->Beside(*table, count, number_of);
    return ListOf(place, kept);
  }

  explicit KeptCandidates(const ScoreContext& context) : context_(context) {}

  std::span<const SeenCandidate> all() const { return {seen_, count_}; }

  size_t size() const override { return count_; }
  CandidateCost At(size_t i) const override {
    return ScoreSeen(seen_[i], context_, lower_ == nullptr ? LowerTierOverlap{} : lower_[i],
                     taint_multipliers_ == nullptr ? 1 : taint_multipliers_[i]);
  }
  uint64_t bytes() const override {
    const size_t lower_bytes = lower_ == nullptr ? 0 : sizeof(LowerTierOverlap);
    const size_t taint_bytes = taint_multipliers_ == nullptr ? 0 : sizeof(double);
    return sizeof(*this) + count_ * (sizeof(SeenCandidate) + lower_bytes + taint_bytes);
  }

 private:
  static size_t BytesBeside(const CandidateTable& table, size_t count) {
    return count * ((table.lower.empty() ? 0 : sizeof(LowerTierOverlap)) +
                    (table.taint_multipliers.empty() ? 0 : sizeof(double)));
  }

  // Finds the candidates behind this object, and puts behind them what belongs to them.
  template <typename NumberOf>
  void Beside(const CandidateTable& table, size_t count, const NumberOf& number_of) {
    static_assert(SeenCandidates::kHeaderBytes % alignof(SeenCandidate) == 0);
    static_assert(alignof(SeenCandidate) % alignof(double) == 0);
    static_assert(alignof(double) % alignof(LowerTierOverlap) == 0);
    static_assert(sizeof(LowerTierOverlap) + sizeof(double) <=
                  SeenCandidates::kMaxBytesBehind / kMaxDetailedCandidates);
    count_ = count;
    auto* const seen = reinterpret_cast<SeenCandidate*>(reinterpret_cast<std::byte*>(this) +
                                                        SeenCandidates::kHeaderBytes);
    seen_ = seen;
    auto* behind = reinterpret_cast<std::byte*>(seen + count);
    if (!table.taint_multipliers.empty()) {
      auto* const multipliers = reinterpret_cast<double*>(behind);
      taint_multipliers_ = multipliers;
      for (size_t i = 0; i < count; ++i)
        ::new (multipliers + i) double(table.taint_multipliers[number_of(i)]);
      behind += count * sizeof(double);
    }
    if (!table.lower.empty()) {  // last: its size is no multiple of the others' alignment
      auto* const lower = reinterpret_cast<LowerTierOverlap*>(behind);
      lower_ = lower;
      for (size_t i = 0; i < count; ++i)
        ::new (lower + i) LowerTierOverlap(table.lower[number_of(i)]);
    }
  }

  // The destructor is never called: there is nothing for it to do.
  static CandidateList ListOf(const std::shared_ptr<std::byte>& place,
                              const CandidateSource* kept) {
    return CandidateList(std::shared_ptr<const CandidateSource>(place, kept));
  }

  const ScoreContext context_;
  const SeenCandidate* seen_ = nullptr;        // behind this object
  const double* taint_multipliers_ = nullptr;  // behind those; null: all are 1
  const LowerTierOverlap* lower_ = nullptr;    // behind those; null: nobody has any
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
  KeptOne(const CandidateTable& table, size_t i)
      : seen_(table.seen[i]),
        lower_(table.LowerOf(i)),
        taint_multiplier_(table.TaintMultiplierOf(i)),
        context_(table.context) {}

  size_t size() const override { return 1; }
  CandidateCost At(size_t) const override {
    return ScoreSeen(seen_, context_, lower_, taint_multiplier_);
  }
  uint64_t bytes() const override { return sizeof(*this); }

 private:
  const SeenCandidate seen_;
  const LowerTierOverlap lower_;
  const double taint_multiplier_;
  const ScoreContext context_;
};

CandidateList All(CandidateTable* table) {
  CandidateList in_place = KeptCandidates::MakeInPlace<KeptCandidates>(table, table->context);
  if (!in_place.empty()) return in_place;
  return KeptCandidates::Make<KeptCandidates>(
      table, table->seen.size(), [](size_t i) { return i; }, table->context);
}

CandidateList Best(CandidateTable* table, size_t chosen, std::span<const uint32_t> best) {
  return KeptCandidates::Make<KeptBest>(
      table, best.size(), [best](size_t i) { return best[i]; }, table->context,
      table->seen[chosen].target());
}

// Not from the memory of records: in short-lived answers the allocator's own is used again at once.
CandidateList Only(const CandidateTable& table, size_t chosen) {
  return CandidateList(std::make_shared<const KeptOne>(table, chosen));
}

}  // namespace

void DescribeCandidates(CandidateTable* table, size_t chosen, DecisionDetail detail,
                        DetailBuffers* buffers, RouteDecision* decision) {
  const size_t count = table->seen.size();
  decision->candidate_count = static_cast<uint32_t>(count);
  if (detail == DecisionDetail::kWinner) {
    decision->candidates = Only(*table, chosen);
    buffers->other_costs = table->costs;
    buffers->other_costs[chosen] = buffers->other_costs.back();
    buffers->other_costs.pop_back();
    decision->omitted = Summarise(buffers->other_costs);
  } else if (count <= kMaxDetailedCandidates) {
    decision->candidates = All(table);
  } else {
    BestCandidates& split = buffers->split;
    split.Split(table->costs, kBestCandidates, static_cast<uint32_t>(chosen));
    decision->candidates = Best(table, chosen, split.best());
    decision->omitted = Summarise(split.other_costs());
  }
}

}  // namespace kvrouter
