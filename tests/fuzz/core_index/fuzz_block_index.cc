// Bytes as a program of events and queries, run against the index and the naive model: every answer
// must be the same.
//
//   program   := mode op*
//   mode      bit 0: set instead of counted; bits 1-2: how engines hash (same everywhere, seeded per
//             target, arbitrary)
//   op      := 0-3 target parent blocks   stored; parent 0: none, 1: an arbitrary hash, else one of
//                                         the held ones; target from 192 on: of its staged state
//            | 4-5 target count name*     removed; name even: a held one, odd: an arbitrary hash
//            | 6 target kind              cleared, gone, or its staged state committed
//            | 7 query
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
    constexpr int kMaxOps = 400;  // the model is slow
    for (int op = 0; op < kMaxOps && at_ < size_; ++op) {
      Step(Byte() % 8);
      if (op % 32 == 0) index_.CheckInvariants();
    }
    index_.CheckInvariants();
    KVR_CHECK(index_.Stats().holder_blocks == model_.HolderBlocks(), "holder blocks");
    KVR_CHECK(index_.Stats().unique_blocks == model_.UniqueBlocks(), "unique blocks");
  }

 private:
  uint8_t Byte() { return at_ < size_ ? data_[at_++] : 0; }
  Target AnyTarget() {
    const uint8_t byte = Byte();
    staged_ = byte >= 192;
    const uint8_t b = byte % 4;
    return {WorkerId{b / 2u}, b % 2u};
  }
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
    KVR_CHECK(index_.Apply(event) == model_.Apply(event), "result of op {} at byte {}", op, at_);
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
    index_.FindOverlap(path, &matches);
    KVR_CHECK(matches == model_.FindOverlap(path), "query that ends at byte {}", at_);
  }

  const uint8_t* data_;
  size_t size_;
  size_t at_ = 0;
  StoreCounting counting_ = StoreCounting::kCounted;
  int hashing_ = 0;
  bool staged_ = false;  // of the present op
  BlockIndex index_;
  NaiveIndex model_;
};

}  // namespace
}  // namespace kvrouter

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  kvrouter::Program(data, size).Run();
  return 0;
}
