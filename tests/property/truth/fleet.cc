#include "property/truth/fleet.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <utility>

#include "feed/saved_feed_codec.h"
#include "property/truth/router_snapshot.h"

namespace kvrouter::truth {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

constexpr MonotonicTime kPhase = seconds(8);
constexpr uint32_t kPhases = 2;
// A quiet point takes as long as the widest pause between two repairs of a degraded feed.
constexpr MonotonicTime kSettle = seconds(6000);
constexpr uint32_t kProbesPerWatch = 4;

void AddCounters(const FeedCounters& more, FeedCounters* sum) {
  sum->messages += more.messages;
  sum->gaps += more.gaps;
  sum->restarts += more.restarts;
  sum->replays_started += more.replays_started;
  sum->replays_completed += more.replays_completed;
  sum->replays_failed += more.replays_failed;
  sum->reconnects += more.reconnects;
}

}  // namespace

Fleet::Fleet(uint64_t seed) : seed_(seed), dice_(seed), tree_(Mix(seed, 1)) {
  router_ = std::make_unique<Router>(RouterConfig{}, nullptr);
  for (const uint32_t dp_size : {1, 1, 1, 1, 2, 2}) {
    const bool on_plane = workers_.size() % 3 == 2 && Dice(Mix(seed, 2)).Chance(0.5);
    AddWorker(dp_size, on_plane);
  }
  OpenBus();
}

void Fleet::OpenBus() {
  const uint32_t brokers = 1 + Dice(Mix(seed_, 3)).Below(2);
  bus_ = std::make_shared<PlaneBus>(brokers, router_.get(), &timeline_,
                                    Mix(seed_, 2000 + links_opened_++));
  if (traced_) bus_->SetTrace(ranks_[*traced_].feed.target);
}

void Fleet::AddWorker(uint32_t dp_size, bool on_plane) {
  const auto index = static_cast<uint32_t>(workers_.size());
  Worker worker;
  worker.spec.id = WorkerId{10 + index};
  worker.spec.incarnation = Incarnation{1};
  worker.spec.block_size_tokens = kBlockTokens;
  worker.spec.dp_size = dp_size;
  worker.on_plane = on_plane;
  for (uint32_t dp_rank = 0; dp_rank < dp_size; ++dp_rank) {
    const auto number = static_cast<uint32_t>(ranks_.size());
    worker.ranks.push_back(number);
    Dice dice(Mix(seed_, 100 + number));
    const size_t histories[] = {4 + dice.Below(20), 60, 10'000, 10'000};
    Dice host(Mix(seed_, 300 + number));
    const auto cache = static_cast<CacheKind>(dice.Below(3));
    Dialect dialect = Dialect::Random(&dice);
    dialect.host_placeholders = host.Chance(0.3);
    const EngineConfig config{.cache = cache,
                              .host_tier = host.Chance(0.4),
                              .dialect = dialect,
                              .dp_rank = dp_rank,
                              .history_batches = histories[dice.Below(4)]};
    Rank rank;
    rank.worker = index;
    rank.feed = {.target = {worker.spec.id, dp_rank},
                 .incarnation = {},  // set with each link
                 .dp_size = dp_size,
                 .block_size_tokens = kBlockTokens,
                 .has_replay = dice.Chance(0.8)};
    if (dice.Chance(0.5)) rank.feed.recovery_limit = seconds(12);  // shorter than a slow answer
    if (dice.Chance(0.2)) rank.feed.max_buffered_batches = 1 + dice.Below(8);
    rank.engine = std::make_unique<Engine>(config, &tree_, &timeline_, dice.Roll());
    if (on_plane) {
      rank.publisher =
          std::make_unique<PlanePublisher>(rank.feed.target, &tree_, Mix(seed_, 200 + number));
    }
    rank.engine->SetSink([this, number](const Batch& batch) {
      Rank& self = ranks_[number];
      if (self.link) self.link->OnBatch(batch);
      if (self.publisher) bus_->Publish(self.publisher->Tell(batch));
    });
    ranks_.push_back(std::move(rank));
  }
  workers_.push_back(std::move(worker));
}

// ---- What goes on anyway ----

void Fleet::Drive(uint32_t number) {
  Rank& rank = ranks_[number];
  const std::optional<MonotonicTime> next = rank.engine->Advance();
  if (!next || (rank.due && *rank.due > timeline_.Now() && *rank.due <= *next)) return;
  rank.due = next;
  timeline_.At(*next, [this, number, at = *next] {
    if (ranks_[number].due != at) return;
    ranks_[number].due.reset();
    Drive(number);
  });
}

void Fleet::Ask(uint32_t number, NodeId node) {
  ranks_[number].engine->Submit(tree_.PathTo(node));
  Drive(number);
}

void Fleet::SendTraffic(uint32_t number) {
  if (timeline_.Now() >= traffic_end_) return;
  Ask(number, dice_.Below(tree_.size()));
  timeline_.In(dice_.Between(milliseconds(20), milliseconds(250)),
               [this, number] { SendTraffic(number); });
}

void Fleet::Tick() {
  for (Rank& rank : ranks_) {
    if (rank.link) rank.link->Tick();
  }
  for (const auto& orphan : orphans_) orphan->Tick();
  bus_->Tick();
  timeline_.In(tick_period_, [this] { Tick(); });
}

void Fleet::Watch() {
  if (!outcome_.failure) {
    outcome_.failure =
        CheckRunning(*router_, tree_, Subjects(), kProbesPerWatch, timeline_.Now(), &dice_);
  }
  if (timeline_.Now() < traffic_end_ + seconds(20))
    timeline_.In(milliseconds(250), [this] { Watch(); });
}

// ---- Links ----

void Fleet::OpenLink(Rank* rank, MonotonicTime delay) {
  CloseLink(rank);
  if (rank->publisher) return;
  rank->feed.incarnation = workers_[rank->worker].spec.incarnation;
  rank->link = std::make_shared<EngineLink>(rank->feed, rank->engine.get(), router_.get(),
                                            &timeline_, Mix(seed_, 1000 + links_opened_++));
  if (traced_ && rank == &ranks_[*traced_]) rank->link->SetTrace();
  if (restoring_) RestoreLink(rank);
  rank->link->ConnectIn(delay);
}

void Fleet::RestoreLink(Rank* rank) {
  const std::optional<std::string> saved = std::exchange(rank->saved, std::nullopt);
  if (!saved || rank->saved_incarnation != rank->feed.incarnation) return;
  auto feed = DecodeFeed(*saved);
  if (!feed.ok()) {
    outcome_.failure = fmt::format("snapshot refused: {}", feed.status().ToString());
    return;
  }
  rank->link->Restore(std::move(feed->progress), rank->saved_witness);
  ++outcome_.restored;
}

void Fleet::CloseLink(Rank* rank) {
  if (!rank->link) return;
  AddCounters(rank->link->feed().Counters(), &outcome_.counters);
  rank->link.reset();
}

void Fleet::Register(uint32_t number) {
  Worker& worker = workers_[number];
  worker.registered = true;
  if (!router_is_up_) return;
  const absl::Status status = router_->UpsertWorker(worker.spec);
  if (!status.ok()) outcome_.failure = fmt::format("registration refused: {}", status.ToString());
  if (worker.on_plane) return bus_->SetWorker(worker.spec);
  for (const uint32_t rank : worker.ranks)
    OpenLink(&ranks_[rank], dice_.Between({}, milliseconds(200)));
}

// ---- Faults ----

void Fleet::Inject(const Fault& fault) {
  Rank& rank = ranks_[fault.rank];
  const MonotonicTime delay = milliseconds(std::max<int64_t>(fault.amount, 0));
  switch (fault.kind) {
    case FaultKind::kRestartEngine:
      return RestartEngine(&rank, delay);
    case FaultKind::kResetCache:
      return rank.engine->ResetCache();
    case FaultKind::kStepClock:
      return rank.engine->StepClock(static_cast<double>(fault.amount));
    case FaultKind::kFlapWorker:
      return FlapWorker(rank.worker, delay);
    case FaultKind::kMoveWorker:
      return MoveWorker(rank.worker, delay);
    case FaultKind::kSaveRouter:
      return SaveRouter();
    case FaultKind::kRestartRouter:
      return RestartRouter(delay, /*warm=*/false);
    case FaultKind::kRestartRouterWarm:
      return RestartRouter(delay, /*warm=*/true);
    case FaultKind::kRestartPublisher:
      if (rank.link) rank.link->Break();
      rank.engine->RestartPublisher();
      if (rank.link) rank.link->ConnectIn(delay);
      return;
    default:
      if (rank.publisher) return InjectOnPlane(fault, rank.feed.target);
      if (rank.link) InjectOnLink(fault, rank.link.get());
  }
}

void Fleet::InjectOnLink(const Fault& fault, EngineLink* link) {
  const auto count = static_cast<uint32_t>(fault.amount);
  const MonotonicTime delay = milliseconds(fault.amount);
  switch (fault.kind) {
    case FaultKind::kLoseLive:
      return link->LoseNext(count);
    case FaultKind::kMangleLive:
      return link->MangleNext(count);
    case FaultKind::kRepeatLive:
      return link->RepeatNext(count);
    case FaultKind::kStall:
      return link->Stall(delay);
    case FaultKind::kSpoilReplay:
      return link->SpoilNextReplay(static_cast<ReplaySpoil>(count % kReplaySpoils));
    case FaultKind::kHoldReplays:
      return link->HoldReplays(timeline_.Now() + delay);
    default:  // kBreakConnection
      link->Break();
      return link->ConnectIn(delay);
  }
}

// The plane has no replays to spoil.
void Fleet::InjectOnPlane(const Fault& fault, Target target) {
  const auto count = static_cast<uint32_t>(fault.amount);
  const MonotonicTime delay = milliseconds(fault.amount);
  switch (fault.kind) {
    case FaultKind::kLoseLive:
      return bus_->LoseNext(target, count);
    case FaultKind::kMangleLive:
      return bus_->MangleNext(target, count);
    case FaultKind::kRepeatLive:
      return bus_->RepeatNext(target, count);
    case FaultKind::kStall:
      return bus_->Stall(target, delay);
    case FaultKind::kBreakConnection:
      return bus_->BreakBroker(delay);
    default:
      return;
  }
}

void Fleet::RestartEngine(Rank* rank, MonotonicTime down) {
  if (!rank->engine->IsRunning()) return;
  rank->engine->Stop();
  const auto number = static_cast<uint32_t>(rank - ranks_.data());
  timeline_.In(down, [this, number] {
    if (ranks_[number].engine->IsRunning()) return;
    ranks_[number].engine->Start();
    Drive(number);
  });
  if (!rank->link) return;
  rank->link->Break();
  // It may have passed the old sequence before anybody listens again.
  rank->link->ConnectIn(down + dice_.Between({}, dice_.Chance(0.3) ? seconds(5) : seconds(0)));
}

void Fleet::FlapWorker(uint32_t number, MonotonicTime gone) {
  Worker& worker = workers_[number];
  if (!worker.registered) return;
  worker.registered = false;
  router_->RemoveWorker(worker.spec.id);
  bus_->RemoveWorker(worker.spec.id);
  for (const uint32_t rank : worker.ranks) CloseLink(&ranks_[rank]);
  if (dice_.Chance(0.5))
    worker.spec.incarnation = Incarnation{static_cast<uint64_t>(worker.spec.incarnation) + 1};
  timeline_.In(gone, [this, number] { Register(number); });
}

// The old pod's last words are still on their way when the new one is registered.
void Fleet::MoveWorker(uint32_t number, MonotonicTime delay) {
  if (!workers_[number].registered || !router_is_up_) return;
  for (const uint32_t rank : workers_[number].ranks) {
    if (ranks_[rank].link) ranks_[rank].link->Stall(milliseconds(60));
    Ask(rank, dice_.Below(tree_.size()));
  }
  timeline_.In(milliseconds(50), [this, number, delay] { ReplaceWorker(number, delay); });
}

void Fleet::ReplaceWorker(uint32_t number, MonotonicTime delay) {
  Worker& worker = workers_[number];
  if (!worker.registered || !router_is_up_) return;
  worker.spec.incarnation = Incarnation{static_cast<uint64_t>(worker.spec.incarnation) + 1};
  for (const uint32_t number_of_rank : worker.ranks) {
    Rank& rank = ranks_[number_of_rank];
    rank.engine->Stop();
    rank.engine->Start();
    if (!rank.link) continue;
    AddCounters(rank.link->feed().Counters(), &outcome_.counters);
    rank.link->Orphan();
    orphans_.push_back(std::move(rank.link));
  }
  Register(number);
  for (const uint32_t rank : worker.ranks) OpenLink(&ranks_[rank], delay);
}

void Fleet::SaveRouter() {
  if (!router_is_up_) return;
  for (Rank& rank : ranks_) {
    rank.saved.reset();
    const Worker& worker = workers_[rank.worker];
    if (!rank.link || !worker.registered) continue;
    rank.saved = SaveFeed(worker.spec, rank.feed.target.dp_rank, rank.link->feed(), *router_);
    rank.saved_incarnation = worker.spec.incarnation;
    rank.saved_witness = rank.link->witness().Remember();
  }
}

// Warm: from the last snapshot, however old it is. It serves once.
void Fleet::RestartRouter(MonotonicTime down, bool warm) {
  if (!router_is_up_) return;
  router_is_up_ = false;
  for (Rank& rank : ranks_) CloseLink(&rank);
  orphans_.clear();
  bus_.reset();
  router_ = std::make_unique<Router>(RouterConfig{}, nullptr);
  OpenBus();
  timeline_.In(down, [this, warm] {
    router_is_up_ = true;
    restoring_ = warm;
    for (uint32_t i = 0; i < workers_.size(); ++i) {
      if (workers_[i].registered) Register(i);
    }
    restoring_ = false;
    for (Rank& rank : ranks_) rank.saved.reset();
  });
}

// ---- The course of a run ----

MonotonicTime Fleet::FaultsEnd() { return kPhase * kPhases; }

Fleet::Outcome Fleet::Run(const FaultPlan& plan) {
  for (uint32_t i = 0; i < workers_.size(); ++i) Register(i);
  tick_period_ = milliseconds(200);
  Tick();
  for (uint32_t phase = 0; phase < kPhases && !outcome_.failure; ++phase) {
    // Time in the plan leaves out the quiet points.
    const MonotonicTime begin = timeline_.Now();
    traffic_end_ = begin + kPhase;
    for (const Fault& fault : plan) {
      if (fault.at < kPhase * phase || fault.at >= kPhase * (phase + 1)) continue;
      timeline_.At(begin + fault.at - kPhase * phase, [this, fault] { Inject(fault); });
    }
    for (uint32_t rank = 0; rank < kRanks; ++rank) SendTraffic(rank);
    Watch();
    RunFor(kPhase);
    if (!outcome_.failure) BecomeQuiet();
    if (outcome_.failure) break;
    const std::vector<Subject> subjects = Subjects();
    for (const Subject& subject : subjects) {
      ++outcome_.ranks_checked;
      outcome_.ranks_live += subject.says_live ? 1 : 0;
    }
    outcome_.failure = CheckQuiet(*router_, tree_, subjects, &dice_);
  }
  for (Rank& rank : ranks_) CloseLink(&rank);
  outcome_.end = timeline_.Now();
  return outcome_;
}

void Fleet::BecomeQuiet() {
  const auto heal = [this] {
    for (Rank& rank : ranks_) {
      if (rank.link) rank.link->Heal();
    }
    bus_->Heal();
  };
  heal();
  RunFor(seconds(12));  // who is away comes back, and the engines finish what they have
  heal();
  orphans_.clear();
  // What was lost last shows only when something follows.
  for (uint32_t rank = 0; rank < kRanks; ++rank) {
    const Said before = ranks_[rank].engine->Next();
    for (int i = 0; i < 20 && ranks_[rank].engine->Next() == before; ++i) {
      Ask(rank, tree_.AddFreshRoot());
      RunFor(seconds(1));
    }
  }
  RunFor(seconds(20));
  tick_period_ = seconds(20);
  const MonotonicTime end = timeline_.Now() + kSettle;
  while (timeline_.Now() < end && !AllLive()) RunFor(seconds(20));
  tick_period_ = milliseconds(200);
  RunFor(seconds(20));
}

bool Fleet::AllLive() const {
  return std::all_of(ranks_.begin(), ranks_.end(), [this](const Rank& rank) {
    const auto subject = SubjectOf(rank);
    // On the plane nothing can be asked for again.
    return subject && (subject->says_live || rank.publisher);
  });
}

std::optional<Subject> Fleet::SubjectOf(const Rank& rank) const {
  Subject subject;
  subject.target = rank.feed.target;
  subject.engine = rank.engine.get();
  FeedState state = FeedState::kNone;
  std::string detail;
  if (rank.link) {
    const Witness* const witness = &rank.link->witness();
    subject.noticed_at = [witness](Said said) { return witness->NoticedAt(said); };
    subject.must_be_whole = rank.feed.has_replay && !rank.engine->HoldsUntold() &&
                            (rank.engine->HistoryIsWhole() || witness->Covered());
    state = rank.link->feed().State();
    detail = rank.link->feed().Detail();
  } else if (const auto* report = bus_->Report(rank.feed.target)) {
    subject.noticed_at = [this, target = subject.target](Said said) {
      return bus_->NoticedAt(target, said);
    };
    subject.must_be_whole =
        !rank.engine->HoldsUntold() && bus_->NothingMissed(subject.target, *rank.engine);
    state = report->state;
    detail = report->detail;
  } else {
    return std::nullopt;
  }
  subject.says_live = state == FeedState::kLive;
  subject.says = fmt::format("{} {}", FeedStateName(state), detail);
  return subject;
}

std::vector<Subject> Fleet::Subjects() const {
  std::vector<Subject> subjects;
  for (const Rank& rank : ranks_) {
    if (auto subject = SubjectOf(rank)) subjects.push_back(*std::move(subject));
  }
  return subjects;
}

}  // namespace kvrouter::truth
