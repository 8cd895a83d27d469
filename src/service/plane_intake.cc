#include "service/plane_intake.h"

#include <fmt/format.h>
#include <pthread.h>

#include <algorithm>
#include <chrono>
#include <stop_token>
#include <system_error>
#include <utility>

#include "base/status_macros.h"
#include "kvrouter/error.h"

namespace kvrouter {
namespace {

constexpr MonotonicTime kTickPeriod = std::chrono::milliseconds(50);
constexpr size_t kItemsPerTurn = 256;  // between two looks at the worker set and at the time

size_t BytesOf(std::string_view envelope) { return envelope.size() + 64; }

std::optional<double> Blocks(std::optional<uint64_t> blocks) {
  if (!blocks) return std::nullopt;
  return static_cast<double>(*blocks);
}

PlaneFeedConfig FeedConfig(PlaneFeedConfig config, const RankRepairs* repairs) {
  config.repairable = [repairs](const WorkerSpec& spec, uint32_t dp_rank) {
    return repairs->Possible(spec, dp_rank);
  };
  config.repair_proves = [repairs](const WorkerSpec& spec, uint32_t dp_rank) {
    return repairs->Proves(spec, dp_rank);
  };
  return config;
}

}  // namespace

PlaneIntake::PlaneIntake(const PlaneIntakeConfig& config, Router* router, FeedMonitor* monitor,
                         ReportedLoads* loads, const Clock* clock,
                         std::vector<const RankHistory*> histories)
    : config_(config),
      router_(router),
      monitor_(monitor),
      loads_(loads),
      clock_(clock),
      repairs_(std::move(histories), config.repair_threads,
               [this](Target target, uint64_t ticket, absl::StatusOr<RankPicture> picture) {
                 Push({.kind = Item::Kind::kRepaired,
                       .text = "",
                       .target = target,
                       .answer = std::make_unique<RepairAnswer>(
                           RepairAnswer{.ticket = ticket, .picture = std::move(picture)})});
               }),
      feed_(FeedConfig(config.feed, &repairs_)) {}

PlaneIntake::~PlaneIntake() { Stop(); }

absl::Status PlaneIntake::Start() {
  KVR_RETURN_IF_ERROR(repairs_.Start());
  try {
    thread_ = std::jthread([this](const std::stop_token& stop) { Run(stop); });
  } catch (const std::system_error& error) {
    repairs_.Stop();
    return MakeError(absl::StatusCode::kResourceExhausted, ErrorReason::kLimitReached,
                     fmt::format("event plane thread: {}", error.what()));
  }
  pthread_setname_np(thread_.native_handle(), "kvr-plane");
  return absl::OkStatus();
}

void PlaneIntake::Stop() {
  if (thread_.joinable()) {
    thread_.request_stop();
    thread_.join();
  }
  repairs_.Stop();
}

void PlaneIntake::Push(uint32_t path, std::string_view envelope) {
  const size_t bytes = BytesOf(envelope);
  MutexLock lock(mu_);
  if (queue_.size() >= config_.max_queued_messages ||
      queued_bytes_ + bytes > config_.max_queued_bytes) {
    ++dropped_;
    return;
  }
  queued_bytes_ += bytes;
  PushLocked({.kind = Item::Kind::kMessage, .path = path, .text = std::string(envelope)});
}

void PlaneIntake::PushBadFraming() {
  MutexLock lock(mu_);
  if (queue_.size() < config_.max_queued_messages)
    PushLocked({.kind = Item::Kind::kBadFraming, .text = ""});
}

// Connections break now and then, messages come all the time: these few are let in above the bound.
void PlaneIntake::PathUp(uint32_t path) {
  Push({.kind = Item::Kind::kPathUp, .path = path, .text = ""});
}
void PlaneIntake::PathDown(uint32_t path, std::string_view why) {
  Push({.kind = Item::Kind::kPathDown, .path = path, .text = std::string(why)});
}

void PlaneIntake::Dropped(uint64_t messages) {
  MutexLock lock(mu_);
  dropped_ += messages;
}

void PlaneIntake::Push(Item item) {
  MutexLock lock(mu_);
  PushLocked(std::move(item));
}

void PlaneIntake::PushLocked(Item item) {
  if (dropped_ > 0) {
    queue_.push_back(
        {.kind = Item::Kind::kDrop, .dropped = std::exchange(dropped_, 0), .text = ""});
    ++pushed_;
  }
  queue_.push_back(std::move(item));
  ++pushed_;
  wake_.NotifyOne();
}

// ---- The worker set, and who else feeds its ranks ----

void PlaneIntake::OnWorkerChanged(const WorkerSpec& spec) {
  std::set<Target> with_socket;
  for (const auto& [dp_rank, endpoints] : spec.events) {
    if (!endpoints.live.empty()) with_socket.insert({spec.id, dp_rank});
  }
  for (const Target target : with_socket)
    SetElsewhere(target, spec.incarnation, &Elsewhere::socket, true);
  for (const Target target : ElsewhereOf(spec.id)) {
    if (!with_socket.contains(target))
      SetElsewhere(target, spec.incarnation, &Elsewhere::socket, false);
  }
  Post(spec.id, spec);
}

void PlaneIntake::OnWorkerRemoved(WorkerId id, Incarnation incarnation) {
  Post(id, std::nullopt);
  {
    MutexLock lock(apply_mu_);
    fed_.erase(fed_.lower_bound({id, 0}), fed_.upper_bound({id, UINT32_MAX}));
  }
  for (const Target target : ElsewhereOf(id))
    SetElsewhere(target, incarnation, &Elsewhere::socket, false);
}

void PlaneIntake::OnRankPublished(Target target, Incarnation incarnation) {
  SetElsewhere(target, incarnation, &Elsewhere::published, true);
}

void PlaneIntake::OnRankGivenBack(Target target) {
  SetElsewhere(target, Incarnation{}, &Elsewhere::published, false);
}

std::vector<Target> PlaneIntake::ElsewhereOf(WorkerId id) const {
  MutexLock lock(apply_mu_);
  std::vector<Target> targets;
  for (auto it = elsewhere_.lower_bound({id, 0}); it != elsewhere_.end() && it->first.worker == id;
       ++it) {
    targets.push_back(it->first);
  }
  return targets;
}

void PlaneIntake::SetElsewhere(Target target, Incarnation incarnation, bool Elsewhere::*source,
                               bool has_it) {
  bool fed_here_before = false;
  {
    MutexLock lock(apply_mu_);
    const auto known = elsewhere_.find(target);
    if (known == elsewhere_.end() ? !has_it : known->second.*source == has_it) return;
    fed_here_before = known == elsewhere_.end();
    elsewhere_[target].*source = has_it;
    if (fed_here_before && fed_.erase(target) > 0) {
      router_->Apply({.target = target, .incarnation = incarnation, .data = Cleared{}});
    }
  }
  if (fed_here_before) Push({.kind = Item::Kind::kFedElsewhere, .text = "", .target = target});
  if (!has_it) Push({.kind = Item::Kind::kGivenBack, .text = "", .target = target});
}

void PlaneIntake::GiveBack(Target target) {
  to_give_back_.erase(target);
  {
    MutexLock lock(apply_mu_);
    const auto known = elsewhere_.find(target);
    if (known == elsewhere_.end() || known->second.socket || known->second.published) return;
    // What a socket that is being closed takes out of the index must not be what we put there.
    if (monitor_->StateOf(target, FeedSource::kSocket) != FeedState::kNone) {
      to_give_back_.insert(target);
      return;
    }
    elsewhere_.erase(known);
  }
  feed_.OnFedHere(target, &events_);
  ApplyEvents();
}

void PlaneIntake::Post(WorkerId id, std::optional<WorkerSpec> spec) {
  MutexLock lock(mu_);
  Wish& wish = wishes_[id];
  if (!spec || (wish.spec && !SameBlocks(*wish.spec, *spec))) wish.reset = true;
  wish.spec = std::move(spec);
  wish.position = pushed_;
  ++wishes_posted_;
  wake_.NotifyOne();
}

size_t PlaneIntake::QueuedMessages() const {
  MutexLock lock(mu_);
  return queue_.size();
}

void PlaneIntake::Run(const std::stop_token& stop) {
  const std::stop_callback wake(stop, [this] {
    MutexLock lock(mu_);
    wake_.NotifyAll();
  });
  std::vector<Item> items;
  Wishes wishes;
  MonotonicTime next_tick{};
  while (!stop.stop_requested()) {
    Take(stop, &items, &wishes);
    for (Item& item : items) Handle(&item);
    for (const auto& [id, wish] : wishes) Fulfil(id, wish);
    const MonotonicTime now = clock_->Now();
    if (now < next_tick) continue;
    next_tick = now + kTickPeriod;
    feed_.OnTick(now, &events_);
    ApplyEvents();
    NoteRecovery();
    TendRepairs();
    for (const Target target : std::set<Target>(to_give_back_)) GiveBack(target);
    Report();
  }
  Report();
}

void PlaneIntake::Take(const std::stop_token& stop, std::vector<Item>* items, Wishes* wishes) {
  items->clear();
  wishes->clear();
  MutexLock lock(mu_);
  if (queue_.empty() && wishes_.empty() && !stop.stop_requested()) wake_.WaitFor(mu_, kTickPeriod);
  // Up to the next wish, so that it is fulfilled in its turn.
  uint64_t turn_ends = taken_ + kItemsPerTurn;
  for (const auto& [id, wish] : wishes_) turn_ends = std::min(turn_ends, wish.position);
  while (taken_ < turn_ends && !queue_.empty()) {
    const Item& next = queue_.front();
    if (next.kind == Item::Kind::kMessage) queued_bytes_ -= BytesOf(next.text);
    items->push_back(std::move(queue_.front()));
    queue_.pop_front();
    ++taken_;
  }
  if (queue_.empty() && dropped_ > 0) {  // nothing came after what was dropped
    items->push_back(
        {.kind = Item::Kind::kDrop, .dropped = std::exchange(dropped_, 0), .text = ""});
  }
  for (auto it = wishes_.begin(); it != wishes_.end();) {
    if (it->second.position > taken_) {
      ++it;
      continue;
    }
    wishes->insert(wishes_.extract(it++));
  }
}

void PlaneIntake::Handle(Item* item) {
  switch (item->kind) {
    case Item::Kind::kMessage:
      feed_.OnMessage(item->path, item->text, clock_->Now(), &events_);
      return ApplyEvents();
    case Item::Kind::kBadFraming:
      return feed_.OnBadFraming();
    case Item::Kind::kPathUp:
      return feed_.OnPathUp(item->path);
    case Item::Kind::kPathDown:
      return feed_.OnPathDown(item->path, item->text);
    case Item::Kind::kDrop:
      return feed_.OnDropped(item->dropped);
    case Item::Kind::kFedElsewhere:
      return feed_.OnFedElsewhere(item->target);
    case Item::Kind::kGivenBack:
      return GiveBack(item->target);
    case Item::Kind::kRepaired:
      break;
  }
  auto& [ticket, picture] = *item->answer;
  if (picture.ok()) {
    const auto settled = std::move(picture->settled);
    const size_t events = events_.size();
    feed_.OnRepaired(item->target, ticket, *std::move(picture), clock_->Now(), &events_);
    if (settled) settled(events_.size() > events);
  } else {
    feed_.OnRepairFailed(item->target, ticket, std::string(picture.status().message()));
  }
  ApplyEvents();
}

void PlaneIntake::Fulfil(WorkerId id, const Wish& wish) {
  if (wish.spec) {
    if (wish.reset) loads_->RemoveWorker(id);
    loads_->SetWorker(*wish.spec);
    feed_.SetWorker(*wish.spec, wish.reset, &events_);
  } else {
    loads_->RemoveWorker(id);
    feed_.RemoveWorker(id, &events_);
  }
  ApplyEvents();
}

void PlaneIntake::ApplyEvents() {
  for (const KvEvent& event : events_) {
    ApplyResult result;
    {
      MutexLock lock(apply_mu_);
      if (elsewhere_.contains(event.target)) continue;
      result = router_->Apply(event);
      const bool refused = result.status == ApplyStatus::kUnknownWorker ||
                           result.status == ApplyStatus::kStaleIncarnation;
      if (!refused) fed_.insert(event.target);
    }
    monitor_->CountApplied(event, result);
    feed_.OnApplyResult(event.target, result);
  }
  events_.clear();
}

void PlaneIntake::TendRepairs() {
  repairs_.CancelUnless(
      [this](Target target, uint64_t ticket) { return feed_.RepairRunning(target, ticket); });
  for (RankRepairs::Repair& repair : feed_.TakeRepairs(repairs_.FreeThreads(), clock_->Now())) {
    repairs_.Begin(std::move(repair));
  }
}

// After the tick, with every wish that was taken fulfilled: a rank that it made has had its say.
void PlaneIntake::NoteRecovery() {
  if (!feed_.InitialRecoveryDone()) return;
  MutexLock lock(mu_);
  if (wishes_.empty()) wishes_settled_ = wishes_posted_;
}

bool PlaneIntake::InitialRecoveryDone() const {
  MutexLock lock(mu_);
  return wishes_settled_ == wishes_posted_;
}

void PlaneIntake::Report() {
  const PlaneFeed::Changes changes = feed_.TakeChanges();
  const auto update = [this](const PlaneFeed::RankReport& rank) {
    monitor_->Update({.target = rank.target,
                      .source = FeedSource::kEventPlane,
                      .state = rank.state,
                      .reason = rank.reason,
                      .detail = rank.detail,
                      .counters = rank.counters});
  };
  for (const PlaneFeed::RankReport& rank : changes.gone) {
    update(rank);  // nothing counted is lost with it
    monitor_->Remove(rank.target, FeedSource::kEventPlane);
  }
  for (const PlaneFeed::RankReport& rank : changes.ranks) update(rank);
  const MonotonicTime now = clock_->Now();
  for (const ActiveLoad& load : changes.loads) {
    loads_->Update(load, now);
    router_->ReportLoad({.target = load.target,
                         .kv_used_blocks = Blocks(load.kv_used_blocks),
                         .active_decode_blocks = Blocks(load.active_decode_blocks)});
  }
  monitor_->UpdateUnattributed(FeedSource::kEventPlane, feed_.Unattributed());
}

}  // namespace kvrouter
