#include "property/truth/plane_bus.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstdio>

namespace kvrouter::truth {
namespace {

using std::chrono::microseconds;
using std::chrono::milliseconds;
using std::chrono::seconds;

PlaneFeedConfig FeedConfig(uint32_t brokers) {
  PlaneFeedConfig config;
  if (brokers > 1) config.rank.gap_wait = milliseconds(500);
  return config;
}

}  // namespace

PlaneBus::PlaneBus(uint32_t brokers, Router* router, Timeline* timeline, uint64_t seed)
    : timeline_(*timeline),
      router_(*router),
      dice_(seed),
      feed_(FeedConfig(brokers)),
      brokers_(brokers) {
  for (uint32_t i = 0; i < brokers; ++i) feed_.OnPathUp(i);
}

void PlaneBus::SetWorker(const WorkerSpec& spec) {
  for (uint32_t rank = 0; rank < spec.dp_size; ++rank) seen_[{spec.id, rank}].harmed = true;
  feed_.SetWorker(spec, /*reset=*/false, &out_);
  Drain();
  for (uint32_t rank = 0; rank < spec.dp_size; ++rank) Trace({spec.id, rank}, "registered");
}

void PlaneBus::RemoveWorker(WorkerId id) {
  feed_.RemoveWorker(id, &out_);
  Drain();
}

void PlaneBus::Publish(const PlaneMessage& message) {
  Seen& seen = seen_[message.target];
  if (std::exchange(seen.life, message.said.life) != message.said.life)
    BeginLife(message.target, message.said.sequence == 0);
  Trouble& trouble = trouble_[message.target];
  // Two brokers seldom lose the same message; what one of them loses costs nothing.
  const uint32_t unlucky = dice_.Below(static_cast<uint32_t>(brokers_.size()));
  const bool for_all = brokers_.size() == 1 || dice_.Chance(0.5);
  const bool lose = trouble.lose > 0 && trouble.lose-- > 0;
  const bool mangle = trouble.mangle > 0 && trouble.mangle-- > 0;
  const bool repeat = trouble.repeat > 0 && trouble.repeat-- > 0;
  if (lose || mangle) seen.harmed = true;
  for (uint32_t broker = 0; broker < brokers_.size(); ++broker) {
    const bool struck = for_all || broker == unlucky;
    if (!brokers_[broker].up || (lose && struck)) continue;
    PlaneMessage sent = message;
    if (mangle && struck) {
      sent.envelope.resize(dice_.Below(static_cast<uint32_t>(sent.envelope.size())));
      sent.intact = false;
    }
    Send(broker, sent, dice_.Between(microseconds(100), milliseconds(3)));
    if (repeat) Send(broker, sent, dice_.Between({}, milliseconds(1)));
  }
}

void PlaneBus::BeginLife(Target target, bool from_its_first) {
  seen_[target].harmed = !from_its_first;
  for (Broker& broker : brokers_) {
    if (!broker.up) Harm(target);
  }
}

void PlaneBus::Send(uint32_t broker, const PlaneMessage& message, MonotonicTime delay) {
  MonotonicTime& last = brokers_[broker].last_arrival[message.target];
  last = std::max(last, timeline_.Now()) + delay;
  timeline_.InLifeOf(shared_from_this(), last,
                     [broker, message](PlaneBus& self) { self.Deliver(broker, message); });
}

void PlaneBus::Deliver(uint32_t broker, const PlaneMessage& message) {
  if (!brokers_[broker].up) return;
  feed_.OnMessage(broker, message.envelope, timeline_.Now(), &out_);
  auto& notices = seen_[message.target].notices;
  if (message.intact && (notices.empty() || notices.back().second < message.said))
    notices.emplace_back(timeline_.Now(), message.said);
  Drain();
  Trace(message.target,
        fmt::format("{}/{} by broker {}{}", message.said.life, message.said.sequence, broker,
                    message.intact ? "" : ", mangled"));
}

void PlaneBus::Tick() {
  feed_.OnTick(timeline_.Now(), &out_);
  Drain();
}

void PlaneBus::Stall(Target target, MonotonicTime delay) {
  Harm(target);
  Broker& broker = brokers_[dice_.Below(static_cast<uint32_t>(brokers_.size()))];
  MonotonicTime& last = broker.last_arrival[target];
  last = std::max(last, timeline_.Now()) + delay;
}

void PlaneBus::BreakBroker(MonotonicTime down) {
  const uint32_t number = dice_.Below(static_cast<uint32_t>(brokers_.size()));
  if (!brokers_[number].up) return;
  for (auto& [target, seen] : seen_) seen.harmed = true;
  brokers_[number].up = false;
  feed_.OnPathDown(number, "the connection broke");
  Drain();
  timeline_.InLifeOf(shared_from_this(), timeline_.Now() + down + milliseconds(5),
                     [number](PlaneBus& self) {
                       self.brokers_[number].up = true;
                       self.feed_.OnPathUp(number);
                       self.Drain();
                     });
}

void PlaneBus::Heal() { trouble_.clear(); }

const PlaneFeed::RankReport* PlaneBus::Report(Target target) const {
  const auto known = reports_.find(target);
  return known == reports_.end() ? nullptr : &known->second;
}

std::optional<MonotonicTime> PlaneBus::NoticedAt(Target target, Said said) const {
  const auto seen = seen_.find(target);
  if (seen == seen_.end()) return std::nullopt;
  for (const auto& [at, notice] : seen->second.notices) {
    if (notice >= said) return at;
  }
  return std::nullopt;
}

bool PlaneBus::NothingMissed(Target target, const Engine& engine) const {
  const auto seen = seen_.find(target);
  return seen != seen_.end() && !seen->second.harmed &&
         seen->second.life == engine.publisher_life();
}

void PlaneBus::Trace(Target target, const std::string& what) const {
  if (target != traced_) return;
  const PlaneFeed::RankReport* const report = Report(target);
  const std::string line =
      fmt::format("{:>10.4f} s  {:<32} {} {}", static_cast<double>(timeline_.Now().count()) * 1e-9,
                  what, report == nullptr ? "unknown" : FeedStateName(report->state),
                  report == nullptr ? "" : report->detail);
  std::puts(line.c_str());
}

void PlaneBus::Drain() {
  for (const KvEvent& event : out_) {
    if (std::holds_alternative<Cleared>(event.data)) Trace(event.target, "cleared");
    feed_.OnApplyResult(event.target, router_.Apply(event));
  }
  out_.clear();
  PlaneFeed::Changes changes = feed_.TakeChanges();
  for (const PlaneFeed::RankReport& gone : changes.gone) reports_.erase(gone.target);
  for (PlaneFeed::RankReport& report : changes.ranks)
    reports_.insert_or_assign(report.target, std::move(report));
}

}  // namespace kvrouter::truth
