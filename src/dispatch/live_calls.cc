#include "dispatch/live_calls.h"

#include <utility>
#include <vector>

namespace kvrouter {
namespace {

constexpr std::chrono::seconds kAbortPatience{10};

}  // namespace

LiveCalls::Refusal LiveCalls::Enter(std::shared_ptr<LiveCall> call, uint64_t* number) {
  MutexLock lock(mu_);
  if (stopped_) return Refusal::kStopped;
  if (calls_.size() >= max_calls_) return Refusal::kFull;
  *number = next_number_++;
  calls_.emplace(*number, std::move(call));
  ++figures_.started;
  return Refusal::kNone;
}

void LiveCalls::Leave(uint64_t number, std::optional<DispatchOutcome> outcome) {
  std::shared_ptr<LiveCall> call;  // dies outside the lock
  MutexLock lock(mu_);
  const auto found = calls_.find(number);
  if (found == calls_.end()) return;
  call = std::move(found->second);
  calls_.erase(found);
  if (outcome) ++figures_.ended[static_cast<size_t>(*outcome)];
  if (calls_.empty()) empty_.NotifyAll();
}

void LiveCalls::CountNeverLive(DispatchOutcome outcome) {
  MutexLock lock(mu_);
  ++figures_.started;
  ++figures_.ended[static_cast<size_t>(outcome)];
}

bool LiveCalls::WaitUntilEmpty(std::chrono::nanoseconds patience) {
  while (!calls_.empty()) {
    if (!empty_.WaitFor(mu_, patience)) return calls_.empty();
  }
  return true;
}

void LiveCalls::Stop(std::chrono::nanoseconds grace) {
  std::vector<std::shared_ptr<LiveCall>> rest;
  {
    MutexLock lock(mu_);
    stopped_ = true;
    if (grace.count() > 0 && WaitUntilEmpty(grace)) return;
    rest.reserve(calls_.size());
    for (const auto& [number, call] : calls_) rest.push_back(call);
  }
  for (const auto& call : rest) call->Abort();
  // One whose event is being handled on another thread ends there.
  MutexLock lock(mu_);
  WaitUntilEmpty(kAbortPatience);
}

LiveCalls::Figures LiveCalls::Read() const {
  MutexLock lock(mu_);
  Figures figures = figures_;
  figures.live = calls_.size();
  return figures;
}

}  // namespace kvrouter
