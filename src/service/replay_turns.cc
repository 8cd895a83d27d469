#include "service/replay_turns.h"

#include <algorithm>

namespace kvrouter {
namespace {

constexpr MonotonicTime kAskPeriod = std::chrono::milliseconds(10);

}  // namespace

bool ReplayTurns::Turn::MayBegin(MonotonicTime now) {
  if (turns_ == nullptr) return true;
  if (begun_) return false;
  if (ticket_ && now < ask_at_) return false;
  ask_at_ = now + kAskPeriod;
  MutexLock lock(turns_->mu_);
  if (!ticket_) ticket_ = turns_->Enqueue(now).second;
  const MonotonicTime due = turns_->due_.at(*ticket_);
  if (now < due) return false;
  // Among the first for which there is room. Those ahead begin when their owners ask next.
  const size_t free = turns_->FreePlaces(now);
  auto place = turns_->waiting_.begin();
  for (size_t i = 0; i < free; ++i, ++place) {
    if (place->second != *ticket_) continue;
    turns_->waiting_.erase(place);
    turns_->due_.erase(*ticket_);
    turns_->running_[*ticket_] = now;
    noted_at_ = now;
    begun_ = true;
    return true;
  }
  return false;
}

void ReplayTurns::Turn::Moved(MonotonicTime now) {
  if (!begun_ || now - noted_at_ < turns_->config_.stalled_after / 4) return;
  noted_at_ = now;
  MutexLock lock(turns_->mu_);
  turns_->running_[*ticket_] = now;
}

void ReplayTurns::Turn::End() {
  begun_ = false;
  if (!ticket_) return;
  MutexLock lock(turns_->mu_);
  turns_->running_.erase(*ticket_);
  if (const auto due = turns_->due_.find(*ticket_); due != turns_->due_.end()) {
    turns_->waiting_.erase({due->second, *ticket_});
    turns_->due_.erase(due);
  }
  ticket_.reset();
}

ReplayTurns::Place ReplayTurns::Enqueue(MonotonicTime now) {
  const MonotonicTime jitter = config_.jitter;
  const auto wait =
      MonotonicTime(std::uniform_int_distribution<MonotonicTime::rep>(0, jitter.count())(random_));
  const Place place{now + wait, ++last_ticket_};
  waiting_.insert(place);
  due_[place.second] = place.first;
  return place;
}

size_t ReplayTurns::FreePlaces(MonotonicTime now) const {
  const auto moving =
      static_cast<size_t>(std::count_if(running_.begin(), running_.end(), [&](const auto& replay) {
        return now - replay.second < config_.stalled_after;
      }));
  const size_t free = config_.max_at_once - std::min<size_t>(config_.max_at_once, moving);
  return std::min(free, waiting_.size());
}

ReplayTurns::Counts ReplayTurns::Read() const {
  MutexLock lock(mu_);
  return {.waiting = waiting_.size(), .running = running_.size()};
}

}  // namespace kvrouter
