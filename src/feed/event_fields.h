#ifndef KVROUTER_FEED_EVENT_FIELDS_H_
#define KVROUTER_FEED_EVENT_FIELDS_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>

#include "feed/event_codec.h"
#include "feed/msgpack_cursor.h"

namespace kvrouter {

// Collects the fields of one event in whatever order they come, then settles what depends on
// several of them.
//
// Positions of an array event (0 is the tag):
//   BlockStored   1 hashes  2 parent  3 tokens  4 block size  5 lora_id  6 medium  7 lora_name  8
//   extra_keys  9… tail BlockRemoved  1 hashes  2 medium  3… tail tail          group_idx, spec
//   kind, sliding window, locality, ownership (or source_kind)
// The tail is taken by position when it has at least four items of matching types. Else by type, as
// shorter tails came in several orders: first number = group_idx, first text = spec kind, a list =
// block_mm_infos.
//
// Items (images and the like) by block, of a hash or a name (MultimodalHashOf):
//   block_mm_infos  [{"mm_objects": [{"mm_hash": N, …}, …]} | nil, …]          Dynamo's own
//   mm_keys         [[{"type": "mm_key", "hash": NAME, …}, …] | nil, …]        TensorRT-LLM
//   extra_keys      [[(NAME, offset), …] | nil, …]; bare NAMEs of 64 digits    vLLM
// Offsets say where in a block an item lies, which its tokens say already.
//
// Thread-compatible. Unknown names and surplus positions are stepped over. A Read… that returns
// false means that the event is malformed, or that bytes end.
class EventFields {
 public:
  // `kind` absent: an unknown tag, every field is stepped over.
  EventFields(std::optional<RawKind> kind, RawBatch* batch, RawEvent* event)
      : kind_(kind), batch_(batch), event_(event) {}

  bool ReadPositional(uint32_t position, MsgpackCursor* cursor);
  bool ReadNamed(std::string_view key, MsgpackCursor* cursor);

  // Call once after the last field. False: a required field is missing.
  bool Finish();

 private:
  static constexpr size_t kMaxTailItems = 8;
  struct TailItem {
    MsgpackCursor::Type type = MsgpackCursor::Type::kNil;
    uint64_t number = 0;
    std::string_view text;
    MsgpackCursor value{std::string_view()};
  };

  bool ReadStoredPosition(uint32_t position, MsgpackCursor* cursor);
  bool ReadHashes(MsgpackCursor* cursor);
  bool ReadParent(MsgpackCursor* cursor);
  bool ReadTokens(MsgpackCursor* cursor);
  bool ReadBlockSize(MsgpackCursor* cursor);
  bool ReadLoraNumber(MsgpackCursor* cursor);
  bool ReadGroup(MsgpackCursor* cursor);
  bool ReadText(MsgpackCursor* cursor, std::string_view* out);
  bool ReadLoraSlot(MsgpackCursor* cursor);
  bool ReadMetadata(MsgpackCursor* cursor);
  bool ReadLater(std::optional<MsgpackCursor>* kept, MsgpackCursor* cursor);
  bool ReadTailItem(MsgpackCursor* cursor);

  void SettleTail();
  void SettleItems();
  void SettleItemEntry(uint32_t block, MsgpackCursor* cursor);
  bool ReadItemObject(uint32_t block, MsgpackCursor* cursor);
  void SettleExtraKeys();
  void SettleExtraKeyEntry(uint32_t block, MsgpackCursor* cursor);
  bool ReadNamedItem(uint32_t block, MsgpackCursor* cursor);
  void AddItem(uint32_t block, MultimodalHash hash);
  void MarkUnknown(uint32_t block);

  const std::optional<RawKind> kind_;
  RawBatch* const batch_;
  RawEvent* const event_;
  bool has_hashes_ = false;
  std::optional<MsgpackCursor> extra_keys_;  // kept until lora_name is known
  // block_mm_infos or mm_keys. Sent, they are what names items; extra_keys then do not.
  std::optional<MsgpackCursor> items_;
  uint32_t items_of_block_ = 0;  // of the last block that has any
  std::array<TailItem, kMaxTailItems> tail_;
  size_t tail_items_ = 0;
};

}  // namespace kvrouter

#endif  // KVROUTER_FEED_EVENT_FIELDS_H_
