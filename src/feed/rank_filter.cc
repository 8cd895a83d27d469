#include "feed/rank_filter.h"

#include <array>
#include <span>
#include <utility>

#include "base/ascii.h"
#include "kvrouter/block_hash.h"

namespace kvrouter {
namespace {

bool IsFullAttention(std::string_view kind) {
  return kind == "full_attention" || kind == "mla_attention" || kind == "sink_full_attention";
}

}  // namespace

std::optional<StorageTier> TierOf(std::string_view medium) {
  static constexpr std::pair<std::string_view, StorageTier> kMedia[] = {
      {"GPU", StorageTier::kDevice},
      {"DEVICE", StorageTier::kDevice},
      {"CPU", StorageTier::kHostPinned},
      {"CPU_PINNED", StorageTier::kHostPinned},
      {"CPU_TIER1", StorageTier::kHostPinned},
      {"CPU_TIER2", StorageTier::kDisk},
      {"DISK", StorageTier::kDisk},
      {"NVME", StorageTier::kDisk},
      {"STORAGE", StorageTier::kDisk},
      {"FS", StorageTier::kDisk},
      {"OBJ", StorageTier::kExternal},
      {"EXTERNAL", StorageTier::kExternal},
      {"NETWORK", StorageTier::kExternal},
      {"REMOTE", StorageTier::kExternal},
      {"SHARED", StorageTier::kExternal},
  };
  if (medium.empty()) return StorageTier::kDevice;
  for (const auto& [name, tier] : kMedia) {
    if (EqualsIgnoringCase(medium, name)) return tier;
  }
  return std::nullopt;
}

std::optional<Stored> RankFilter::Store(const RawBatch& batch, const RawEvent& event,
                                        FeedCounters* counters) {
  const auto skip = [&](SkipReason reason) -> std::optional<Stored> {
    CountSkip(reason, &counters->skipped);
    return std::nullopt;
  };
  if (const auto reason = WrongScope(event)) return skip(*reason);
  const std::optional<StorageTier> tier = TierOf(event.medium);
  if (!tier) return skip(SkipReason::kUnknownMedium);
  if (event.hashes.count == 0) return std::nullopt;  // says nothing
  const bool on_device = *tier == StorageTier::kDevice;
  const std::span<const uint64_t> hashes = batch.Hashes(event);
  if (event.tokens.count == 0 && event.tokens_readable && event.local_hashes.count == 0) {
    if (!on_device) return CopiesOf(hashes, *tier, counters);
    Remember(hashes, *tier, SkipReason::kPlaceholder, counters);
    return skip(SkipReason::kPlaceholder);
  }
  if (const auto reason = Unusable(batch, event, *tier)) {
    Remember(hashes, *tier, *reason, counters);
    return skip(*reason);
  }

  size_t usable_blocks = hashes.size();
  if (event.first_unknown_block && *event.first_unknown_block < hashes.size()) {
    usable_blocks = *event.first_unknown_block;
    Remember(hashes.subspan(usable_blocks), *tier, SkipReason::kMultimodal, counters);
    CountSkip(SkipReason::kMultimodal, &counters->skipped);
    if (usable_blocks == 0) return std::nullopt;
  }
  if (on_device) {
    if (event.group_idx && !main_group_) main_group_ = event.group_idx;
    foreign_block_size_tokens_.reset();
    foreign_token_form_ = false;
  }

  const std::span<const uint64_t> kept = hashes.first(usable_blocks);
  const uint64_t salt_part = event.local_hashes.count > 0 ? 0 : SaltPart(event, kept);
  RememberSalt(kept, *tier, salt_part, counters);
  const std::vector<LocalBlockHash> local = ContentOf(batch, event, usable_blocks, salt_part);
  Stored stored;
  if (event.parent) stored.parent = EngineHash{*event.parent};
  stored.blocks.reserve(usable_blocks);
  auto& skipped_blocks = NotesOf(*tier).skipped_blocks;
  for (size_t i = 0; i < usable_blocks; ++i) {
    if (!skipped_blocks.Empty()) skipped_blocks.Erase(kept[i]);  // now it means an indexed block
    stored.blocks.push_back({.engine_hash = EngineHash{kept[i]}, .local_hash = local[i]});
  }
  return stored;
}

// A block that was skipped where it was told in full is none that the index knows,
// or means another.
std::optional<Stored> RankFilter::CopiesOf(std::span<const uint64_t> hashes, StorageTier tier,
                                           FeedCounters* counters) {
  Stored stored;
  stored.copies = true;
  stored.blocks.reserve(hashes.size());
  for (const uint64_t hash : hashes) {
    if (const auto reason = SkippedParent(hash, tier)) {
      Remember({&hash, 1}, tier, *reason, counters);
      CountSkip(*reason, &counters->skipped);
    } else {
      stored.blocks.push_back({.engine_hash = EngineHash{hash}});
      RememberSalt({&hash, 1}, tier, InheritedSaltPart(hash), counters);
    }
  }
  if (stored.blocks.empty()) return std::nullopt;
  return stored;
}

std::vector<LocalBlockHash> RankFilter::ContentOf(const RawBatch& batch, const RawEvent& event,
                                                  size_t usable_blocks, uint64_t salt_part) const {
  if (event.local_hashes.count > 0) {
    const auto given = batch.LocalHashes(event).first(usable_blocks);
    return {given.begin(), given.end()};
  }
  const size_t ahead = naming_.is_eagle ? 1 : 0;
  const auto tokens = batch.Tokens(event).first(usable_blocks * naming_.block_size_tokens + ahead);
  std::vector<std::vector<MultimodalHash>> multimodal;
  if (event.items.count > 0) multimodal.resize(usable_blocks);
  for (const BlockItem& item : batch.Items(event)) {
    if (item.block < usable_blocks) multimodal[item.block].push_back(item.hash);
  }
  std::vector<LocalBlockHash> local;
  AppendLocalBlockHashes(
      tokens,
      {.block_size_tokens = naming_.block_size_tokens,
       .block_seed = BlockSeed({.lora_name = event.lora_name, .cache_salt = {}}) + salt_part,
       .is_eagle = naming_.is_eagle,
       .image_token_id = naming_.image_token_id,
       .multimodal = multimodal},
      &local);
  return local;
}

std::optional<Removed> RankFilter::Remove(const RawBatch& batch, const RawEvent& event,
                                          FeedCounters* counters) {
  const auto skip = [&](SkipReason reason) -> std::optional<Removed> {
    CountSkip(reason, &counters->skipped);
    return std::nullopt;
  };
  if (const auto reason = WrongScope(event)) return skip(*reason);
  const std::optional<StorageTier> tier = TierOf(event.medium);
  if (!tier) return skip(SkipReason::kUnknownMedium);
  if (event.hashes.count == 0) return std::nullopt;
  Notes& notes = NotesOf(*tier);
  Removed removed;
  removed.engine_hashes.reserve(event.hashes.count);
  std::optional<SkipReason> swallowed;
  for (const uint64_t hash : batch.Hashes(event)) {
    if (!notes.salts.Empty()) notes.salts.Release(hash);
    std::optional<SkipReason> reason;
    if (!notes.skipped_blocks.Empty()) reason = notes.skipped_blocks.Release(hash);
    if (reason) {
      swallowed = reason;
    } else {
      removed.engine_hashes.push_back(EngineHash{hash});
    }
  }
  if (swallowed) CountSkip(*swallowed, &counters->skipped);
  if (removed.engine_hashes.empty()) return std::nullopt;
  return removed;
}

RankFilter RankFilter::Successor() const {
  RankFilter next(naming_);
  next.main_group_ = main_group_;
  next.group_is_full_attention_ = group_is_full_attention_;
  next.foreign_block_size_tokens_ = foreign_block_size_tokens_;
  next.foreign_token_form_ = foreign_token_form_;
  return next;
}

void RankFilter::OnCleared() {
  for (Notes& notes : notes_) {
    notes.skipped_blocks.Clear();
    notes.salts.Clear();
  }
}

SavedFilter RankFilter::Save() const {
  SavedFilter saved;
  saved.main_group = main_group_;
  saved.group_is_full_attention.assign(group_is_full_attention_.begin(),
                                       group_is_full_attention_.end());
  for (size_t t = 0; t < notes_.size(); ++t) {
    const auto tier = static_cast<StorageTier>(t);
    notes_[t].skipped_blocks.ForEach([&](uint64_t hash, SkipReason reason, uint32_t count) {
      saved.skipped_blocks.push_back({hash, reason, count, tier});
    });
    notes_[t].salts.ForEach([&](uint64_t hash, uint64_t salt_part, uint32_t count) {
      saved.salts.push_back({hash, salt_part, count, tier});
    });
  }
  return saved;
}

void RankFilter::Restore(const SavedFilter& saved) {
  main_group_ = saved.main_group;
  for (const auto& [group, full] : saved.group_is_full_attention) {
    if (group_is_full_attention_.size() < kMaxGroups) group_is_full_attention_[group] = full;
  }
  for (const auto& note : saved.skipped_blocks)
    NotesOf(note.tier).skipped_blocks.Restore(note.hash, note.note, note.count);
  for (const auto& note : saved.salts)
    NotesOf(note.tier).salts.Restore(note.hash, note.note, note.count);
}

std::optional<SkipReason> RankFilter::WrongScope(const RawEvent& event) {
  if (!event.locality.empty() && !EqualsIgnoringCase(event.locality, "LOCAL")) {
    return SkipReason::kRemoteLocality;
  }
  if (!IsMainGroup(event)) return SkipReason::kOtherGroup;
  return std::nullopt;
}

bool RankFilter::IsMainGroup(const RawEvent& event) {
  if (!event.spec_kind.empty()) {
    const bool full = IsFullAttention(event.spec_kind);
    if (event.group_idx && (group_is_full_attention_.size() < kMaxGroups ||
                            group_is_full_attention_.contains(*event.group_idx))) {
      group_is_full_attention_[*event.group_idx] = full;
    }
    if (!full) return false;
  }
  if (!event.group_idx) return true;
  if (main_group_) return *event.group_idx == *main_group_;
  if (!event.spec_kind.empty()) return true;
  const auto known = group_is_full_attention_.find(*event.group_idx);
  if (known != group_is_full_attention_.end()) return known->second;
  // Engines that number groups without naming kinds; the length rule judges the stores of group 0.
  return *event.group_idx == 0;
}

std::optional<SkipReason> RankFilter::WrongBlockSize(const RawBatch& batch, const RawEvent& event,
                                                     StorageTier tier) {
  const uint32_t ours = naming_.block_size_tokens;
  if (event.block_size_tokens == ours) return std::nullopt;
  // One short block may be the unfinished end of a sequence. An engine with smaller blocks shows
  // that by announcing several of them at once.
  const bool short_end = batch.Hashes(event).size() == 1 &&
                         event.Positions() == event.block_size_tokens &&
                         event.block_size_tokens > 0 && event.block_size_tokens < ours;
  if (short_end && !foreign_block_size_tokens_) return SkipReason::kPartialBlock;
  if (tier == StorageTier::kDevice) foreign_block_size_tokens_ = event.block_size_tokens;
  return SkipReason::kBlockSize;
}

std::optional<SkipReason> RankFilter::Unusable(const RawBatch& batch, const RawEvent& event,
                                               StorageTier tier) {
  if (!event.tokens_readable) return SkipReason::kNonIntegerTokens;
  const uint32_t ours = naming_.block_size_tokens;
  if (const auto reason = WrongBlockSize(batch, event, tier)) return reason;
  const bool hashed = event.local_hashes.count > 0;
  if (hashed ? event.local_hashes.count != event.hashes.count
             : event.Positions() != uint64_t{event.hashes.count} * ours) {
    return SkipReason::kLengthMismatch;
  }
  if (naming_.is_eagle && !hashed && !event.tokens_in_pairs) {
    if (tier == StorageTier::kDevice) foreign_token_form_ = true;
    return SkipReason::kTokenForm;
  }
  if (event.has_lora_number && event.lora_name.empty()) return SkipReason::kUnknownLora;
  if (event.parent) return SkippedParent(*event.parent, tier);
  return std::nullopt;
}

// On the device a parent must lie there; on a lower tier it may lie anywhere.
std::optional<SkipReason> RankFilter::SkippedParent(uint64_t parent, StorageTier tier) const {
  for (size_t t = 0; t < notes_.size(); ++t) {
    if (tier == StorageTier::kDevice && t != 0) break;
    const auto& skipped_blocks = notes_[t].skipped_blocks;
    if (skipped_blocks.Empty()) continue;
    if (const auto reason = skipped_blocks.Find(parent)) return reason;
  }
  return std::nullopt;
}

void RankFilter::Remember(std::span<const uint64_t> hashes, StorageTier tier, SkipReason reason,
                          FeedCounters* counters) {
  for (const uint64_t hash : hashes) {
    if (!NotesOf(tier).skipped_blocks.Add(hash, reason)) ++counters->hash_memory_full;
  }
}

// A block that is copied to a lower tier may outlive its parent. Then it is told by its own name,
// which is the same on every tier.
uint64_t RankFilter::SaltPart(const RawEvent& event, std::span<const uint64_t> hashes) const {
  if (!event.cache_salt.empty()) {
    return BlockSeed({.lora_name = {}, .cache_salt = event.cache_salt}) - BlockSeed({});
  }
  if (!event.parent) return 0;
  const uint64_t inherited = InheritedSaltPart(*event.parent);
  return inherited != 0 ? inherited : InheritedSaltPart(hashes.front());
}

uint64_t RankFilter::InheritedSaltPart(uint64_t hash) const {
  for (const Notes& notes : notes_) {
    if (notes.salts.Empty()) continue;
    if (const auto salt_part = notes.salts.Find(hash)) return *salt_part;
  }
  return 0;
}

void RankFilter::RememberSalt(std::span<const uint64_t> hashes, StorageTier tier,
                              uint64_t salt_part, FeedCounters* counters) {
  if (salt_part == 0) return;
  for (const uint64_t hash : hashes) {
    if (!NotesOf(tier).salts.Add(hash, salt_part)) ++counters->hash_memory_full;
  }
}

}  // namespace kvrouter
