#include "feed/event_fields.h"

#include <algorithm>
#include <optional>
#include <vector>

#include "base/ascii.h"
#include "kvrouter/block_hash.h"

namespace kvrouter {
namespace {

using Type = MsgpackCursor::Type;

// Dynamo's front ends mark a salt like this, since a bare extra key could also be an adapter.
constexpr std::string_view kSaltPrefix = "dynamo-cache-salt:";

// More is no prompt.
constexpr uint32_t kMaxItemsPerBlock = 256;

// Integers of either sign keep their 64-bit pattern. A digest is its last 8 bytes, big-endian:
// engines that send integers send exactly those bits.
bool ReadHash(MsgpackCursor* cursor, uint64_t* hash) {
  MsgpackCursor::Int value;
  if (cursor->ReadInt(&value)) {
    *hash = value.bits;
    return true;
  }
  std::string_view digest;
  if (!cursor->ReadBinary(&digest) || digest.empty()) return false;
  *hash = 0;
  for (const char c : digest.substr(digest.size() - std::min<size_t>(digest.size(), 8))) {
    *hash = (*hash << 8) | static_cast<uint8_t>(c);
  }
  return true;
}

bool ReadToken(MsgpackCursor* cursor, TokenId* token) {
  MsgpackCursor::Int value;
  if (!cursor->ReadInt(&value) || value.negative || value.bits > UINT32_MAX) return false;
  *token = static_cast<TokenId>(value.bits);
  return true;
}

// (t_j, t_j+1).
bool ReadPair(MsgpackCursor* cursor, TokenId* first, TokenId* second) {
  MsgpackCursor attempt = *cursor;
  uint32_t items = 0;
  if (!attempt.ReadArray(&items) || items != 2) return false;
  if (!ReadToken(&attempt, first) || !ReadToken(&attempt, second)) return false;
  *cursor = attempt;
  return true;
}

// Reads items of one form after another; a form that does not fit the ones before is refused.
class TokenReader {
 public:
  explicit TokenReader(std::vector<TokenId>* out) : out_(out), begin_(out->size()) {}

  // False: the item under the cursor, which stays there, is none that could follow.
  bool Read(MsgpackCursor* cursor) {
    TokenId first = 0;
    if (ReadToken(cursor, &first)) {
      out_->push_back(first);
      return !in_pairs_;
    }
    TokenId second = 0;
    if (!ReadPair(cursor, &first, &second)) return false;
    if (out_->size() == begin_) {
      in_pairs_ = true;
      out_->push_back(first);
    }
    const bool follows = in_pairs_ && out_->back() == first;
    out_->push_back(second);
    return follows;
  }

  bool in_pairs() const { return in_pairs_; }

 private:
  std::vector<TokenId>* const out_;
  const size_t begin_;
  bool in_pairs_ = false;
};

// A digest of an image or other item; a cache salt of that very shape is taken for one, as upstream
// does: too low a credit, never a false one.
bool IsHexDigest(std::string_view text) {
  return text.size() == 64 &&
         std::all_of(text.begin(), text.end(), [](char c) { return HexDigitValue(c) >= 0; });
}

}  // namespace

bool EventFields::ReadPositional(uint32_t position, MsgpackCursor* cursor) {
  if (kind_ == RawKind::kStored) return ReadStoredPosition(position, cursor);
  if (kind_ == RawKind::kRemoved) {
    if (position == 1) return ReadHashes(cursor);
    if (position == 2) return ReadText(cursor, &event_->medium);
    return ReadTailItem(cursor);
  }
  return cursor->Skip();
}

bool EventFields::ReadStoredPosition(uint32_t position, MsgpackCursor* cursor) {
  switch (position) {
    case 1:
      return ReadHashes(cursor);
    case 2:
      return ReadParent(cursor);
    case 3:
      return ReadTokens(cursor);
    case 4:
      return ReadBlockSize(cursor);
    case 5:
      return ReadLoraNumber(cursor);
    case 6:
      return ReadText(cursor, &event_->medium);
    case 7:
      return ReadLoraSlot(cursor);
    case 8:
      return ReadLater(&extra_keys_, cursor);
    default:
      return ReadTailItem(cursor);
  }
}

bool EventFields::ReadNamed(std::string_view key, MsgpackCursor* cursor) {
  if (kind_ != RawKind::kStored && kind_ != RawKind::kRemoved) return cursor->Skip();
  if (key == "block_hashes") return ReadHashes(cursor);
  if (key == "medium") return ReadText(cursor, &event_->medium);
  if (key == "group_idx") return ReadGroup(cursor);
  if (key == "kv_cache_spec_kind") return ReadText(cursor, &event_->spec_kind);
  if (key == "locality") return ReadText(cursor, &event_->locality);
  if (kind_ == RawKind::kStored) {
    if (key == "token_ids") return ReadTokens(cursor);
    if (key == "parent_block_hash") return ReadParent(cursor);
    if (key == "block_size") return ReadBlockSize(cursor);
    if (key == "lora_id") return ReadLoraNumber(cursor);
    if (key == "lora_name") return ReadText(cursor, &event_->lora_name);
    if (key == "extra_keys") return ReadLater(&extra_keys_, cursor);
    if (key == "cache_salt") return ReadText(cursor, &event_->cache_salt);
    if (key == "metadata") return ReadMetadata(cursor);
    if (key == "mm_keys" || key == "block_mm_infos") return ReadLater(&items_, cursor);
  }
  return cursor->Skip();
}

bool EventFields::Finish() {
  if (kind_ == RawKind::kCleared) return true;
  if (!has_hashes_) return false;
  SettleTail();
  event_->items.begin = static_cast<uint32_t>(batch_->items.size());
  if (items_) SettleItems();
  if (extra_keys_) SettleExtraKeys();
  return true;
}

bool EventFields::ReadHashes(MsgpackCursor* cursor) {
  uint32_t count = 0;
  if (has_hashes_ || !cursor->ReadArray(&count)) return false;
  has_hashes_ = true;
  event_->hashes = {static_cast<uint32_t>(batch_->hashes.size()), count};
  for (uint32_t i = 0; i < count; ++i) {
    uint64_t hash = 0;
    if (!ReadHash(cursor, &hash)) return false;
    batch_->hashes.push_back(hash);
  }
  return true;
}

bool EventFields::ReadParent(MsgpackCursor* cursor) {
  uint64_t hash = 0;
  if (cursor->ReadNil()) return true;
  if (!ReadHash(cursor, &hash)) return false;
  event_->parent = hash;
  return true;
}

bool EventFields::ReadTokens(MsgpackCursor* cursor) {
  uint32_t count = 0;
  if (cursor->ReadNil()) return true;
  const MsgpackCursor list = *cursor;
  if (event_->tokens.count != 0 || !cursor->ReadArray(&count)) return false;
  const size_t begin = batch_->tokens.size();
  TokenReader reader(&batch_->tokens);
  uint32_t read = 0;
  while (read < count && reader.Read(cursor)) ++read;
  if (read < count) {
    event_->tokens_readable = false;
    batch_->tokens.resize(begin);
    // The refused item may be under the cursor or behind it: begin anew at the list.
    *cursor = list;
    return cursor->Skip();
  }
  event_->tokens_in_pairs = reader.in_pairs();
  event_->tokens = {static_cast<uint32_t>(begin),
                    static_cast<uint32_t>(batch_->tokens.size() - begin)};
  return true;
}

bool EventFields::ReadBlockSize(MsgpackCursor* cursor) {
  MsgpackCursor::Int value;
  if (cursor->ReadNil()) return true;
  if (!cursor->ReadInt(&value) || value.negative || value.bits > UINT32_MAX) return false;
  event_->block_size_tokens = static_cast<uint32_t>(value.bits);
  return true;
}

bool EventFields::ReadLoraNumber(MsgpackCursor* cursor) {
  MsgpackCursor::Int value;
  if (cursor->ReadInt(&value)) {
    event_->has_lora_number = !value.negative && value.bits != 0;  // engines number adapters from 1
    return true;
  }
  return cursor->Skip();
}

bool EventFields::ReadGroup(MsgpackCursor* cursor) {
  MsgpackCursor::Int value;
  if (cursor->ReadNil()) return true;
  if (!cursor->ReadInt(&value) || value.negative) return false;
  event_->group_idx = value.bits;
  return true;
}

bool EventFields::ReadText(MsgpackCursor* cursor, std::string_view* out) {
  return cursor->ReadNil() || cursor->ReadString(out);
}

// vLLM: adapter name. SGLang: a map of metadata for salted stores, or a list (component types),
// which says nothing here.
bool EventFields::ReadLoraSlot(MsgpackCursor* cursor) {
  switch (cursor->Peek()) {
    case Type::kString:
      return cursor->ReadString(&event_->lora_name);
    case Type::kMap:
      return ReadMetadata(cursor);
    default:
      return cursor->Skip();
  }
}

bool EventFields::ReadMetadata(MsgpackCursor* cursor) {
  uint32_t pairs = 0;
  if (!cursor->ReadMap(&pairs)) return cursor->Skip();
  for (uint32_t i = 0; i < pairs; ++i) {
    std::string_view key;
    const bool named = cursor->ReadString(&key);
    if (!named && !cursor->Skip()) return false;
    if (named && key == "cache_salt") {
      if (!ReadText(cursor, &event_->cache_salt)) return false;
    } else if (!cursor->Skip()) {
      return false;
    }
  }
  return true;
}

// nil is as absent.
bool EventFields::ReadLater(std::optional<MsgpackCursor>* kept, MsgpackCursor* cursor) {
  if (cursor->ReadNil()) return true;
  *kept = *cursor;
  return cursor->Skip();
}

bool EventFields::ReadTailItem(MsgpackCursor* cursor) {
  TailItem item;
  item.type = cursor->Peek();
  item.value = *cursor;
  MsgpackCursor::Int number;
  if (cursor->ReadInt(&number)) {
    if (number.negative) return false;
    item.number = number.bits;
  } else if (!cursor->ReadString(&item.text) && !cursor->Skip()) {
    return false;
  }
  if (tail_items_ < kMaxTailItems) tail_[tail_items_++] = item;
  return true;
}

void EventFields::SettleTail() {
  const auto is = [this](size_t i, Type type) {
    return tail_[i].type == type || tail_[i].type == Type::kNil;
  };
  const bool by_position = tail_items_ >= 4 && is(0, Type::kInt) && is(1, Type::kString) &&
                           is(2, Type::kInt) && is(3, Type::kString);
  if (by_position) {
    if (tail_[0].type == Type::kInt) event_->group_idx = tail_[0].number;
    event_->spec_kind = tail_[1].text;
    event_->locality = tail_[3].text;
    return;
  }
  for (size_t i = 0; i < tail_items_; ++i) {
    TailItem& item = tail_[i];
    if (item.type == Type::kInt && !event_->group_idx) event_->group_idx = item.number;
    if (item.type == Type::kString && event_->spec_kind.empty()) event_->spec_kind = item.text;
    if (item.type == Type::kArray && kind_ == RawKind::kStored && !items_) items_ = item.value;
  }
}

// The bytes of what was kept were stepped over once already, so nothing can end early in the
// functions below. An entry of a form that is not ours has content that tokens do not tell.
void EventFields::SettleItems() {
  uint32_t count = 0;
  if (!items_->ReadArray(&count)) return MarkUnknown(0);
  for (uint32_t block = 0; block < count; ++block) SettleItemEntry(block, &*items_);
}

void EventFields::SettleItemEntry(uint32_t block, MsgpackCursor* cursor) {
  MsgpackCursor entry = *cursor;
  cursor->Skip();
  if (entry.ReadNil()) return;
  uint32_t pairs = 0;
  if (entry.ReadMap(&pairs)) {  // {"mm_objects": [object, …]}
    std::string_view key;
    bool found = false;
    for (uint32_t i = 0; i < pairs && !found; ++i) {
      found = entry.ReadString(&key) ? key == "mm_objects" : !entry.Skip();
      if (!found) entry.Skip();
    }
    if (!found && pairs > 0) return MarkUnknown(block);
    if (!found || entry.ReadNil()) return;
  }
  uint32_t objects = 0;
  if (!entry.ReadArray(&objects)) return MarkUnknown(block);
  for (uint32_t i = 0; i < objects; ++i) {
    if (!ReadItemObject(block, &entry)) return MarkUnknown(block);
  }
}

// {"mm_hash": N, …} or {"hash": NAME, …}.
bool EventFields::ReadItemObject(uint32_t block, MsgpackCursor* cursor) {
  uint32_t pairs = 0;
  if (!cursor->ReadMap(&pairs)) return false;
  std::optional<MultimodalHash> hash;
  for (uint32_t i = 0; i < pairs; ++i) {
    std::string_view key, name;
    MsgpackCursor::Int number;
    const bool named = cursor->ReadString(&key);
    if (!named && !cursor->Skip()) return false;
    if (named && key == "mm_hash" && cursor->ReadInt(&number)) {
      hash = MultimodalHash{number.bits};
    } else if (named && key == "hash" && cursor->ReadString(&name)) {
      hash = MultimodalHashOf(name);
    } else if (!cursor->Skip()) {
      return false;
    }
  }
  if (hash) AddItem(block, *hash);
  return hash.has_value();
}

// One entry per block: adapter name, items, salt (first block of a sequence only), digest of
// embeddings.
void EventFields::SettleExtraKeys() {
  uint32_t count = 0;
  if (!extra_keys_->ReadArray(&count)) return;
  for (uint32_t block = 0; block < count; ++block) SettleExtraKeyEntry(block, &*extra_keys_);
}

void EventFields::SettleExtraKeyEntry(uint32_t block, MsgpackCursor* cursor) {
  uint32_t items = 1;  // a bare value stands for a list of one
  cursor->ReadArray(&items);
  bool adapter_seen = false;
  std::string_view bare;
  for (uint32_t i = 0; i < items; ++i) {
    std::string_view text;
    if (cursor->ReadNil()) continue;
    if (ReadNamedItem(block, cursor)) continue;
    if (!cursor->ReadString(&text)) {  // embedding digest, or something newer
      MarkUnknown(block);
      if (!cursor->Skip()) return;
    } else if (!adapter_seen && text == event_->lora_name) {
      adapter_seen = true;
    } else if (text.starts_with(kSaltPrefix)) {
      if (event_->cache_salt.empty()) event_->cache_salt = text.substr(kSaltPrefix.size());
    } else if (IsHexDigest(text)) {  // older engines sent items without their offset
      if (!items_) AddItem(block, *MultimodalHashOf(text));
    } else if (!bare.empty() || block != 0 || event_->parent) {
      // An older engine's item of another name? Too like other keys to build on.
      MarkUnknown(block);
    } else {
      bare = text;
    }
  }
  if (!bare.empty() && event_->cache_salt.empty()) event_->cache_salt = bare;
}

// (name, offset).
bool EventFields::ReadNamedItem(uint32_t block, MsgpackCursor* cursor) {
  MsgpackCursor attempt = *cursor;
  uint32_t count = 0;
  std::string_view name;
  MsgpackCursor::Int offset;
  if (!attempt.ReadArray(&count) || count != 2 || !attempt.ReadString(&name)) return false;
  const std::optional<MultimodalHash> hash = MultimodalHashOf(name);
  if (!hash || !attempt.ReadInt(&offset)) return false;
  *cursor = attempt;
  if (!items_) AddItem(block, *hash);
  return true;
}

void EventFields::AddItem(uint32_t block, MultimodalHash hash) {
  const bool same_block = event_->items.count > 0 && batch_->items.back().block == block;
  items_of_block_ = same_block ? items_of_block_ + 1 : 1;
  if (items_of_block_ > kMaxItemsPerBlock) {
    --items_of_block_;
    return MarkUnknown(block);
  }
  batch_->items.push_back({.block = block, .hash = hash});
  ++event_->items.count;
}

void EventFields::MarkUnknown(uint32_t block) {
  if (!event_->first_unknown_block || block < *event_->first_unknown_block) {
    event_->first_unknown_block = block;
  }
}

}  // namespace kvrouter
