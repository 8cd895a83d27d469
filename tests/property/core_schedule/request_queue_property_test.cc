#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <optional>
#include <random>
#include <vector>

#include "core/schedule/request_queue.h"

namespace kvrouter {
namespace {

using std::chrono::seconds;
using Readiness = RequestQueue::Readiness;

// The queue as its specification has it: a list of who waits, searched from end to end for every
// question, and deficits that grow round by round.
struct NaiveQueue {
  struct Waiting {
    int id = 0;
    RequestQueue::Request request;
    int64_t arrival = 0;
    MonotonicTime parked_at{};
  };

  std::vector<PolicyClass> classes;
  std::vector<Waiting> waiting;
  std::vector<uint64_t> deficits;
  std::optional<size_t> last;

  static uint64_t Uncached(const RequestQueue::Request& r) {
    return r.isl_tokens - std::min(r.isl_tokens, r.cached_tokens);
  }
  static uint64_t Cost(const RequestQueue::Request& r) {
    return std::max<uint64_t>(1, Uncached(r));
  }

  // Whether a goes before b, of one class.
  bool Before(const Waiting& a, const Waiting& b) const {
    if (a.request.strict_priority != b.request.strict_priority) {
      return a.request.strict_priority > b.request.strict_priority;
    }
    const double score_a = Score(a);
    const double score_b = Score(b);
    return score_a != score_b ? score_a > score_b : a.arrival < b.arrival;
  }
  double Score(const Waiting& w) const {
    const double jump = std::max(0.0, w.request.priority_jump);
    const double t = std::chrono::duration<double>(w.parked_at).count();
    switch (classes[w.request.policy_class].order) {
      case QueueOrder::kFcfs:
        return jump - t;
      case QueueOrder::kLcfs:
        return jump + t;
      case QueueOrder::kWspt:
        return (1 + jump) / static_cast<double>(Cost(w.request));
    }
    return 0;
  }
  bool IsHeadOfItsLane(const Waiting& w) const {
    return std::none_of(waiting.begin(), waiting.end(), [&](const Waiting& other) {
      return other.request.policy_class == w.request.policy_class &&
             other.request.pinned == w.request.pinned && Before(other, w);
    });
  }
  // Of a class: the best head that can go.
  template <typename CanGo>
  const Waiting* Candidate(size_t policy_class, const CanGo& can_go) const {
    const Waiting* best = nullptr;
    for (const Waiting& w : waiting) {
      if (w.request.policy_class != policy_class || !IsHeadOfItsLane(w) || !can_go(w)) continue;
      if (best == nullptr || Before(w, *best)) best = &w;
    }
    return best;
  }
  template <typename CanGo>
  std::optional<Waiting> Next(const CanGo& can_go) {
    std::map<size_t, const Waiting*> ready;
    for (size_t c = 0; c < classes.size(); ++c) {
      if (const Waiting* const w = Candidate(c, can_go)) ready[c] = w;
    }
    if (ready.empty()) return std::nullopt;
    while (true) {
      const size_t first = last.value_or(0);
      for (size_t i = 0; i < classes.size(); ++i) {
        const size_t c = (first + i) % classes.size();
        if (!ready.contains(c) || deficits[c] < Cost(ready[c]->request)) continue;
        deficits[c] -= Cost(ready[c]->request);
        last = c;
        const Waiting chosen = *ready[c];
        Leave(chosen.id);
        return chosen;
      }
      for (const auto& [c, w] : ready) deficits[c] += classes[c].quantum_tokens;
    }
  }
  void Leave(int id) {
    const auto it =
        std::find_if(waiting.begin(), waiting.end(), [&](const Waiting& w) { return w.id == id; });
    const size_t c = it->request.policy_class;
    waiting.erase(it);
    if (Usage(c).waiting == 0) deficits[c] = 0;
  }
  RequestQueue::ClassStats Usage(size_t policy_class) const {
    RequestQueue::ClassStats usage;
    for (const Waiting& w : waiting) {
      if (w.request.policy_class != policy_class) continue;
      ++usage.waiting;
      usage.waiting_isl_tokens += w.request.isl_tokens;
      usage.waiting_cached_tokens += std::min(w.request.cached_tokens, w.request.isl_tokens);
    }
    return usage;
  }
  bool IsFull(size_t policy_class, uint64_t workers) const {
    const auto usage = Usage(policy_class);
    const PolicyClass& c = classes[policy_class];
    return (c.request_limit_per_worker && usage.waiting >= *c.request_limit_per_worker * workers) ||
           (c.raw_isl_token_limit_per_worker &&
            usage.waiting_isl_tokens >= *c.raw_isl_token_limit_per_worker * workers) ||
           (c.cached_token_limit_per_worker &&
            usage.waiting_cached_tokens >= *c.cached_token_limit_per_worker * workers);
  }
};

// The loads that decide who can go: tokens per target.
using Loads = std::map<Target, uint64_t>;

class History {
 public:
  explicit History(uint64_t seed) : random_(seed) {
    MakeClasses();
    for (uint64_t w = 1; w <= kTargets; ++w) loads_[{.worker = WorkerId{w}}] = 0;
  }

  void Step() {
    now_ += std::chrono::milliseconds(Draw(3) == 0 ? 0 : Draw(2000));
    switch (Draw(8)) {
      case 0:
      case 1:
      case 2:
      case 3:
        return Park();
      case 4:
        return Cancel();
      case 5:
        return Expire();
      default:
        for (auto& [target, load] : loads_) load -= std::min<uint64_t>(load, Draw(60));
        return Pump();
    }
  }

  void Compare() {
    ASSERT_EQ(queue_->WaitingCount(), naive_.waiting.size());
    for (uint32_t c = 0; c < naive_.classes.size(); ++c) {
      const auto expected = naive_.Usage(c);
      const auto stats = queue_->StatsOf(c);
      ASSERT_EQ(stats.waiting, expected.waiting);
      ASSERT_EQ(stats.waiting_isl_tokens, expected.waiting_isl_tokens);
      ASSERT_EQ(stats.waiting_cached_tokens, expected.waiting_cached_tokens);
      ASSERT_EQ(stats.parked_total,
                stats.released_total + stats.cancelled_total + stats.expired_total + stats.waiting);
    }
  }

  uint64_t releases() const { return releases_; }

 private:
  static constexpr uint64_t kTargets = 3;
  static constexpr uint64_t kWorkers = 3;

  uint64_t Draw(uint64_t bound) { return random_() % bound; }
  std::optional<uint64_t> ALimit(uint64_t max) {
    return Draw(3) == 0 ? std::optional(1 + Draw(max)) : std::nullopt;
  }

  void MakeClasses() {
    const uint64_t count = 1 + Draw(4);
    if (count == 1) {
      constexpr QueueOrder kOrders[] = {QueueOrder::kFcfs, QueueOrder::kLcfs, QueueOrder::kWspt};
      const auto single = PolicyClasses::Single(kOrders[Draw(3)], {.tokens = Draw(100)});
      naive_.classes = {single.At(0)};
      queue_.emplace(RequestQueue::Options{}, single, seconds(0));
    } else {
      PolicyProfile profile{.default_policy_family = "c0",
                            .uncached_isl_buckets = {{.bucket = "all"}}};
      for (uint64_t i = 0; i < count; ++i) {
        PolicyClass c;
        c.name = c.policy_family = fmt::format("c{}", i);
        c.cache_bucket = "all";
        c.order = Draw(2) == 0 ? QueueOrder::kFcfs : QueueOrder::kWspt;
        c.quantum_tokens = 1 + Draw(80);
        c.busy.tokens = Draw(100);
        c.request_limit_per_worker = ALimit(5);
        c.raw_isl_token_limit_per_worker = ALimit(400);
        c.cached_token_limit_per_worker = ALimit(200);
        profile.policy_classes.push_back(c);
      }
      naive_.classes = profile.policy_classes;
      queue_.emplace(RequestQueue::Options{}, *PolicyClasses::Make(profile), seconds(0));
    }
    naive_.deficits.resize(count);
  }

  void Park() {
    RequestQueue::Request request;
    request.policy_class = static_cast<uint32_t>(Draw(naive_.classes.size()));
    request.strict_priority = static_cast<uint32_t>(Draw(4) / 3);
    request.priority_jump = static_cast<double>(Draw(4)) - 1;
    request.isl_tokens = Draw(100);
    request.cached_tokens = Draw(100);
    if (Draw(3) == 0) request.pinned = Target{.worker = WorkerId{1 + Draw(kTargets)}};
    if (Draw(3) == 0) request.deadline = now_ + std::chrono::milliseconds(Draw(20'000));
    const auto parked = queue_->Park(request, kWorkers, now_);
    const bool full = naive_.IsFull(request.policy_class, kWorkers);
    ASSERT_EQ(std::holds_alternative<RequestQueue::Rejection>(parked), full);
    if (full) return;
    const int id = next_id_++;
    naive_.waiting.push_back({.id = id, .request = request, .arrival = id, .parked_at = now_});
    tickets_[std::get<TicketId>(parked)] = id;
    ticket_of_[id] = std::get<TicketId>(parked);
  }

  void Cancel() {
    if (ticket_of_.empty()) return;
    // Also tickets long gone.
    const auto it = std::next(ticket_of_.begin(), static_cast<long>(Draw(ticket_of_.size())));
    const bool waits = std::any_of(naive_.waiting.begin(), naive_.waiting.end(),
                                   [&](const auto& w) { return w.id == it->first; });
    ASSERT_EQ(queue_->Cancel(it->second), waits);
    if (waits) naive_.Leave(it->first);
  }

  void Expire() {
    std::vector<TicketId> expired;
    queue_->Expire(now_, &expired);
    std::vector<int> ids;
    for (const TicketId ticket : expired) ids.push_back(tickets_.at(ticket));
    std::sort(ids.begin(), ids.end());
    std::vector<int> expected;
    for (const auto& w : naive_.waiting) {
      if (w.request.deadline <= now_) expected.push_back(w.id);
    }
    ASSERT_EQ(ids, expected);
    for (const int id : expected) naive_.Leave(id);
  }

  bool CanGo(const RequestQueue::Request& request, const Loads& loads) const {
    const uint64_t bound = *naive_.classes[request.policy_class].busy.tokens;
    if (request.pinned) return loads.at(*request.pinned) <= bound;
    return std::any_of(loads.begin(), loads.end(),
                       [&](const auto& entry) { return entry.second <= bound; });
  }

  static void Place(const RequestQueue::Request& request, Loads* loads) {
    auto target = std::min_element(loads->begin(), loads->end(), [](const auto& a, const auto& b) {
      return a.second < b.second;
    });
    if (request.pinned) target = loads->find(*request.pinned);
    target->second += NaiveQueue::Cost(request);
  }

  void Pump() {
    Loads loads = loads_;
    std::vector<int> expected;
    std::map<int, RequestQueue::Request> requests;
    for (const auto& w : naive_.waiting) requests[w.id] = w.request;
    while (const auto next = naive_.Next([&](const auto& w) { return CanGo(w.request, loads); })) {
      expected.push_back(next->id);
      Place(next->request, &loads);
    }
    std::vector<int> gone;
    queue_->Pump(
        now_,
        [&](TicketId ticket) {
          return CanGo(requests.at(tickets_.at(ticket)), loads_) ? Readiness::kReady
                                                                 : Readiness::kBusy;
        },
        [&](const RequestQueue::Released& released) {
          gone.push_back(tickets_.at(released.ticket));
          Place(requests.at(gone.back()), &loads_);
        });
    ASSERT_EQ(gone, expected);
    ASSERT_EQ(loads, loads_);
    releases_ += gone.size();
  }

  std::mt19937_64 random_;
  MonotonicTime now_{};
  NaiveQueue naive_;
  std::optional<RequestQueue> queue_;
  Loads loads_;
  std::map<TicketId, int> tickets_;
  std::map<int, TicketId> ticket_of_;
  int next_id_ = 0;
  uint64_t releases_ = 0;
};

TEST(RequestQueuePropertyTest, OrderAgreesWithTheSpecificationOnAHundredThousandSteps) {
  uint64_t releases = 0;
  for (uint64_t seed = 0; seed < 500; ++seed) {
    History history(seed);
    for (int step = 0; step < 200; ++step) {
      SCOPED_TRACE(fmt::format("seed={} step={}", seed, step));
      history.Step();
      if (::testing::Test::HasFatalFailure()) return;
      history.Compare();
      if (::testing::Test::HasFatalFailure()) return;
    }
    releases += history.releases();
  }
  EXPECT_GT(releases, 10'000u) << "the histories released too few to say anything";
}

}  // namespace
}  // namespace kvrouter
