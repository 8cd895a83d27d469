#include "core/plan/recent_continuations.h"

#include <algorithm>

#include "base/check.h"

namespace kvrouter {
namespace {

constexpr int kTimeBits = 40;  // 34 years of milliseconds
constexpr uint64_t kTimeMask = (uint64_t{1} << kTimeBits) - 1;
constexpr uint64_t kTagMask = (uint64_t{1} << (64 - kTimeBits)) - 1;

uint64_t TimeOf(uint64_t entry) { return entry & kTimeMask; }

uint64_t Scaled(uint64_t hash, uint64_t bound) {
  return static_cast<uint64_t>((static_cast<unsigned __int128>(hash) * bound) >> 64);
}

uint64_t Milliseconds(std::chrono::nanoseconds d) {
  return static_cast<uint64_t>(std::chrono::floor<std::chrono::milliseconds>(d).count());
}

std::chrono::nanoseconds FromMilliseconds(uint64_t ms) {
  return std::chrono::milliseconds(static_cast<int64_t>(ms));
}

}  // namespace

RecentContinuations::RecentContinuations(const Options& options)
    : options_(options),
      bucket_count_(options.max_sessions / 5 + 1),  // 5 of 8 entries in use
      buckets_(static_cast<Bucket*>(std::calloc(bucket_count_, sizeof(Bucket)))),
      // The window touches one second more than it is long, and the present one.
      counts_(static_cast<size_t>(options.window.count()) + 2) {
  KVR_CHECK(buckets_ != nullptr, "no memory for {} buckets", bucket_count_);
}

RecentContinuations::Place RecentContinuations::PlaceOf(SessionKey key) const {
  const uint64_t first = MixBits(static_cast<uint64_t>(key));
  const uint64_t second = MixBits(first + 0x9e3779b97f4a7c15);
  return {.first = Scaled(first, bucket_count_),
          .second = Scaled(second, bucket_count_),
          .tag = (first & kTagMask) << kTimeBits};
}

// Starts where the whole window lies behind, so that no difference is negative and no entry is 0.
uint64_t RecentContinuations::MillisecondsAt(MonotonicTime now) const {
  const uint64_t first_ms = counts_.size() * 1000;
  return started_ ? first_ms + Milliseconds(std::max(now - epoch_, MonotonicTime::zero()))
                  : first_ms;
}

bool RecentContinuations::IsAlive(uint64_t entry) const {
  return entry != 0 && TimeOf(entry) >= horizon_ms_;
}

uint64_t* RecentContinuations::FindAlive(const Place& place) const {
  for (const uint64_t bucket : {place.first, place.second}) {
    for (uint64_t& entry : buckets_[bucket].entries) {
      if ((entry & ~kTimeMask) == place.tag && IsAlive(entry)) return &entry;
    }
  }
  return nullptr;
}

RecentContinuations::Room RecentContinuations::RoomAt(const Place& place) const {
  Room room;
  size_t most_dead = 0;
  for (const uint64_t bucket : {place.first, place.second}) {
    size_t dead = 0;
    uint64_t* dead_entry = nullptr;
    for (uint64_t& entry : buckets_[bucket].entries) {
      if (!IsAlive(entry)) {
        ++dead;
        dead_entry = &entry;
      } else if (room.oldest == nullptr || TimeOf(entry) < TimeOf(*room.oldest)) {
        room.oldest = &entry;
      }
    }
    if (dead > most_dead) {
      most_dead = dead;
      room.dead = dead_entry;
    }
  }
  return room;
}

void RecentContinuations::AdvanceHorizon(uint64_t now_ms) {
  const uint64_t window_ms = static_cast<uint64_t>(options_.window.count()) * 1000;
  // The first second whose last millisecond is less than the window ago.
  const uint64_t target_ms = ((now_ms - window_ms - 999) / 1000 + 1) * 1000;
  if (target_ms <= horizon_ms_) return;
  const uint64_t seconds = std::min((target_ms - horizon_ms_) / 1000, counts_.size());
  for (uint64_t i = 0; i < seconds; ++i) {
    uint32_t& count = CountOf(horizon_ms_ + i * 1000);
    sessions_ -= count;
    count = 0;
  }
  horizon_ms_ = target_ms;
}

bool RecentContinuations::ForgetOldestSecond(uint64_t now_ms) {
  for (; horizon_ms_ / 1000 < now_ms / 1000; horizon_ms_ += 1000) {
    uint32_t& count = CountOf(horizon_ms_);
    if (count == 0) continue;
    sessions_ -= count;
    evicted_total_ += count;
    count = 0;
    horizon_ms_ += 1000;
    return true;
  }
  return false;
}

void RecentContinuations::Displace(uint64_t* entry) {
  --CountOf(TimeOf(*entry));
  --sessions_;
  ++evicted_total_;
  *entry = 0;
}

std::optional<std::chrono::nanoseconds> RecentContinuations::Touch(SessionKey key,
                                                                   MonotonicTime now) {
  if (!started_) {
    started_ = true;
    epoch_ = now;
  }
  const uint64_t now_ms = MillisecondsAt(now);
  AdvanceHorizon(now_ms);
  const Place place = PlaceOf(key);
  if (uint64_t* const entry = FindAlive(place)) {
    const auto idle = Peek(key, now);
    --CountOf(TimeOf(*entry));
    ++CountOf(now_ms);
    *entry = place.tag | now_ms;
    return idle;
  }
  const bool full = sessions_ >= options_.max_sessions && !ForgetOldestSecond(now_ms);
  Room room = RoomAt(place);
  if (full || room.dead == nullptr) {
    if (room.oldest == nullptr) {
      ++evicted_total_;  // itself
      return std::nullopt;
    }
    Displace(room.oldest);
    room.dead = room.oldest;
  }
  *room.dead = place.tag | now_ms;
  ++CountOf(now_ms);
  ++sessions_;
  return std::nullopt;
}

std::optional<std::chrono::nanoseconds> RecentContinuations::Peek(SessionKey key,
                                                                  MonotonicTime now) const {
  const uint64_t* const entry = FindAlive(PlaceOf(key));
  if (entry == nullptr) return std::nullopt;
  const uint64_t now_ms = MillisecondsAt(now);
  const auto idle = FromMilliseconds(now_ms - std::min(TimeOf(*entry), now_ms));
  return idle < options_.window ? std::optional(idle) : std::nullopt;
}

RecentContinuations::Stats RecentContinuations::GetStats() const {
  return {.sessions = sessions_,
          .evicted_total = evicted_total_,
          .capacity_bytes = bucket_count_ * sizeof(Bucket)};
}

}  // namespace kvrouter
