#ifndef KVROUTER_CORE_SCHEDULE_LOAD_LEDGER_H_
#define KVROUTER_CORE_SCHEDULE_LOAD_LEDGER_H_

#include <cstddef>
#include <cstdint>
#include <deque>
#include <optional>
#include <span>
#include <vector>

#include "core/schedule/index_list.h"
#include "core/schedule/live_chains.h"
#include "kvrouter/types.h"

namespace kvrouter {

// What live requests put on each target of a partition. A request is a *booking*:
//
//   Add ──> prefill tokens, until PrefillComplete    ─┐
//           distinct prompt blocks (LiveChains)        ├─ given back once, from the booking's own
//           output blocks, as they are reported        │  record, by whichever comes first: Finish,
//           one active request                        ─┘  idle expiry, RemoveTarget
//
// Every figure is an integer (blocks weigh kBlockUnits), so a target without bookings is at exactly
// 0.
//
// Weight of blocks: when a booking gets an output block, its weight becomes 1 - output / expected
// output tokens (or the fraction given), never below 0: its output blocks and the prompt blocks
// only it uses count that much. Shared prompt blocks count 1.
//
// A booking without a sign of life (every call but Finish is one) for idle_expiry is released by
// Expire.
//
// Thread safety: thread-compatible; the scheduler's mutex guards it.
// Parity: Dynamo v1.4.1 lib/kv-router/src/sequences; see docs/parity.md.
class LoadLedger {
 public:
  struct Options {
    uint32_t partition = 0;         // goes into booking ids
    uint32_t first_generation = 1;  // > those of earlier ledgers with the same partition number
    uint64_t max_bookings = 1'000'000;
    MonotonicTime idle_expiry{};
    bool track_output_blocks = false;
  };

  struct NewBooking {
    TargetSlot target{};
    // Sequence hashes of the prompt's full blocks; empty if active blocks are not tracked.
    // Borrowed.
    std::span<const SequenceHash> chain = {};
    bool share_prefixes = true;   // false: nobody else's blocks are these, whatever their hashes
    uint64_t prefill_tokens = 0;  // prompt tokens the target must compute; 0 if not tracked
    uint64_t isl_tokens = 0;
    uint32_t block_size_tokens = 1;
    std::optional<uint64_t> expected_output_tokens = {};
  };

  struct Load {
    uint64_t active_prefill_tokens = 0;
    double active_decode_blocks = 0;  // a whole number: fractions are summed, then rounded
    uint32_t active_requests = 0;
  };

  explicit LoadLedger(const Options& options) : options_(options) {}

  // ---- Targets ----

  TargetSlot AddTarget();
  // Voids its bookings and appends them, if anybody wants to know.
  void RemoveTarget(TargetSlot target, std::vector<BookingId>* voided = nullptr);
  // One past the highest slot in use: the size FindLivePrefixes needs.
  size_t SlotCount() const { return targets_.size(); }
  Load LoadOf(TargetSlot target) const {
    const TargetState& state = targets_[static_cast<uint32_t>(target)];
    const uint64_t rounded_blocks =
        state.block_units / kBlockUnits + (state.block_units % kBlockUnits >= kBlockUnits / 2);
    return {.active_prefill_tokens = state.prefill_tokens,
            .active_decode_blocks = static_cast<double>(rounded_blocks),
            .active_requests = state.requests};
  }

  // Leading blocks of `chain` that are live, at each target's slot; others are left alone.
  void FindLivePrefixes(std::span<const SequenceHash> chain,
                        std::span<uint32_t> live_blocks) const {
    chains_.FindLivePrefixes(chain, live_blocks);
  }

  // ---- Bookings. `false`: the booking is not live. ----

  // Nothing if max_bookings are live (or all ids are used up).
  std::optional<BookingId> Add(const NewBooking& booking, MonotonicTime now);
  bool PrefillComplete(BookingId id, MonotonicTime now);
  // Cumulative; blocks are added when it crosses block boundaries of prompt plus output.
  bool OutputTokens(BookingId id, uint64_t output_tokens, std::optional<double> fraction,
                    MonotonicTime now);
  bool OutputBlock(BookingId id, std::optional<double> fraction, MonotonicTime now);
  bool KeepAlive(BookingId id, MonotonicTime now);
  bool Finish(BookingId id);
  bool IsLive(BookingId id) const;

  // Releases idle bookings and appends their ids. Cost: one step per released booking.
  void Expire(MonotonicTime now, std::vector<BookingId>* expired);

  uint64_t LiveBookings() const { return live_bookings_; }
  uint64_t ExpiredTotal() const { return expired_total_; }
  // Greater than the generation of every id handed out.
  uint32_t NextGeneration() const { return highest_generation_ + 1; }
  // Nodes of the tree of live prompts, for tests of memory return.
  size_t ChainNodeCount() const { return chains_.NodeCount(); }

 private:
  struct Booking {
    uint32_t generation = 0;
    bool live = false;
    TargetSlot target{};
    LiveChains::NodeId leaf = LiveChains::kRoot;
    uint32_t weight = kBlockUnits;
    uint32_t block_size_tokens = 1;
    uint64_t private_blocks = 0;  // prompt blocks outside of the chains
    uint64_t prefill_tokens = 0;
    uint64_t isl_tokens = 0;
    uint64_t output_tokens = 0;
    uint64_t output_blocks = 0;
    std::optional<uint64_t> expected_output_tokens;
    MonotonicTime last_sign_of_life{};
    IndexLinks by_age;
    IndexLinks of_target;
  };

  struct TargetState {
    uint64_t prefill_tokens = 0;
    uint64_t block_units = 0;  // wraps rather than overflows when callers report absurd outputs;
                               // returns to 0 all the same
    uint32_t requests = 0;
    IndexList<&Booking::of_target> bookings;
  };

  TargetState& StateOf(TargetSlot target) { return targets_[static_cast<uint32_t>(target)]; }
  // The slot's number, if the id is live.
  std::optional<uint32_t> Find(BookingId id) const;
  // Find, and if found a sign of life.
  std::optional<uint32_t> Touch(BookingId id, MonotonicTime now);
  std::optional<uint32_t> TakeSlot();
  void Release(uint32_t index);
  void DropPrefill(Booking& booking);
  void GrowOutput(Booking& booking, uint64_t output_blocks, std::optional<double> fraction);
  BookingId IdOf(uint32_t index) const;

  const Options options_;
  LiveChains chains_;
  std::vector<TargetState> targets_;
  std::vector<TargetSlot> free_targets_;
  std::deque<Booking> bookings_;  // a deque: growing moves nothing
  std::vector<uint32_t> free_bookings_;
  IndexList<&Booking::by_age> by_age_;  // ascending last_sign_of_life
  MonotonicTime latest_{MonotonicTime::min()};
  uint64_t live_bookings_ = 0;
  uint64_t expired_total_ = 0;
  uint32_t highest_generation_ = 0;
};

}  // namespace kvrouter

#endif  // KVROUTER_CORE_SCHEDULE_LOAD_LEDGER_H_
