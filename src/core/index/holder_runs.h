#ifndef KVROUTER_CORE_INDEX_HOLDER_RUNS_H_
#define KVROUTER_CORE_INDEX_HOLDER_RUNS_H_

#include <cstddef>
#include <cstdint>
#include <span>

#include "absl/container/inlined_vector.h"

namespace kvrouter {

// How a holder names a block that it holds.
enum class Naming : uint8_t {
  kNone,    // does not hold it
  kShared,  // by the block's shared name (and perhaps by names of its own besides)
  kOwn,     // only by names of its own
};

// Offsets [from, to) of one edge, held by one holder under one kind of naming.
struct Run {
  uint32_t slot() const { return slot_and_own >> 1; }
  Naming naming() const { return (slot_and_own & 1) != 0 ? Naming::kOwn : Naming::kShared; }
  friend bool operator==(const Run&, const Run&) = default;

  uint32_t slot_and_own = 0;
  uint32_t from = 0;
  uint32_t to = 0;
};

// Who holds which part of one edge.
//
//   offset   0 1 2 3 4 5 6 7
//   slot 3   = = = = = = = =      {3, 0, 8}
//   slot 5   = = = . . = = .      {5, 0, 3} {5, 5, 7}     offsets 3 and 4 were removed: a hole
//   slot 9   = = . . . . . .      {9, 0, 2}
//
// Invariants: sorted by (slot, from); runs of a slot are disjoint; runs that touch differ in
// naming. A block costs nothing here as long as it extends a run. Thread-compatible.
class HolderRuns {
 public:
  std::span<const Run> all() const { return {runs_.data(), runs_.size()}; }
  std::span<const Run> Of(uint32_t slot) const;
  Naming At(uint32_t slot, uint32_t offset) const { return At(Of(slot), offset); }
  static Naming At(std::span<const Run> runs_of_slot, uint32_t offset);

  // From now on `slot` holds [from, to) under `naming`, whatever it was before. REQUIRES: from <
  // to.
  void Assign(uint32_t slot, uint32_t from, uint32_t to, Naming naming);

  // `slot` no longer holds these offsets. One pass over the slot's runs however many they are: one
  // Assign per hole would move the list each time. REQUIRES: not empty, ascending.
  void Remove(uint32_t slot, std::span<const uint32_t> offsets);

  // Keeps [0, at) and returns the rest, moved to offset 0.
  HolderRuns SplitOff(uint32_t at);
  // Adds the runs of the edge that continues this one, whose length is `length`.
  void Append(const HolderRuns& continuation, uint32_t length);

  // One past the last offset that anyone holds. Stops looking when it has found `bound`.
  uint32_t HeldEnd(uint32_t bound) const;

  size_t bytes() const;

 private:
  void Replace(Run* first, Run* last, std::span<const Run> fresh);

  absl::InlinedVector<Run, 1> runs_;
};

}  // namespace kvrouter

#endif  // KVROUTER_CORE_INDEX_HOLDER_RUNS_H_
