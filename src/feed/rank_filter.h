#ifndef KVROUTER_FEED_RANK_FILTER_H_
#define KVROUTER_FEED_RANK_FILTER_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "feed/event_codec.h"
#include "feed/feed_stats.h"
#include "feed/hash_memory.h"
#include "feed/saved_feed.h"
#include "kvrouter/block_hash.h"
#include "kvrouter/events.h"
#include "kvrouter/types.h"

namespace kvrouter {

// Decides which of one rank's raw events enter the index, and computes content hashes for those
// that do.
//
// In: full blocks, on any tier, of the rank's main KV group, whose content is known from tokens,
// adapter, salt and named multimodal items, or given as hashes. Everything else is skipped and
// counted. A skipped main-group block is remembered with its tier, for two reasons: its later
// removal must not reach the index (same hash, other meaning), and a store that continues it is
// skipped for the same reason instead of looking like lost history.
//
// Lower tiers: engines that offload often name the block only. Such a store is passed on as copies
// of what the rank holds under these hashes on other tiers. What lower tiers are sent in says
// nothing about the engine: another block size there is no sign of a foreign engine.
//
// Main group: engines with several KV groups announce each block once per group, under one hash,
// and evict per group. The first full-attention group that stores a usable block is taken; the
// others say nothing new about the prefix. Stores tell their group's kind; removals only its
// number.
//
// Salt: engines name the salt with the first block of a sequence only; the blocks that continue it
// inherit it here, also from another tier.
//
// EAGLE: an engine that is one sends its tokens in pairs, which tell the token ahead of each block.
// Pairs from an engine that is not registered as one are taken by their first tokens, so that
// ordinary prompts match: all but the token ahead is compared.
//
// Thread-compatible. Memory is bounded by kMaxRememberedHashes per kind of note and tier.
class RankFilter {
 public:
  static constexpr size_t kMaxRememberedHashes = 1u << 18;
  static constexpr size_t kMaxGroups = 64;

  // REQUIRES: naming.block_size_tokens > 0.
  explicit RankFilter(const BlockNaming& naming) : naming_(naming) {}

  // What is left of the event for the index, on the tier of its medium; nothing if all of it was
  // skipped. Reasons go to *counters.
  std::optional<Stored> Store(const RawBatch& batch, const RawEvent& event, FeedCounters* counters);
  std::optional<Removed> Remove(const RawBatch& batch, const RawEvent& event,
                                FeedCounters* counters);

  // Of the same engine, for a history that is read anew: nothing is held, the groups are known.
  RankFilter Successor() const;

  // The rank holds nothing any more. Group kinds are of the model and stay.
  void OnCleared();

  // What later events of the same engine are judged by, for a filter of another process to go on
  // with. Restore REQUIRES a fresh filter with the same naming.
  SavedFilter Save() const;
  void Restore(const SavedFilter& saved);

  // Another block size than ours was seen and no block of ours since. 0 is one, of a publisher that
  // names none.
  std::optional<uint32_t> ForeignBlockSize() const { return foreign_block_size_tokens_; }
  // Ours are EAGLE engines, and single tokens came and no usable block since.
  bool ForeignTokenForm() const { return foreign_token_form_; }

 private:
  struct Notes {
    HashMemory<SkipReason> skipped_blocks{kMaxRememberedHashes};
    HashMemory<uint64_t> salts{kMaxRememberedHashes};  // the salt's part of the block seed
  };

  Notes& NotesOf(StorageTier tier) { return notes_[static_cast<size_t>(tier)]; }
  // Why the event is not for us at all, whatever blocks it names.
  std::optional<SkipReason> WrongScope(const RawEvent& event);
  bool IsMainGroup(const RawEvent& event);
  // Why none of its blocks can be indexed.
  std::optional<SkipReason> Unusable(const RawBatch& batch, const RawEvent& event,
                                     StorageTier tier);
  std::optional<SkipReason> WrongBlockSize(const RawBatch& batch, const RawEvent& event,
                                           StorageTier tier);
  std::optional<SkipReason> SkippedParent(uint64_t parent, StorageTier tier) const;
  std::optional<Stored> CopiesOf(std::span<const uint64_t> hashes, StorageTier tier,
                                 FeedCounters* counters);
  void Remember(std::span<const uint64_t> hashes, StorageTier tier, SkipReason reason,
                FeedCounters* counters);
  std::vector<LocalBlockHash> ContentOf(const RawBatch& batch, const RawEvent& event,
                                        size_t usable_blocks, uint64_t salt_part) const;
  uint64_t SaltPart(const RawEvent& event, std::span<const uint64_t> hashes) const;
  uint64_t InheritedSaltPart(uint64_t hash) const;
  void RememberSalt(std::span<const uint64_t> hashes, StorageTier tier, uint64_t salt_part,
                    FeedCounters* counters);

  BlockNaming naming_;
  std::optional<uint64_t> main_group_;
  absl::flat_hash_map<uint64_t, bool> group_is_full_attention_;
  std::array<Notes, kStorageTierCount> notes_;  // by tier
  std::optional<uint32_t> foreign_block_size_tokens_;
  bool foreign_token_form_ = false;
};

// Case-insensitive; absent is the device. Nothing for a medium we do not know.
std::optional<StorageTier> TierOf(std::string_view medium);

}  // namespace kvrouter

#endif  // KVROUTER_FEED_RANK_FILTER_H_
