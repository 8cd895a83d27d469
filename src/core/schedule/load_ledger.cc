#include "core/schedule/load_ledger.h"

#include <algorithm>
#include <cmath>

#include "core/schedule/booking_id.h"

namespace kvrouter {
namespace {

// No generation is longer; keeps sums of token counts far from overflow whatever a caller reports.
constexpr uint64_t kMaxOutputTokens = uint64_t{1} << 32;

uint64_t CeilDivide(uint64_t value, uint64_t divisor) {
  return value / divisor + (value % divisor != 0 ? 1 : 0);
}

uint32_t UnitsOf(double fraction) {
  // Written so that NaN becomes 1: a weight nobody can mean changes nothing.
  if (!(fraction < 1)) return kBlockUnits;
  return static_cast<uint32_t>(std::lround(std::max(0.0, fraction) * kBlockUnits));
}

}  // namespace

TargetSlot LoadLedger::AddTarget() {
  if (!free_targets_.empty()) {
    const TargetSlot target = free_targets_.back();
    free_targets_.pop_back();
    return target;
  }
  targets_.emplace_back();
  return TargetSlot{static_cast<uint32_t>(targets_.size() - 1)};
}

void LoadLedger::RemoveTarget(TargetSlot target, std::vector<BookingId>* voided) {
  while (!StateOf(target).bookings.Empty()) {
    const uint32_t first = StateOf(target).bookings.First();
    if (voided != nullptr) voided->push_back(IdOf(first));
    Release(first);
  }
  free_targets_.push_back(target);
}

std::optional<BookingId> LoadLedger::Add(const NewBooking& request, MonotonicTime now) {
  const std::optional<uint32_t> index = TakeSlot();
  if (!index) return std::nullopt;
  latest_ = std::max(latest_, now);
  Booking& booking = bookings_[*index];
  booking.live = true;
  booking.target = request.target;
  booking.weight = kBlockUnits;
  booking.block_size_tokens = request.block_size_tokens;
  booking.prefill_tokens = request.prefill_tokens;
  booking.isl_tokens = request.isl_tokens;
  booking.expected_output_tokens = request.expected_output_tokens;
  booking.last_sign_of_life = latest_;

  TargetState& state = StateOf(request.target);
  if (request.share_prefixes) {
    const auto added = chains_.Add(request.target, request.chain, booking.weight);
    booking.leaf = added.leaf;
    state.block_units += static_cast<uint64_t>(added.units);
  } else {
    booking.private_blocks = request.chain.size();
    state.block_units += booking.private_blocks * kBlockUnits;
  }
  state.prefill_tokens += booking.prefill_tokens;
  state.requests += 1;
  state.bookings.PushBack(bookings_, *index);
  by_age_.PushBack(bookings_, *index);
  ++live_bookings_;
  return IdOf(*index);
}

bool LoadLedger::PrefillComplete(BookingId id, MonotonicTime now) {
  const auto index = Touch(id, now);
  if (!index) return false;
  DropPrefill(bookings_[*index]);
  return true;
}

bool LoadLedger::OutputTokens(BookingId id, uint64_t output_tokens, std::optional<double> fraction,
                              MonotonicTime now) {
  const auto index = Touch(id, now);
  if (!index) return false;
  if (!options_.track_output_blocks) return true;
  Booking& booking = bookings_[*index];
  booking.output_tokens =
      std::max(booking.output_tokens, std::min(output_tokens, kMaxOutputTokens));
  const uint64_t crossed =
      CeilDivide(booking.isl_tokens + booking.output_tokens, booking.block_size_tokens) -
      CeilDivide(booking.isl_tokens, booking.block_size_tokens);
  if (crossed > booking.output_blocks) GrowOutput(booking, crossed, fraction);
  return true;
}

bool LoadLedger::OutputBlock(BookingId id, std::optional<double> fraction, MonotonicTime now) {
  const auto index = Touch(id, now);
  if (!index) return false;
  if (!options_.track_output_blocks) return true;
  Booking& booking = bookings_[*index];
  booking.output_tokens =
      std::min(booking.output_tokens + booking.block_size_tokens, kMaxOutputTokens);
  GrowOutput(booking, booking.output_blocks + 1, fraction);
  return true;
}

bool LoadLedger::KeepAlive(BookingId id, MonotonicTime now) { return Touch(id, now).has_value(); }

bool LoadLedger::Finish(BookingId id) {
  const auto index = Find(id);
  if (!index) return false;
  Release(*index);
  return true;
}

bool LoadLedger::IsLive(BookingId id) const { return Find(id).has_value(); }

void LoadLedger::Expire(MonotonicTime now, std::vector<BookingId>* expired) {
  while (!by_age_.Empty()) {
    const uint32_t oldest = by_age_.First();
    if (now - bookings_[oldest].last_sign_of_life < options_.idle_expiry) return;
    expired->push_back(IdOf(oldest));
    Release(oldest);
    ++expired_total_;
  }
}

std::optional<uint32_t> LoadLedger::Find(BookingId id) const {
  const BookingParts parts = PartsOf(id);
  if (parts.partition != options_.partition || parts.slot >= bookings_.size()) return std::nullopt;
  const Booking& booking = bookings_[parts.slot];
  if (!booking.live || booking.generation != parts.generation) return std::nullopt;
  return parts.slot;
}

std::optional<uint32_t> LoadLedger::Touch(BookingId id, MonotonicTime now) {
  const auto index = Find(id);
  if (!index) return std::nullopt;
  // Times are taken before the lock, so two threads may arrive in the wrong order by a little; the
  // list stays sorted.
  latest_ = std::max(latest_, now);
  bookings_[*index].last_sign_of_life = latest_;
  by_age_.Remove(bookings_, *index);
  by_age_.PushBack(bookings_, *index);
  return index;
}

std::optional<uint32_t> LoadLedger::TakeSlot() {
  if (live_bookings_ >= options_.max_bookings) return std::nullopt;
  uint32_t index = 0;
  if (!free_bookings_.empty()) {
    index = free_bookings_.back();
    free_bookings_.pop_back();
  } else {
    // Retired slots count too; the id has no room for more.
    if (bookings_.size() >= kMaxBookingSlots) return std::nullopt;
    if (options_.first_generation > kMaxGeneration) return std::nullopt;
    index = static_cast<uint32_t>(bookings_.size());
    bookings_.emplace_back().generation = options_.first_generation - 1;
  }
  bookings_[index].generation += 1;
  highest_generation_ = std::max(highest_generation_, bookings_[index].generation);
  return index;
}

void LoadLedger::Release(uint32_t index) {
  Booking& booking = bookings_[index];
  TargetState& state = StateOf(booking.target);
  DropPrefill(booking);
  const int64_t units = chains_.Remove(booking.target, booking.leaf, booking.weight);
  state.block_units += static_cast<uint64_t>(units);
  state.block_units -= (booking.private_blocks + booking.output_blocks) * booking.weight;
  state.requests -= 1;
  state.bookings.Remove(bookings_, index);
  by_age_.Remove(bookings_, index);
  --live_bookings_;
  const uint32_t generation = booking.generation;
  booking = Booking();
  booking.generation = generation;
  if (generation < kMaxGeneration) free_bookings_.push_back(index);  // else the slot is retired
}

void LoadLedger::DropPrefill(Booking& booking) {
  StateOf(booking.target).prefill_tokens -= booking.prefill_tokens;
  booking.prefill_tokens = 0;
}

void LoadLedger::GrowOutput(Booking& booking, uint64_t output_blocks,
                            std::optional<double> fraction) {
  if (!fraction && booking.expected_output_tokens) {
    fraction = 1 - static_cast<double>(booking.output_tokens) /
                       static_cast<double>(std::max<uint64_t>(*booking.expected_output_tokens, 1));
  }
  const uint32_t weight = fraction ? UnitsOf(*fraction) : booking.weight;
  TargetState& state = StateOf(booking.target);
  state.block_units -= (booking.private_blocks + booking.output_blocks) * booking.weight;
  state.block_units += (booking.private_blocks + output_blocks) * weight;
  if (weight != booking.weight) {
    state.block_units += static_cast<uint64_t>(
        chains_.Reweigh(booking.target, booking.leaf, booking.weight, weight));
  }
  booking.output_blocks = output_blocks;
  booking.weight = weight;
}

BookingId LoadLedger::IdOf(uint32_t index) const {
  return MakeBookingId(
      {.partition = options_.partition, .slot = index, .generation = bookings_[index].generation});
}

}  // namespace kvrouter
