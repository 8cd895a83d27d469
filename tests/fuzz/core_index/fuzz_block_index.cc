// Bytes as a program of events and queries, run against the index and the naive model: every answer
// must be the same.
//
//   program   := mode op*
//   mode      bit 0: set instead of counted; bits 1-2: how engines hash (same everywhere, seeded
//             per target, arbitrary); bit 3: on all tiers. The model knows the device only, which
//             lower tiers must leave as it is; their own answers are the property test's affair
//   op      := 0-3 target parent blocks   stored; parent 0: none, 1: an arbitrary hash, else one of
//                                         the held ones; target from 192 on: of its staged state,
//                                         bits 2-3: its tier
//            | 4-5 target count name*     removed; name even: a held one, odd: an arbitrary hash
//            | 6 target kind              cleared, gone, or its staged state committed
//            | 7 query
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "base/check.h"
#include "core/index/block_index.h"
#include "support/naive_index.h"

namespace kvrouter {
namespace {

class Program {
 public:
  Program(const uint8_t* data, size_t size) : data_(data), size_(size) {}

  void Run() {
    const uint8_t mode = Byte();
    counting_ = (mode & 1) != 0 ? StoreCounting::kSet : StoreCounting::kCounted;
    hashing_ = mode >> 1 & 3;
    all_tiers_ = (mode >> 3 & 1) != 0;
    constexpr int kMaxOps = 400;  // the model is slow
    for (int op = 0; op < kMaxOps && at_ < size_; ++op) {
      Step(Byte() % 8);
      if (op % 32 == 0) index_.CheckInvariants();
    }
    index_.CheckInvariants();
    KVR_CHECK(index_.Stats().holder_blocks == model_.HolderBlocks(), "holder blocks");
    if (!all_tiers_) {
      KVR_CHECK(index_.Stats().unique_blocks == model_.UniqueBlocks(), "unique blocks");
      return;
    }
    for (uint8_t target = 0; target < 4; ++target) index_.RemoveTarget(TargetOf(target));
    KVR_CHECK(index_.Stats().unique_blocks == 0, "blocks are left");
  }

 private:
  uint8_t Byte() { return at_ < size_ ? data_[at_++] : 0; }
  Target AnyTarget() {
    const uint8_t byte = Byte();
    staged_ = byte >= 192;
    if (all_tiers_) tier_ = static_cast<StorageTier>(byte >> 2 & 3);
    return TargetOf(byte % 4);
  }
  static Target TargetOf(uint8_t b) { return {WorkerId{b / 2u}, b % 2u}; }
  LocalBlockHash AnyContent() { return LocalBlockHash{Byte() % 3u}; }

  EngineHash AnyName(Target target, uint8_t choice) const {
    const auto names = model_.NamesOf(target, staged_);
    if (choice % 2 == 1 || names.empty()) return EngineHash{choice / 2u};
    return names[choice / 2u % names.size()];
  }

  EngineHash NameFor(Target target, const NaiveIndex::Path& path, uint8_t choice) const {
    if (hashing_ == 2 || choice >= 240) return EngineHash{choice % 32u};
    uint64_t h = hashing_ == 1 ? static_cast<uint64_t>(target.worker) * 2 + target.dp_rank + 1 : 0;
    for (const LocalBlockHash content : path) h = h * 31 + static_cast<uint64_t>(content) + 1;
    return EngineHash{choice >= 220 ? h + 1'000'000 : h};
  }

  void Step(uint8_t op) {
    if (op == 7) return Query();
    KvEvent event;
    event.target = AnyTarget();
    event.counting = counting_;
    event.tier = tier_;
    if (staged_) event.staging = Staging::kStaged;
    if (op < 4) {
      event.data = AnyStored(event.target);
    } else if (op < 6) {
      Removed removed;
      for (int n = Byte() % 5; n > 0; --n)
        removed.engine_hashes.push_back(AnyName(event.target, Byte()));
      event.data = removed;
    } else if (const uint8_t kind = Byte() % 4; kind % 2 == 0) {
      event.data = Cleared{};
      if (kind == 2) event.staging = Staging::kCommit;
    } else {
      index_.RemoveTarget(event.target);
      model_.RemoveTarget(event.target);
      return;
    }
    ApplyResult result = index_.Apply(event);
    const ApplyResult expected = model_.Apply(event);
    const bool is_cleared = std::holds_alternative<Cleared>(event.data);
    if (all_tiers_ && is_cleared) result.blocks_removed = expected.blocks_removed;  // of all tiers
    KVR_CHECK(result == expected || (tier_ != StorageTier::kDevice && !is_cleared),
              "result of op {} at byte {}", op, at_);
    KVR_CHECK(index_.HolderBlocks(event.target) == model_.HolderBlocks(event.target),
              "held after byte {}", at_);
  }

  Stored AnyStored(Target target) {
    Stored stored;
    NaiveIndex::Path path;
    if (const uint8_t parent = Byte(); parent == 1) {
      stored.parent = EngineHash{Byte()};
    } else if (parent > 1) {
      const auto names = model_.NamesOf(target, staged_);
      if (!names.empty()) {
        stored.parent = names[parent % names.size()];
        path = model_.PathOf(target, *stored.parent, staged_);
      }
    }
    stored.copies = tier_ != StorageTier::kDevice && Byte() % 4 == 0;
    for (int n = Byte() % 8; n > 0; --n) {
      path.push_back(AnyContent());
      stored.blocks.push_back({NameFor(target, path, Byte()), path.back()});
    }
    return stored;
  }

  void Query() {
    NaiveIndex::Path path;
    for (int n = Byte() % 12; n > 0; --n) path.push_back(AnyContent());
    std::vector<OverlapMatch> matches;
    std::vector<LowerTierMatch> lower;
    index_.FindOverlap(path, &matches, &lower);
    for (const LowerTierMatch& match : lower) {
      const auto same = [&](const OverlapMatch& m) { return m.target == match.target; };
      const auto device = std::find_if(matches.begin(), matches.end(), same);
      const uint32_t device_blocks = device == matches.end() ? 0 : device->blocks;
      const uint32_t lower_blocks = match.host_blocks + match.disk_blocks + match.external_blocks;
      KVR_CHECK(lower_blocks > 0 && device_blocks + lower_blocks <= path.size(),
                "lower tiers at byte {}", at_);
    }
    KVR_CHECK(matches == model_.FindOverlap(path), "query that ends at byte {}", at_);
  }

  const uint8_t* data_;
  size_t size_;
  size_t at_ = 0;
  StoreCounting counting_ = StoreCounting::kCounted;
  int hashing_ = 0;
  bool all_tiers_ = false;
  bool staged_ = false;  // of the present op
  StorageTier tier_ = StorageTier::kDevice;
  BlockIndex index_;
  NaiveIndex model_;
};

}  // namespace
}  // namespace kvrouter

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  kvrouter::Program(data, size).Run();
  return 0;
}
