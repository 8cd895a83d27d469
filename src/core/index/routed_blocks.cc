#include "core/index/routed_blocks.h"

#include <algorithm>
#include <tuple>
#include <utility>

#include "absl/hash/hash.h"
#include "kvrouter/events.h"

namespace kvrouter {
namespace {

constexpr int64_t kStepNs = std::chrono::nanoseconds(RoutedBlocks::kStep).count();

// Scratch of a very long prompt does not stay.
constexpr size_t kMaxKeptScratch = 65'536;

uint64_t KeyOf(uint32_t target, uint64_t name) { return absl::HashOf(target, name); }

template <typename T>
void Recycle(std::vector<T>* scratch) {
  scratch->clear();
  if (scratch->capacity() > kMaxKeptScratch) std::vector<T>().swap(*scratch);
}

}  // namespace

RoutedBlocks::RoutedBlocks(const RoutedBlocksConfig& config, BlockIndex* index)
    : config_(config), index_(index) {}

void RoutedBlocks::Record(Target target, std::span<const LocalBlockHash> local_hashes,
                          std::span<const SequenceHash> sequence_hashes, MonotonicTime now) {
  if (sequence_hashes.empty()) return;
  MutexLock lock(mu_);
  const size_t blocks = std::min<uint64_t>(sequence_hashes.size(), config_.max_blocks);
  figures_.forgotten_total += sequence_hashes.size() - blocks;
  const int64_t end_ns = (now + config_.ttl).count();
  const Step step = end_ns / kStepNs + (end_ns % kStepNs > 0 ? 1 : 0);

  const uint32_t number = NumberOf(target);
  for (size_t i = 0; i < blocks; ++i) {
    const uint32_t id = Find(number, static_cast<uint64_t>(sequence_hashes[i]));
    if (id == kNoId) {
      new_positions_.push_back(i);
      continue;
    }
    ++figures_.refreshed_total;
    // Threads may come with their times in another order: the later end counts.
    if (entries_[id].step >= step) continue;
    UnlinkStep(id);
    LinkStep(id, step);
  }
  if (!new_positions_.empty()) {
    const size_t first = new_positions_.front();
    Stored stored;
    if (first > 0) stored.parent = EngineHash{static_cast<uint64_t>(sequence_hashes[first - 1])};
    stored.blocks.reserve(blocks - first);
    for (size_t i = first; i < blocks; ++i) {
      stored.blocks.push_back(
          {EngineHash{static_cast<uint64_t>(sequence_hashes[i])}, local_hashes[i]});
    }
    const ApplyResult result = index_->Apply(
        {.target = target, .counting = StoreCounting::kSet, .data = std::move(stored)});
    if (result.status == ApplyStatus::kOk) {
      for (const size_t i : new_positions_)
        Insert(number, static_cast<uint64_t>(sequence_hashes[i]), i, step);
      figures_.stored_total += new_positions_.size();
    } else {
      figures_.refused_total += new_positions_.size();
    }
  }
  Recycle(&new_positions_);
  TrimToBound();
  NoteNextDue();
}

bool RoutedBlocks::ExpireSome(MonotonicTime now) {
  if (!IsDue(now)) return false;
  MutexLock lock(mu_);
  const Step current = now.count() / kStepNs;
  for (auto step = steps_.begin(); step != steps_.end() && step->first <= current; ++step) {
    for (uint32_t id = step->second; id != kNoId && victims_.size() < kExpiredAtOnce;
         id = entries_[id].step_next) {
      victims_.push_back(id);
    }
  }
  figures_.expired_total += victims_.size();
  Drop(&victims_);
  NoteNextDue();
  return IsDue(now);
}

void RoutedBlocks::RemoveTarget(Target target) {
  uint32_t number = kNoId;
  {
    MutexLock lock(mu_);
    const auto it = target_numbers_.find(target);
    if (it != target_numbers_.end()) {
      number = it->second;
      target_numbers_.erase(it);
    }
  }
  for (bool more = number != kNoId; more;) {
    MutexLock lock(mu_);
    for (size_t i = 0; i < kExpiredAtOnce && targets_[number].first != kNoId; ++i)
      Erase(targets_[number].first);
    more = targets_[number].first != kNoId;
    if (!more) free_targets_.push_back(number);
    NoteNextDue();
  }
  index_->RemoveTarget(target);
}

RoutedBlocksFigures RoutedBlocks::Read() const {
  constexpr size_t kMapNodeBytes = 48;
  MutexLock lock(mu_);
  RoutedBlocksFigures figures = figures_;
  figures.blocks = entries_.size();
  figures.bytes = entries_.bytes() + by_name_.bytes() + steps_.size() * kMapNodeBytes +
                  targets_.capacity() * sizeof(TargetEntries);
  return figures;
}

uint32_t RoutedBlocks::NumberOf(Target target) {
  const auto [it, added] = target_numbers_.try_emplace(target, 0);
  if (!added) return it->second;
  if (free_targets_.empty()) {
    it->second = static_cast<uint32_t>(targets_.size());
    targets_.emplace_back();
  } else {
    it->second = free_targets_.back();
    free_targets_.pop_back();
  }
  targets_[it->second] = {.target = target};
  return it->second;
}

uint32_t RoutedBlocks::Find(uint32_t target, uint64_t name) const {
  return by_name_.Find(KeyOf(target, name), [&](uint32_t id) ABSL_NO_THREAD_SAFETY_ANALYSIS {
    return entries_[id].name == name && entries_[id].target == target;
  });
}

void RoutedBlocks::Insert(uint32_t target, uint64_t name, size_t position, Step step) {
  const uint32_t id = entries_.Allocate();
  Entry& entry = entries_[id];
  entry.name = name;
  entry.target = target;
  entry.position = static_cast<uint32_t>(position);
  uint32_t& first = targets_[target].first;
  entry.target_next = first;
  if (first != kNoId) entries_[first].target_prev = id;
  first = id;
  LinkStep(id, step);
  by_name_.Insert(KeyOf(target, name), id);
}

void RoutedBlocks::LinkStep(uint32_t id, Step step) {
  Entry& entry = entries_[id];
  entry.step = step;
  entry.step_prev = kNoId;
  const auto [it, added] = steps_.try_emplace(step, kNoId);
  entry.step_next = it->second;
  if (!added) entries_[it->second].step_prev = id;
  it->second = id;
}

void RoutedBlocks::UnlinkStep(uint32_t id) {
  const Entry& entry = entries_[id];
  if (entry.step_next != kNoId) entries_[entry.step_next].step_prev = entry.step_prev;
  if (entry.step_prev != kNoId) {
    entries_[entry.step_prev].step_next = entry.step_next;
  } else if (entry.step_next != kNoId) {
    steps_[entry.step] = entry.step_next;
  } else {
    steps_.erase(entry.step);
  }
}

void RoutedBlocks::Erase(uint32_t id) {
  UnlinkStep(id);
  const Entry& entry = entries_[id];
  if (entry.target_next != kNoId) entries_[entry.target_next].target_prev = entry.target_prev;
  if (entry.target_prev != kNoId) {
    entries_[entry.target_prev].target_next = entry.target_next;
  } else {
    targets_[entry.target].first = entry.target_next;
  }
  by_name_.Erase(KeyOf(entry.target, entry.name), id);
  entries_.Free(id);
}

void RoutedBlocks::Drop(std::vector<uint32_t>* ids) {
  std::sort(ids->begin(), ids->end(), [&](uint32_t a, uint32_t b) ABSL_NO_THREAD_SAFETY_ANALYSIS {
    return std::tie(entries_[a].target, entries_[a].position) <
           std::tie(entries_[b].target, entries_[b].position);
  });
  for (auto id = ids->begin(); id != ids->end();) {
    const uint32_t number = entries_[*id].target;
    Removed removed;
    for (; id != ids->end() && entries_[*id].target == number; ++id)
      removed.engine_hashes.push_back(EngineHash{entries_[*id].name});
    index_->Apply({.target = targets_[number].target,
                   .counting = StoreCounting::kSet,
                   .data = std::move(removed)});
  }
  for (const uint32_t id : *ids) Erase(id);
  Recycle(ids);
}

void RoutedBlocks::TrimToBound() {
  while (entries_.size() > config_.max_blocks) {
    const size_t excess = entries_.size() - config_.max_blocks;
    for (uint32_t id = steps_.begin()->second; id != kNoId; id = entries_[id].step_next)
      victims_.push_back(id);
    if (victims_.size() > excess) {
      const auto deeper = [&](uint32_t a, uint32_t b) ABSL_NO_THREAD_SAFETY_ANALYSIS {
        return entries_[a].position > entries_[b].position;
      };
      std::nth_element(victims_.begin(), victims_.begin() + static_cast<ptrdiff_t>(excess),
                       victims_.end(), deeper);
      victims_.resize(excess);
    }
    figures_.forgotten_total += victims_.size();
    Drop(&victims_);
  }
}

void RoutedBlocks::NoteNextDue() {
  next_due_ns_.store(steps_.empty() ? kNeverDue : steps_.begin()->first * kStepNs,
                     std::memory_order_relaxed);
}

}  // namespace kvrouter
