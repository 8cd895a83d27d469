#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "core/schedule/scheduler.h"
#include "kvrouter/error.h"
#include "reference_scheduler.h"

namespace kvrouter {
namespace {

using reference::Failure;
using reference::Place;

Target TargetAt(Place place) { return {.worker = WorkerId{place.worker}, .dp_rank = place.rank}; }

Place PlaceOf(Target target) {
  return {.worker = static_cast<uint64_t>(target.worker), .rank = target.dp_rank};
}

constexpr uint64_t kBatchTokens = 256;
constexpr uint64_t kTotalBlocks = 24;

// A request as both sides take it. Owns what a ScheduleRequest borrows.
struct BothRequests {
  reference::Request theirs;
  RouteRequest wishes;  // filter and overrides of ours
  std::vector<SequenceHash> chain;
  std::vector<OverlapMatch> overlaps;
};

// A random fleet with random requests on it, built on both sides by the same calls.
class RandomState {
 public:
  explicit RandomState(uint64_t seed) : random_(seed) {
    block_size_ = uint64_t{1} << Draw(7);
    decode_pool_ = Draw(3) == 0;
    MakeConfig(seed);
    MakeWorkers();
    for (uint64_t i = Draw(12); i > 0; --i) Book();
    for (uint64_t i = Draw(12); i > 0; --i) Progress();
  }

  // What both sides say of one more request.
  void CompareOne() {
    BothRequests request = ARequest();
    FindOverloaded();
    Failure failure = Failure::kNone;
    const auto eligible = fleet_.Eligible(request.theirs, &failure);
    const auto costs = fleet_.Costs(request.theirs, eligible);
    CandidateTable table;
    const auto placement = Pick(request, &table);
    if (failure != Failure::kNone) return ExpectFailure(failure, placement.status());
    ASSERT_TRUE(placement.ok()) << placement.status();
    ++decided_;
    ASSERT_EQ(table.seen.size(), costs.size());
    double lowest = std::numeric_limits<double>::infinity();
    for (const auto& [place, cost] : costs) lowest = std::min(lowest, cost);
    for (size_t i = 0; i < table.seen.size(); ++i) {
      const auto theirs = costs.find(PlaceOf(table.seen[i].target()));
      ASSERT_NE(theirs, costs.end());
      ASSERT_NEAR(table.costs[i], theirs->second, Tolerance(theirs->second));
    }
    const double chosen = costs.at(PlaceOf(table.seen[placement->index].target()));
    ASSERT_LE(chosen, lowest + Tolerance(lowest)) << "chosen is no lowest cost";
  }

  // How often each place is picked at the temperature, against its probability.
  void CompareDistribution(double temperature, int draws) {
    BothRequests request = ARequest();
    request.wishes.overrides.router_temperature = temperature;
    request.wishes.pinned.reset();
    request.theirs.pinned_worker.reset();
    request.theirs.pinned_rank.reset();
    FindOverloaded();
    Failure failure = Failure::kNone;
    const auto eligible = fleet_.Eligible(request.theirs, &failure);
    if (failure != Failure::kNone) return;
    const auto costs = fleet_.Costs(request.theirs, eligible);
    const auto expected = reference::Probabilities(costs, temperature, Tolerance(1));
    std::map<Place, int> counts;
    CandidateTable table;
    for (int i = 0; i < draws; ++i) {
      const auto placement = Pick(request, &table);
      ASSERT_TRUE(placement.ok()) << placement.status();
      ++counts[PlaceOf(table.seen[placement->index].target())];
    }
    for (const auto& [place, p] : expected) {
      EXPECT_NEAR(counts[place], draws * p, 6 * std::sqrt(draws * p * (1 - p)) + 1)
          << "worker " << place.worker << " rank " << place.rank;
    }
  }

  uint64_t decided() const { return decided_; }

  uint64_t overloaded() const { return overloaded_; }

  void SetPlainWeights() {
    config_.weights = CostWeights{};
    config_.track_prefill_tokens = true;
    config_.overload = {};
    Rebuild();
  }

 private:
  static double Tolerance(double cost) { return 1e-9 * std::max(1.0, cost); }

  uint64_t Draw(uint64_t bound) { return random_() % bound; }
  double Weight(double max) {
    return Draw(3) == 0 ? 0 : static_cast<double>(Draw(1001)) / 1000 * max;
  }

  void MakeConfig(uint64_t seed) {
    config_.weights.overlap_score_credit = Weight(3);
    config_.weights.overlap_score_credit_decay = Weight(2);
    config_.weights.prefill_load_scale = Weight(20);
    config_.weights.decode_active_request_weight = Weight(5);
    config_.track_prefill_tokens = Draw(4) != 0;
    config_.assume_kv_reuse = Draw(4) != 0;
    config_.track_output_blocks = true;
    if (Draw(3) == 0) config_.overload.active_prefill_tokens = Draw(400);
    if (Draw(3) == 0) config_.overload.active_prefill_tokens_frac = Weight(1);
    if (Draw(3) == 0) config_.overload.active_decode_blocks = Weight(1);
    seed_ = seed;
    Rebuild();
  }

  void Rebuild() {
    scheduler_ = std::make_unique<Scheduler>(
        Scheduler::Options{.config = config_, .random_seed = seed_ * 7 + 1});
    for (const reference::Worker& worker : fleet_.workers) Register(worker);
    fleet_.live.clear();
    bookings_.clear();
  }

  void Register(const reference::Worker& worker) {
    WorkerSpec spec;
    spec.id = WorkerId{worker.id};
    spec.incarnation = Incarnation{1};
    spec.block_size_tokens = static_cast<uint32_t>(block_size_);
    spec.dp_start_rank = worker.first_rank;
    spec.dp_size = worker.ranks;
    spec.draining = worker.draining;
    spec.taints.assign(worker.taints.begin(), worker.taints.end());
    // Half of those who serve the adapter do not say.
    if (!worker.serves_lora) spec.lora_adapters.emplace();
    if (worker.serves_lora && worker.id % 2 == 0) spec.lora_adapters = {{"other", "adapter"}};
    spec.max_num_batched_tokens = kBatchTokens;
    spec.total_kv_blocks = kTotalBlocks;
    scheduler_->SetWorker(std::make_shared<const WorkerSpec>(spec));
  }

  void MakeWorkers() {
    for (uint64_t id = 1, workers = Draw(7); id <= workers; ++id) {
      fleet_.workers.push_back({.id = id,
                                .first_rank = static_cast<uint32_t>(Draw(3)),
                                .ranks = static_cast<uint32_t>(1 + Draw(3)),
                                .draining = Draw(8) == 0,
                                .serves_lora = Draw(3) != 0});
      auto& taints = fleet_.workers.back().taints;
      for (uint64_t i = Draw(4); i > 0; --i) taints.insert(ATaint());
      Register(fleet_.workers.back());
    }
  }

  std::string ATaint() { return std::string(1, static_cast<char>('a' + Draw(3))); }

  // §4.3: a worker is overloaded if all its ranks are above some threshold. What an engine reports
  // of its blocks is heard by both sides.
  void FindOverloaded() {
    const OverloadThresholds& limits = config_.overload;
    for (reference::Worker& worker : fleet_.workers) {
      worker.overloaded = limits.IsSet();
      for (uint32_t r = worker.first_rank; r < worker.first_rank + worker.ranks; ++r) {
        const Place place{.worker = worker.id, .rank = r};
        const double used_blocks = static_cast<double>(Draw(kTotalBlocks + 1));
        const bool says = Draw(2) == 0;
        if (says) {
          scheduler_->ReportLoad({.target = TargetAt(place), .kv_used_blocks = used_blocks});
        }
        const double prefill = static_cast<double>(fleet_.ActivePrefillTokens(place));
        const double most_blocks =
            std::max(says ? used_blocks : 0, fleet_.ActiveDecodeBlocks(place));
        const bool above =
            (limits.active_prefill_tokens &&
             prefill > static_cast<double>(*limits.active_prefill_tokens)) ||
            (limits.active_prefill_tokens_frac &&
             prefill > std::trunc(*limits.active_prefill_tokens_frac * kBatchTokens)) ||
            (limits.active_decode_blocks &&
             most_blocks > *limits.active_decode_blocks * kTotalBlocks);
        worker.overloaded = worker.overloaded && above;
      }
      overloaded_ += worker.overloaded ? 1 : 0;
    }
  }

  std::vector<Place> AllPlaces() const {
    std::vector<Place> places;
    for (const auto& worker : fleet_.workers) {
      for (uint32_t r = 0; r < worker.ranks; ++r) {
        places.push_back({.worker = worker.id, .rank = worker.first_rank + r});
      }
    }
    return places;
  }

  // Blocks over two letters: most prompts share some prefix. A block's name names its prefix.
  std::vector<uint64_t> ABlockChain() {
    std::vector<uint64_t> blocks(Draw(7));
    uint64_t name = 1;
    for (uint64_t& block : blocks) {
      name = name * 2 + Draw(2);
      block = name;
    }
    return blocks;
  }

  BothRequests ARequest() {
    BothRequests request;
    auto& theirs = request.theirs;
    theirs.block_size = block_size_;
    theirs.blocks = ABlockChain();
    theirs.isl_tokens = theirs.blocks.size() * block_size_ + Draw(block_size_);
    if (theirs.isl_tokens == 0) theirs.isl_tokens = 1;  // §4.1: isl > 0
    // A block size of 1 has no partial block: the one token is a block.
    if (block_size_ == 1 && theirs.blocks.empty()) theirs.blocks.push_back(2 + Draw(2));
    theirs.decode_worker = decode_pool_;
    for (const uint64_t block : theirs.blocks) request.chain.push_back(SequenceHash{block});
    for (const Place place : AllPlaces()) {
      const uint64_t device = Draw(2) * Draw(theirs.blocks.size() + 1);
      if (device == 0) continue;
      OverlapMatch match;
      match.target = TargetAt(place);
      match.blocks = static_cast<uint32_t>(device);
      request.overlaps.push_back(match);
      theirs.overlaps[place] = {.device = static_cast<double>(device)};
    }
    Override(&request);
    Restrict(&request);
    return request;
  }

  void Override(BothRequests* request) {
    ConfigOverride& overrides = request->wishes.overrides;
    if (Draw(4) == 0) overrides.overlap_score_credit = Weight(4);
    if (Draw(4) == 0) overrides.prefill_load_scale = Weight(9);
    if (Draw(4) == 0) overrides.assume_kv_reuse = Draw(2) == 0;
    if (Draw(4) == 0) overrides.track_prefill_tokens = Draw(2) == 0;
    const CostWeights& w = config_.weights;
    request->theirs.weights = {
        .credit = overrides.overlap_score_credit.value_or(w.overlap_score_credit),
        .credit_decay = w.overlap_score_credit_decay,
        .prefill_scale = overrides.prefill_load_scale.value_or(w.prefill_load_scale),
        .request_weight = w.decode_active_request_weight,
        .host_weight = w.host_cache_hit_weight,
        .disk_weight = w.disk_cache_hit_weight,
        .track_prefill = overrides.track_prefill_tokens.value_or(config_.track_prefill_tokens),
        .reuse = overrides.assume_kv_reuse.value_or(config_.assume_kv_reuse)};
  }

  void Restrict(BothRequests* request) {
    const auto a_worker = [&] { return 1 + Draw(7); };
    if (Draw(4) == 0) {
      request->theirs.allowed.emplace();
      request->wishes.allowed_workers.emplace();
      for (uint64_t i = Draw(5); i > 0; --i) {
        const uint64_t worker = a_worker();
        request->theirs.allowed->insert(worker);
        request->wishes.allowed_workers->push_back(WorkerId{worker});
      }
    }
    for (uint64_t i = Draw(6) / 3; i > 0; --i) {
      const Place place{.worker = a_worker(), .rank = static_cast<uint32_t>(Draw(4))};
      if (Draw(2) == 0) {
        request->theirs.excluded_workers.insert(place.worker);
        request->wishes.excluded.push_back({.worker = WorkerId{place.worker}});
      } else {
        request->theirs.excluded_places.insert(place);
        request->wishes.excluded.push_back(
            {.worker = WorkerId{place.worker}, .dp_rank = place.rank});
      }
    }
    request->theirs.wants_lora = Draw(4) == 0;
    if (request->theirs.wants_lora) request->wishes.lora_name = "adapter";
    for (uint64_t i = Draw(4) / 2; i > 0; --i) {
      const std::string taint = ATaint();
      request->theirs.required_taints.insert(taint);
      request->wishes.constraints.required_taints.push_back(taint);
    }
    for (uint64_t i = Draw(4) / 2; i > 0; --i) {
      const std::string taint = ATaint();
      const double weight = static_cast<double>(Draw(401)) / 100 - 2;
      request->theirs.preferred_taints[taint] = weight;
      request->wishes.constraints.preferred_taints[taint] = weight;
    }
    if (Draw(8) == 0) {
      request->theirs.pinned_worker = a_worker();
      request->wishes.pinned = {.worker = WorkerId{*request->theirs.pinned_worker}};
      if (Draw(2) == 0) {
        request->theirs.pinned_rank = static_cast<uint32_t>(Draw(4));
        request->wishes.pinned->dp_rank = request->theirs.pinned_rank;
      }
    }
  }

  absl::StatusOr<Placement> Pick(const BothRequests& request, CandidateTable* table) {
    return PickWith(CandidateFilter(request.wishes), request, false, table);
  }

  absl::StatusOr<Placement> PickWith(const CandidateFilter& filter, const BothRequests& request,
                                     bool book, CandidateTable* table) {
    ScheduleRequest ours;
    ours.filter = &filter;
    ours.weights = ResolveWeights(config_, request.wishes.overrides);
    ours.overlaps = request.overlaps;
    ours.chain = request.chain;
    ours.isl_tokens = request.theirs.isl_tokens;
    ours.block_size_tokens = static_cast<uint32_t>(block_size_);
    ours.decode_pool = decode_pool_;
    ours.book = book;
    return scheduler_->PickAndBook(ours, table, MonotonicTime{});
  }

  // On a place drawn for it, so that states are any, not only those good decisions lead to.
  void Book() {
    const auto places = AllPlaces();
    if (places.empty()) return;
    const Place place = places[Draw(places.size())];
    const BothRequests request = ARequest();
    CandidateTable table;
    const auto placement = PickWith(CandidateFilter(TargetAt(place)), request, true, &table);
    if (!placement.ok()) return;  // draining
    reference::Live live{.place = place,
                         .blocks = request.theirs.blocks,
                         .prefill_tokens = reference::Fleet::PrefillTokens(request.theirs, place)};
    if (!request.theirs.weights.reuse) {
      for (uint64_t& block : live.blocks) block = next_own_block_++;
    }
    fleet_.live.push_back(live);
    bookings_.push_back(placement->booking);
  }

  void Progress() {
    if (bookings_.empty()) return;
    const size_t i = Draw(bookings_.size());
    reference::Live& live = fleet_.live[i];
    switch (Draw(4)) {
      case 0:
        ASSERT_TRUE(scheduler_->PrefillComplete(bookings_[i], {}));
        live.prefill_tokens = 0;
        return;
      case 1: {
        const double fraction = static_cast<double>(Draw(9)) / 8;
        ASSERT_TRUE(scheduler_->OutputBlock(bookings_[i], fraction, {}));
        ++live.output_blocks;
        live.weight = fraction;
        return;
      }
      case 2:
        ASSERT_TRUE(scheduler_->OutputBlock(bookings_[i], std::nullopt, {}));
        ++live.output_blocks;
        return;
      default:
        ASSERT_TRUE(scheduler_->Finish(bookings_[i], {}));
        bookings_.erase(bookings_.begin() + static_cast<long>(i));
        fleet_.live.erase(fleet_.live.begin() + static_cast<long>(i));
        return;
    }
  }

  static void ExpectFailure(Failure failure, const absl::Status& status) {
    switch (failure) {
      case Failure::kPinNotAllowed:
        ASSERT_EQ(ErrorReasonOf(status), ErrorReason::kPinnedNotAllowed);
        return;
      case Failure::kNoEndpoints:
        ASSERT_TRUE(ErrorReasonOf(status) == ErrorReason::kNoWorkers ||
                    ErrorReasonOf(status) == ErrorReason::kPinnedUnavailable)
            << status;
        return;
      case Failure::kAllOverloaded:
        ASSERT_EQ(ErrorReasonOf(status), ErrorReason::kAllOverloaded);
        return;
      case Failure::kPinOverloaded:
        ASSERT_EQ(ErrorReasonOf(status), ErrorReason::kPinnedOverloaded);
        return;
      case Failure::kNone:
        FAIL();
    }
  }

  std::mt19937_64 random_;
  uint64_t seed_ = 0;
  uint64_t block_size_ = 16;
  bool decode_pool_ = false;
  SchedulerConfig config_;
  std::unique_ptr<Scheduler> scheduler_;
  reference::Fleet fleet_;
  std::vector<BookingId> bookings_;  // of fleet_.live[i]
  uint64_t next_own_block_ = uint64_t{1} << 32;
  uint64_t decided_ = 0;
  uint64_t overloaded_ = 0;
};

TEST(SchedulerReferenceTest, CostsAndChoiceAgreeOnAHundredThousandRandomStates) {
  uint64_t decided = 0;
  uint64_t overloaded = 0;
  for (uint64_t seed = 0; seed < 120'000; ++seed) {
    SCOPED_TRACE(fmt::format("seed={}", seed));
    RandomState state(seed);
    state.CompareOne();
    if (::testing::Test::HasFatalFailure()) return;
    decided += state.decided();
    overloaded += state.overloaded();
  }
  EXPECT_GT(overloaded, 10'000u) << "too few overloaded workers";
  EXPECT_GT(decided, 50'000u) << "too few states in which anybody could serve";
}

TEST(SchedulerReferenceTest, SamplesFollowTheSoftmax) {
  for (uint64_t seed = 0; seed < 120; ++seed) {
    SCOPED_TRACE(fmt::format("seed={}", seed));
    RandomState state(1'000'000 + seed);
    constexpr double kTemperatures[] = {0.1, 0.5, 1, 3};
    state.CompareDistribution(kTemperatures[seed % 4], 4000);
    if (::testing::Test::HasFailure()) return;
  }
}

TEST(SchedulerReferenceTest, TiesAreDrawnUniformly) {
  for (uint64_t seed = 0; seed < 60; ++seed) {
    SCOPED_TRACE(fmt::format("seed={}", seed));
    RandomState state(2'000'000 + seed);
    state.SetPlainWeights();  // an idle fleet: most targets tie, exactly
    state.CompareDistribution(0, 4000);
    if (::testing::Test::HasFailure()) return;
  }
}

}  // namespace
}  // namespace kvrouter
