#include "core/dump_cursor.h"

#include <algorithm>
#include <utility>

namespace kvrouter {

DumpCursor::Impl::Impl(std::shared_ptr<const Partition> partition)
    : partition_(std::move(partition)),
      naming_(partition_->naming()),
      targets_(partition_->scheduler().Loads().loads) {
  counts_.complete = false;
}

bool DumpCursor::Impl::Next(std::vector<KvEvent>* events) {
  if (next_target_ < targets_.size()) {
    const TargetLoad& load = targets_[next_target_];
    if (!dump_) dump_.emplace(load.target, next_tier_);
    const uint64_t blocks_before = dump_->blocks();
    const bool more = partition_->index().StepDump(&*dump_, &step_);
    if (partition_->naming() != naming_) {
      // The blocks we spoke of are gone, and what the step read may have the new names.
      next_target_ = targets_.size();
      counts_.complete = true;
      return false;
    }
    counts_.blocks += dump_->blocks() - blocks_before;
    Append(load, events);
    if (!more) FinishTier();
  }
  counts_.complete = next_target_ == targets_.size();
  return !counts_.complete;
}

void DumpCursor::Impl::Append(const TargetLoad& load, std::vector<KvEvent>* events) {
  for (Stored& stored : step_) {
    events->push_back({.target = load.target,
                       .incarnation = load.incarnation,
                       .tier = dump_->tier(),
                       .counting = StoreCounting::kSet,  // a second replay changes nothing
                       .event_id = counts_.events++,
                       .data = std::move(stored)});
  }
  step_.clear();
}

void DumpCursor::Impl::FinishTier() {
  const uint64_t held_blocks = partition_->index().HolderBlocks(dump_->target(), dump_->tier());
  counts_.omitted_blocks += held_blocks - std::min(held_blocks, dump_->blocks());
  dump_.reset();
  const auto following = static_cast<int>(next_tier_) + 1;
  next_tier_ = static_cast<StorageTier>(following % kStorageTierCount);
  if (following == kStorageTierCount) ++next_target_;
}

DumpCursor::DumpCursor(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}

DumpCursor::~DumpCursor() = default;

bool DumpCursor::Next(std::vector<KvEvent>* events) { return impl_->Next(events); }

uint32_t DumpCursor::BlockSizeTokens() const { return impl_->block_size_tokens(); }

const DumpCounts& DumpCursor::Counts() const { return impl_->counts(); }

}  // namespace kvrouter
