#include "core/index/holder_runs.h"

#include <algorithm>
#include <array>
#include <utility>
#include <vector>

#include "core/index/slab.h"

namespace kvrouter {
namespace {

uint32_t Pack(uint32_t slot, Naming naming) { return slot << 1 | (naming == Naming::kOwn ? 1 : 0); }

}  // namespace

std::span<const Run> HolderRuns::Of(uint32_t slot) const {
  const auto begin = std::partition_point(runs_.begin(), runs_.end(),
                                          [&](const Run& r) { return r.slot() < slot; });
  // Nearly always one run; a slot with many holes must not cost a step per hole.
  ptrdiff_t stride = 1;
  auto end = begin;
  while (runs_.end() - end > stride && end[stride].slot() == slot)
    end += std::exchange(stride, stride * 2);
  end = std::partition_point(end, end + std::min(stride, runs_.end() - end),
                             [&](const Run& r) { return r.slot() == slot; });
  return {begin, end};
}

Naming HolderRuns::At(std::span<const Run> runs_of_slot, uint32_t offset) {
  const auto run = std::partition_point(runs_of_slot.begin(), runs_of_slot.end(),
                                        [&](const Run& r) { return r.to <= offset; });
  return run != runs_of_slot.end() && run->from <= offset ? run->naming() : Naming::kNone;
}

void HolderRuns::Assign(uint32_t slot, uint32_t from, uint32_t to, Naming naming) {
  // [first, last) are the runs of this slot that overlap or touch [from, to].
  const auto first = std::partition_point(runs_.begin(), runs_.end(), [&](const Run& r) {
    return r.slot() < slot || (r.slot() == slot && r.to < from);
  });
  auto last = first;
  while (last != runs_.end() && last->slot() == slot && last->from <= to) ++last;

  std::array<Run, 3> fresh;
  size_t count = 0;
  const auto add = [&](Run run) {
    if (count > 0 && fresh[count - 1].to == run.from &&
        fresh[count - 1].slot_and_own == run.slot_and_own) {
      fresh[count - 1].to = run.to;
    } else {
      fresh[count++] = run;
    }
  };
  if (first != last && first->from < from)
    add({first->slot_and_own, first->from, std::min(first->to, from)});
  if (naming != Naming::kNone) add({Pack(slot, naming), from, to});
  if (first != last && (last - 1)->to > to) {
    add({(last - 1)->slot_and_own, std::max((last - 1)->from, to), (last - 1)->to});
  }

  Replace(first, last, std::span(fresh).first(count));
}

void HolderRuns::Remove(uint32_t slot, std::span<const uint32_t> offsets) {
  // [first, last) are the runs of this slot from the first to the last offset.
  const auto first = std::partition_point(runs_.begin(), runs_.end(), [&](const Run& r) {
    return r.slot() < slot || (r.slot() == slot && r.to <= offsets.front());
  });
  const auto last = std::partition_point(first, runs_.end(), [&](const Run& r) {
    return r.slot() == slot && r.from <= offsets.back();
  });
  std::vector<Run> kept;
  kept.reserve(static_cast<size_t>(last - first) + offsets.size());
  auto offset = offsets.begin();
  for (auto run = first; run != last; ++run) {
    uint32_t from = run->from;
    for (; offset != offsets.end() && *offset < run->to; ++offset) {
      if (*offset < from) continue;  // was not held
      if (from < *offset) kept.push_back({run->slot_and_own, from, *offset});
      from = *offset + 1;
    }
    if (from < run->to) kept.push_back({run->slot_and_own, from, run->to});
  }
  Replace(first, last, kept);
}

void HolderRuns::Replace(Run* first, Run* last, std::span<const Run> fresh) {
  const size_t replaced = static_cast<size_t>(last - first);
  const size_t common = std::min(replaced, fresh.size());
  const auto rest = std::copy_n(fresh.begin(), common, first);
  if (fresh.size() > common) {
    runs_.insert(rest, fresh.begin() + static_cast<ptrdiff_t>(common), fresh.end());
  } else if (replaced > common) {
    runs_.erase(rest, last);
    if (runs_.capacity() > 8 && runs_.size() * 4 < runs_.capacity()) runs_.shrink_to_fit();
  }
}

HolderRuns HolderRuns::SplitOff(uint32_t at) {
  HolderRuns lower;
  for (const Run& run : runs_) {
    if (run.to > at)
      lower.runs_.push_back({run.slot_and_own, std::max(run.from, at) - at, run.to - at});
  }
  runs_.erase(
      std::remove_if(runs_.begin(), runs_.end(), [&](const Run& run) { return run.from >= at; }),
      runs_.end());
  for (Run& run : runs_) run.to = std::min(run.to, at);
  runs_.shrink_to_fit();
  lower.runs_.shrink_to_fit();
  return lower;
}

void HolderRuns::Append(const HolderRuns& continuation, uint32_t length) {
  absl::InlinedVector<Run, 1> joined;
  joined.reserve(std::max(runs_.size(), continuation.runs_.size()));
  auto lower = continuation.runs_.begin();
  const auto take_lower = [&] {
    const Run run{lower->slot_and_own, lower->from + length, lower->to + length};
    if (!joined.empty() && joined.back().slot_and_own == run.slot_and_own &&
        joined.back().to == run.from) {
      joined.back().to = run.to;
    } else {
      joined.push_back(run);
    }
    ++lower;
  };
  for (const Run& run : runs_) {
    while (lower != continuation.runs_.end() && lower->slot() < run.slot()) take_lower();
    joined.push_back(run);
  }
  while (lower != continuation.runs_.end()) take_lower();
  joined.shrink_to_fit();
  runs_ = std::move(joined);
}

uint32_t HolderRuns::HeldEnd(uint32_t bound) const {
  uint32_t end = 0;
  for (const Run& run : runs_) {
    end = std::max(end, run.to);
    if (end >= bound) break;
  }
  return end;
}

size_t HolderRuns::bytes() const {
  return runs_.capacity() > 1 ? HeapBytes(runs_.capacity() * sizeof(Run)) : 0;
}

}  // namespace kvrouter
