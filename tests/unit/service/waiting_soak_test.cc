// Callers that wait and leave, fail, free late or twice, reuse ids, while workers flap and bookings
// expire: whatever happens, nobody is forgotten and no load stays.
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <malloc.h>

#include <chrono>
#include <cstdlib>
#include <map>
#include <memory>
#include <optional>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "service_fixture.h"
#include "support/sanitized.h"

namespace kvrouter {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

constexpr int kWorkers = 6;
// They compute long prompts; all others serve them whole.
constexpr uint64_t kPrefillWorkers[] = {11, 12};

WorkerSpec SoakWorker(WorkerId id) {
  WorkerSpec spec = AWorker(static_cast<uint64_t>(id));
  if (static_cast<uint64_t>(id) >= kPrefillWorkers[0]) spec.role = WorkerRole::kPrefill;
  return spec;
}

RouterConfig SoakConfig() {
  RouterConfig config;
  config.scheduler.queue.busy.tokens = 300;
  config.scheduler.queue.max_waiting = 40;
  config.scheduler.queue.overlap_refresh_after = seconds(2);
  config.scheduler.overload.active_prefill_tokens = 2000;
  config.scheduler.active_request_expiry = seconds(20);
  config.scheduler.track_output_blocks = true;
  config.scheduler.outlier_ejection.base_time = seconds(1);
  config.sessions.affinity_ttl = seconds(10);
  config.sessions.prefix_tokens = 100;
  config.sessions.soft = true;
  config.gate.length.min_remote_prefill_tokens = 250;
  config.gate.length.local_continuations = true;
  config.gate.length.continuation_window = seconds(1);  // else no session goes remote twice
  return config;
}

// Few decisions to look back at: its memory is to be full soon.
ServiceConfig SoakServiceConfig() {
  ServiceConfig config;
  config.decision_ring_entries = 200;
  return config;
}

class Soak {
 public:
  explicit Soak(uint64_t seed)
      : fleet_(kWorkers, SoakConfig(), SoakServiceConfig()), random_(seed) {
    for (const uint64_t id : kPrefillWorkers)
      EXPECT_TRUE(fleet_.registry.Register(SoakWorker(WorkerId{id})).ok());
  }

  // Until so many were submitted in all.
  void Run(uint64_t requests) {
    while (submitted_ < requests) {
      switch (Draw(12)) {
        case 0:
        case 1:
        case 2:
        case 3:
          Submit();
          break;
        case 4:
          if (!waiting_.empty()) Leave();
          break;
        case 5:
        case 6:
          if (!booked_.empty()) fleet_.service.PrefillComplete(ABooked());
          break;
        case 7:
          if (!booked_.empty()) fleet_.service.OutputBlock(ABooked(), std::nullopt);
          break;
        case 8:
        case 9:
          if (!booked_.empty()) Free();
          break;
        case 10:
          fleet_.clock.Advance(milliseconds(Draw(400)));
          fleet_.service.Tick();
          break;
        default:
          if (Draw(20) == 0) Flap();
          break;
      }
    }
  }

  // Everybody ends, and then nothing is left.
  void Finish() {
    while (!waiting_.empty()) Leave();
    while (!booked_.empty()) Free();
    fleet_.clock.Advance(seconds(60));  // those whose callers never free expire
    fleet_.service.Tick();
    fleet_.clock.Advance(seconds(20));  // and then the sessions that they held
    fleet_.service.Tick();
    for (const PartitionSnapshot& partition : fleet_.router.Snapshot()) {
      for (const QueueClassSnapshot& queue : partition.queue) {
        EXPECT_EQ(queue.waiting, 0u);
        EXPECT_EQ(queue.waiting_isl_tokens, 0u);
        EXPECT_EQ(queue.waiting_cached_tokens, 0u);
        EXPECT_EQ(queue.parked_total,
                  queue.released_total + queue.cancelled_total + queue.expired_total);
        EXPECT_GT(queue.released_total, 0u);
        EXPECT_GT(queue.cancelled_total, 0u);
        EXPECT_GT(queue.expired_total, 0u);
        EXPECT_GT(queue.over_max_waiting_total, 0u);
      }
      for (const SessionFigures& sessions :
           {partition.decode_sessions, partition.prefill_sessions}) {
        EXPECT_EQ(sessions.leases, 0u);
        EXPECT_EQ(sessions.sessions, 0u) << "idle for longer than their time";
      }
    }
    EXPECT_GT(bound_, 0u);
    EXPECT_GT(remote_plans_, 0u);
    EXPECT_GT(decode_legs_, 0u);
    fleet_.ExpectNoLoad();
    const ServiceCounters counters = fleet_.service.Counters();
    EXPECT_EQ(counters.waiting, 0u);
    EXPECT_EQ(counters.requests_started, counters.requests_finished);
    EXPECT_EQ(fleet_.service.LiveRequests(), 0u);
    EXPECT_EQ(answers_, submitted_) << "each request is answered once";
    EXPECT_GT(counters.bookings_expired, 0u);
    EXPECT_GT(counters.duplicate_requests, 0u);
    EXPECT_GT(counters.unknown_frees, 0u);
    EXPECT_GT(counters.legs_failed, 0u);
  }

 private:
  struct Waiting {
    TicketId ticket{};
    bool answered = false;
  };

  uint64_t Draw(uint64_t bound) { return random_() % bound; }

  const std::string& ABooked() {
    auto it = booked_.begin();
    std::advance(it, static_cast<long>(Draw(std::min<uint64_t>(booked_.size(), 16))));
    return it->first;
  }

  void Submit() {
    std::vector<TokenId> tokens(16 * (1 + Draw(20)));
    const auto family = static_cast<TokenId>(Draw(9) * 1000);  // prompts share prefixes
    for (size_t i = 0; i < tokens.size(); ++i) tokens[i] = family + static_cast<TokenId>(i);
    RouteRequest request =
        fleet_.ARequest(fmt::format("r{}", Draw(8) == 0 ? Draw(200) : next_id_++));
    request.prompt = TokenPrompt{tokens};
    request.book = Draw(10) != 0;
    request.strict_priority = static_cast<uint32_t>(Draw(3));
    request.fixed_plan = Draw(4) == 0;
    if (Draw(3) == 0) request.session_id = fmt::format("session-{}", Draw(20));
    if (Draw(6) == 0) request.pinned = TargetSelector{.worker = WorkerId{1 + Draw(kWorkers + 1)}};
    if (Draw(5) == 0) request.deadline = fleet_.clock.Now() + milliseconds(Draw(1500));
    const std::string id = request.request_id;
    const bool book = request.book;
    ++submitted_;
    auto waits = std::make_shared<Waiting>();
    const auto wait = [&](TicketId ticket) -> RoutingService::Completion {
      waits->ticket = ticket;
      return [this, waits, id, book](const RoutingService::Answer& answer) {
        waits->answered = true;
        Answered(id, book, answer);
      };
    };
    const auto answer = fleet_.service.Submit(std::move(request), wait);
    if (answer) return Answered(id, book, *answer);
    if (!waits->answered) waiting_.emplace_back(id, waits);
  }

  void Answered(const std::string& id, bool book, const RoutingService::Answer& answer) {
    ++answers_;
    if (!answer.ok() || !book) return;
    bound_ += answer->session.outcome == SessionOutcome::kBound ? 1 : 0;
    if (Draw(30) != 0) booked_[id] = true;  // else its caller is gone
    if (answer->plan != Plan::kRemotePrefill) return;
    ++remote_plans_;
    if (answer->decode_booking == kNoBooking && Draw(3) != 0) DecodeLeg(id);
  }

  void DecodeLeg(const std::string& id) {
    RouteRequest request = fleet_.ARequest(id);
    request.phase = RequestPhase::kDecode;
    request.prefill_here = Draw(4) == 0;
    decode_legs_ += fleet_.service.Route(std::move(request)).ok() ? 1 : 0;
  }

  void Leave() {
    const size_t i = Draw(waiting_.size());
    const auto [id, waits] = waiting_[i];
    std::swap(waiting_[i], waiting_.back());
    waiting_.pop_back();
    if (waits->answered) return;
    if (Draw(2) == 0) {
      fleet_.service.Abandon(id, waits->ticket);
      EXPECT_TRUE(waits->answered) << "leaves at once";
    } else {
      fleet_.service.Free(id);  // of advice: unknown, it goes on waiting
      if (!waits->answered) fleet_.service.Abandon(id, waits->ticket);
    }
  }

  void Free() {
    const std::string id = ABooked();
    booked_.erase(id);
    fleet_.service.Free(id, static_cast<LegOutcome>(Draw(3)));
    if (Draw(5) == 0) fleet_.service.Free(id);  // twice
  }

  void Flap() {
    const WorkerId id{Draw(4) == 0 ? kPrefillWorkers[Draw(2)] : 1 + Draw(kWorkers)};
    switch (Draw(4)) {
      case 0:
        (void)fleet_.registry.Remove(id);
        break;
      case 1:
        (void)fleet_.registry.Drain(id);
        break;
      case 2: {
        WorkerSpec reborn = SoakWorker(id);
        reborn.incarnation = Incarnation{++life_};
        (void)fleet_.registry.Register(reborn);
        break;
      }
      default:
        break;
    }
    for (uint64_t w = 1; w <= kWorkers; ++w) MaybeBack(WorkerId{w});
    for (const uint64_t w : kPrefillWorkers) MaybeBack(WorkerId{w});
    fleet_.service.PumpWaiting();
  }

  void MaybeBack(WorkerId id) {
    WorkerPatch back;
    back.draining = false;
    if (Draw(2) == 0) (void)fleet_.registry.Update(id, back);
    if (Draw(2) == 0) (void)fleet_.registry.Register(SoakWorker(id));
  }

  Fleet fleet_;
  std::mt19937_64 random_;
  std::vector<std::pair<std::string, std::shared_ptr<Waiting>>> waiting_;
  std::map<std::string, bool> booked_;
  uint64_t submitted_ = 0;
  uint64_t answers_ = 0;
  uint64_t bound_ = 0;
  uint64_t remote_plans_ = 0;
  uint64_t decode_legs_ = 0;
  uint64_t next_id_ = 1000;
  uint64_t life_ = 1'000'000;
};

// What the process has allocated and not given back.
double HeapMib() { return static_cast<double>(mallinfo2().uordblks) / (1 << 20); }

// 10^5 requests; KVR_SOAK_REQUESTS takes another number for long runs.
TEST(WaitingSoakTest, B36_NothingIsLeftOfAnybodyWhateverHappens) {
  const char* const wanted = std::getenv("KVR_SOAK_REQUESTS");
  const uint64_t requests = wanted != nullptr ? std::strtoull(wanted, nullptr, 10) : 100'000;
  constexpr uint64_t kSeeds = 10;
  for (uint64_t seed = 1; seed <= kSeeds; ++seed) {
    SCOPED_TRACE(fmt::format("seed={}", seed));
    Soak soak(seed);
    soak.Run(requests / kSeeds / 2);
    soak.Finish();
    const double half_mib = HeapMib();
    soak.Run(requests / kSeeds);
    soak.Finish();
    if (!kSanitized) {
      EXPECT_LT(HeapMib(), half_mib * 1.25 + 0.25) << "memory grows with the requests";
    }
    if (::testing::Test::HasFailure()) return;
  }
}

// B27 with a queue: a burst that has to wait spreads when it is let go.
TEST(WaitingSoakTest, B27_ABurstThatWaitedSpreadsEvenly) {
  RouterConfig config;
  config.scheduler.queue.busy.tokens = 0;  // one prompt is enough to be busy
  Fleet fleet(4, config);
  std::map<Target, int> counts;
  std::vector<std::string> booked;
  const auto note = [&](const std::string& id, const RoutingService::Answer& answer) {
    ASSERT_TRUE(answer.ok()) << answer.status();
    ++counts[answer->target];
    booked.push_back(id);
  };
  for (TokenId i = 0; i < 200; ++i) {
    std::vector<TokenId> tokens(320, i);
    RouteRequest request = fleet.ARequest(fmt::format("r{}", i));
    const std::string id = request.request_id;
    request.prompt = TokenPrompt{tokens};
    const auto wait = [&note, id](TicketId) -> RoutingService::Completion {
      return [&note, id](const RoutingService::Answer& answer) { note(id, answer); };
    };
    const auto answer = fleet.service.Submit(std::move(request), wait);
    if (answer) note(id, *answer);
  }
  EXPECT_EQ(booked.size(), 4u) << "the others wait";
  // The prompts are computed; nothing is freed.
  for (size_t i = 0; i < booked.size(); ++i) {
    const std::string id = booked[i];  // the list grows under the call
    fleet.service.PrefillComplete(id);
  }
  ASSERT_EQ(booked.size(), 200u);
  for (const auto& [target, count] : counts) EXPECT_EQ(count, 50);
}

}  // namespace
}  // namespace kvrouter
