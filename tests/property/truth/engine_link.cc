#include "property/truth/engine_link.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
namespace kvrouter::truth {
namespace {

using std::chrono::microseconds;
using std::chrono::milliseconds;

std::vector<std::string_view> Views(const std::vector<std::string>& frames) {
  return {frames.begin(), frames.end()};
}

// Ends early, somewhere. Not even its timestamp may be left.
void Mangle(std::vector<std::string>* frames, Dice* dice) {
  std::string& payload = frames->back();
  payload.resize(dice->Below(static_cast<uint32_t>(payload.size())));
}

}  // namespace

EngineLink::EngineLink(const EngineFeedConfig& config, Engine* engine, Router* router,
                       Timeline* timeline, uint64_t seed)
    : timeline_(*timeline),
      engine_(engine),
      router_(*router),
      dice_(seed),
      has_replay_(config.has_replay),
      feed_(config),
      witness_(engine, timeline, config.recovery_limit) {}

void EngineLink::Restore(SavedProgress progress, const Witness::Memory& witness) {
  witness_.Restore(witness, progress.applied.sequence + 1);
  feed_.Restore(std::move(progress));
}

void EngineLink::ConnectIn(MonotonicTime delay) {
  timeline_.InLifeOf(shared_from_this(), timeline_.Now() + delay, [](EngineLink& self) {
    if (self.connected_ || self.engine_ == nullptr) return;
    // Keeps trying until the process is back and the old connection is given up.
    if (!self.engine_->IsRunning() || self.notice_due_) return self.ConnectIn(milliseconds(100));
    self.connected_ = true;
    self.connection_ = std::make_shared<Connection>();
    const MonotonicTime notice = self.dice_.Between({}, milliseconds(20));
    self.timeline_.InLifeOf(self.shared_from_this(), self.timeline_.Now() + notice,
                            [connection = self.connection_](EngineLink& link) {
                              if (link.connection_ != connection || !link.connected_) return;
                              link.feed_.OnConnected(&link.out_);
                              if (link.trace_) link.Trace("connected");
                              link.FeedIsConnected();
                              link.Drain();
                            });
  });
}

void EngineLink::Break() {
  if (!connected_) return;
  connected_ = false;
  notice_due_ = true;
  connection_->cutoff = timeline_.Now() + dice_.Between({}, milliseconds(40));
  timeline_.InLifeOf(shared_from_this(), timeline_.Now() + dice_.Between({}, milliseconds(40)),
                     [](EngineLink& self) {
                       self.feed_.OnDisconnected();
                       self.feed_connected_ = false;
                       self.witness_.OnDisconnected();
                       if (self.trace_) self.Trace("disconnected");
                       self.Drain();
                     });
  timeline_.InLifeOf(shared_from_this(), timeline_.Now() + milliseconds(41),
                     [](EngineLink& self) { self.notice_due_ = false; });
}

void EngineLink::OnBatch(const Batch& batch) {
  if (!connected_) return;
  if (lose_ > 0) {
    --lose_;
    return;
  }
  std::vector<std::string> frames = LiveFrames(batch.said.sequence, batch.payload);
  bool intact = true;
  if (mangle_ > 0) {
    --mangle_;
    intact = false;
    Mangle(&frames, &dice_);
  }
  const auto send = [&](MonotonicTime delay) {
    last_arrival_ = std::max(last_arrival_, timeline_.Now()) + delay;
    timeline_.InLifeOf(shared_from_this(), last_arrival_,
                       [connection = connection_, said = batch.said, frames, intact](
                           EngineLink& self) { self.Deliver(*connection, said, frames, intact); });
  };
  send(dice_.Between(microseconds(100), milliseconds(2)));
  if (repeat_ == 0) return;
  --repeat_;
  if (dice_.Chance(0.7)) return send(microseconds(10));
  // Behind the next ones, as no TCP stream would: an old number is taken for a restart, and what
  // the engine no longer keeps is gone.
  timeline_.InLifeOf(
      shared_from_this(), last_arrival_ + dice_.Between({}, milliseconds(300)),
      [connection = connection_, said = batch.said, frames, intact](EngineLink& self) {
        self.witness_.OnLate(said, self.has_replay_);
        self.Deliver(*connection, said, frames, intact);
      });
}

void EngineLink::Deliver(const Connection& connection, Said said,
                         const std::vector<std::string>& frames, bool intact) {
  if (timeline_.Now() > connection.cutoff) return;
  feed_.OnLiveMessage(Views(frames), &out_);
  if (trace_)
    Trace(fmt::format("live {}/{}{}", said.life, said.sequence, intact ? "" : " mangled"));
  if (!feed_ever_connected_) FeedIsConnected();  // the first message says so, too
  // Left over from a connection that broke: says nothing.
  if (engine_ != nullptr && feed_connected_) StartGraceIf(witness_.OnLive(said, intact));
  Drain();
}

void EngineLink::FeedIsConnected() {
  feed_ever_connected_ = true;
  if (std::exchange(feed_connected_, true) || engine_ == nullptr) return;
  StartGraceIf(witness_.OnConnected());
}

void EngineLink::StartGraceIf(bool wanted) {
  if (!wanted) return;
  timeline_.InLifeOf(shared_from_this(), timeline_.Now() + Witness::kReplayGrace,
                     [](EngineLink& self) {
                       if (self.engine_ != nullptr) self.witness_.OnGraceOver();
                     });
}

void EngineLink::Tick() {
  feed_.OnTick(timeline_.Now(), &out_);
  Drain();
}

void EngineLink::Orphan() {
  engine_ = nullptr;
  Break();
}

void EngineLink::Stall(MonotonicTime delay) {
  last_arrival_ = std::max(last_arrival_, timeline_.Now()) + delay;
}

void EngineLink::HoldReplays(MonotonicTime until) {
  replays_held_until_ = until;
  witness_.OnReplaysHeld(until);
}

void EngineLink::Heal() {
  lose_ = mangle_ = repeat_ = 0;
  spoils_.clear();
  replays_held_until_ = {};
}

void EngineLink::Drain() {
  for (const KvEvent& event : out_) {
    if (trace_ && std::holds_alternative<Cleared>(event.data)) Trace("cleared");
    feed_.OnApplyResult(event, router_.Apply(event));
  }
  out_.clear();
  if (!feed_.ReplayRunning()) ++replay_;  // its socket is closed
  if (timeline_.Now() < replays_held_until_) return;
  const auto request = feed_.TakeReplayRequest(timeline_.Now());
  if (!request) return;
  const uint64_t replay = ++replay_;
  ReplaySpoil spoil = ReplaySpoil::kNone;
  if (!spoils_.empty()) {
    spoil = spoils_.front();
    spoils_.pop_front();
  }
  if (spoil != ReplaySpoil::kNone && spoil != ReplaySpoil::kTwice) witness_.OnSpoiledReplay();
  if (trace_)
    Trace(fmt::format("asks from {}, spoilt {}", request->from_sequence, static_cast<int>(spoil)));
  timeline_.InLifeOf(shared_from_this(),
                     timeline_.Now() + dice_.Between(microseconds(100), milliseconds(20)),
                     [replay, from = request->from_sequence, spoil](EngineLink& self) {
                       self.Answer(replay, from, spoil);
                     });
}

void EngineLink::Trace(const std::string& what) const {
  const std::string line = fmt::format(
      "{:>10.4f} s  {:<24} {} at {} {}, covered {}",
      static_cast<double>(timeline_.Now().count()) * 1e-9, what, FeedStateName(feed_.State()),
      feed_.LastSequence() ? fmt::to_string(*feed_.LastSequence()) : "nothing", feed_.Detail(),
      witness_.Covered());
  std::puts(line.c_str());
}

void EngineLink::Answer(uint64_t replay, uint64_t from_sequence, ReplaySpoil spoil) {
  if (engine_ == nullptr || !engine_->IsRunning() || replay != replay_) return;
  if (spoil == ReplaySpoil::kMute) return;
  const Dialect& dialect = engine_->config().dialect;
  std::vector<std::vector<std::string>> messages;
  for (const Batch& batch : engine_->History()) {
    if (batch.said.sequence < from_sequence) continue;
    messages.push_back(ReplyFrames(dialect, batch.said.sequence, batch.payload));
    if (spoil == ReplaySpoil::kTwice) messages.push_back(messages.back());
  }
  messages.push_back(ReplyEndFrames(dialect));
  const auto count = static_cast<uint32_t>(messages.size());
  if (spoil == ReplaySpoil::kCut) messages.resize(dice_.Below(count));
  if (spoil == ReplaySpoil::kHoles) {
    // The sender's pipe takes some before it overflows.
    const double loss = dice_.Chance(0.5) ? 0.02 : 0.3;
    uint32_t taken = 0;
    std::erase_if(messages, [&](const auto&) { return ++taken > 3 && dice_.Chance(loss); });
  }
  if (spoil == ReplaySpoil::kMangle && count > 1) Mangle(&messages[dice_.Below(count - 1)], &dice_);
  MonotonicTime at = timeline_.Now();
  uint32_t slow_messages = spoil == ReplaySpoil::kSlow ? 20 : 0;
  for (std::vector<std::string>& message : messages) {
    at += dice_.Between({}, slow_messages > 0 ? milliseconds(1500) : microseconds(300));
    timeline_.InLifeOf(shared_from_this(), at,
                       [replay, life = engine_->publisher_life(), frames = std::move(message)](
                           EngineLink& self) { self.DeliverReply(replay, life, frames); });
    if (slow_messages == 0) continue;
    --slow_messages;
    witness_.OnSlowAnswer(at);
  }
}

void EngineLink::DeliverReply(uint64_t replay, uint64_t life,
                              const std::vector<std::string>& frames) {
  if (replay != replay_ || engine_ == nullptr || engine_->publisher_life() != life) return;
  feed_.OnReplayMessage(Views(frames), timeline_.Now(), &out_);
  if (trace_) Trace("reply");
  Drain();
}

}  // namespace kvrouter::truth
