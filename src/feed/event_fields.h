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
// multimodal infos.
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
  bool ReadExtraKeysLater(MsgpackCursor* cursor);
  bool ReadMultimodalInfos(MsgpackCursor* cursor);
  bool ReadTailItem(MsgpackCursor* cursor);

  void SettleTail();
  void SettleExtraKeys();
  void SettleExtraKeyEntry(uint32_t block, MsgpackCursor* cursor);
  bool ReadItem(uint32_t block, MsgpackCursor* cursor);
  void MarkUnknown(uint32_t block);

  const std::optional<RawKind> kind_;
  RawBatch* const batch_;
  RawEvent* const event_;
  bool has_hashes_ = false;
  std::optional<MsgpackCursor> extra_keys_;  // kept until lora_name is known
  std::array<TailItem, kMaxTailItems> tail_;
  size_t tail_items_ = 0;
};

}  // namespace kvrouter

#endif  // KVROUTER_FEED_EVENT_FIELDS_H_
