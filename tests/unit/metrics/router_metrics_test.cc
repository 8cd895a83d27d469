#include "adapters/metrics/router_metrics.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <sstream>
#include <thread>

#include "adapters/metrics/atomic_histogram.h"
#include "adapters/metrics/metric_catalogue.h"

namespace kvrouter {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;

// The lines of a scrape: "name{labels}" -> value, and the families by their TYPE line.
struct Scrape {
  explicit Scrape(const RouterMetrics& metrics) : text(metrics.Text()) {
    std::istringstream lines(text);
    for (std::string line; std::getline(lines, line);) {
      if (line.starts_with("# TYPE ")) {
        std::istringstream words(line.substr(7));
        std::string name, type;
        words >> name >> type;
        families[name] = type;
      } else if (!line.starts_with("#")) {
        const size_t space = line.rfind(' ');
        series[line.substr(0, space)] = std::stod(line.substr(space + 1));
      }
    }
  }

  // The one series of this name whose labels hold all of these.
  double Value(const std::string& name, const std::vector<std::string>& labels = {}) const {
    std::optional<double> found;
    for (const auto& [key, value] : series) {
      if (key != name && !key.starts_with(name + "{")) continue;
      bool all = true;
      for (const std::string& label : labels) all = all && key.find(label) != std::string::npos;
      if (!all) continue;
      EXPECT_FALSE(found.has_value()) << "more than one series of " << name;
      found = value;
    }
    EXPECT_TRUE(found.has_value()) << "no series " << name;
    return found.value_or(-1);
  }

  std::string text;
  std::map<std::string, std::string> families;
  std::map<std::string, double> series;
};

RouteDecision Booked(uint64_t isl_blocks, double overlap_blocks) {
  RouteDecision decision;
  decision.booked = true;
  decision.block_size_tokens = 16;
  decision.isl_blocks = isl_blocks;
  decision.isl_tokens = isl_blocks * 16;
  decision.effective_overlap_blocks = overlap_blocks;
  decision.expected_engine_hit_tokens = static_cast<uint64_t>(overlap_blocks) * 16;
  return decision;
}

constexpr const char* kHistogramCount = "dynamo_component_router_kv_hit_rate_count";
constexpr const char* kHistogramSum = "dynamo_component_router_kv_hit_rate_sum";
constexpr const char* kOverlap = "dynamo_component_router_kv_overlap_blocks_total";
constexpr const char* kIsl = "dynamo_component_router_kv_isl_blocks_total";

TEST(RouterMetricsTest, B48MeanOfRatiosIsNotTheHitRate) {
  RouterMetrics metrics({});
  metrics.OnDecision({}, Booked(1, 0));
  metrics.OnDecision({}, Booked(100, 99));
  const Scrape scrape(metrics);
  EXPECT_EQ(scrape.Value(kHistogramCount), 2);
  EXPECT_DOUBLE_EQ(scrape.Value(kHistogramSum), 0.99);
  EXPECT_EQ(scrape.Value(kOverlap), 99);
  EXPECT_EQ(scrape.Value(kIsl), 101);
  EXPECT_EQ(scrape.Value("kvrouter_overlap_tokens_total"), 99 * 16);
  EXPECT_EQ(scrape.Value("kvrouter_isl_tokens_total"), 101 * 16);
}

TEST(RouterMetricsTest, B48EmptyPromptMovesNeitherHistogramNorCounters) {
  RouterMetrics metrics({});
  metrics.OnDecision({}, Booked(0, 0));
  const Scrape scrape(metrics);
  for (const char* name : {kHistogramCount, kHistogramSum, kOverlap, kIsl})
    EXPECT_EQ(scrape.Value(name), 0) << name;
  EXPECT_EQ(scrape.Value("kvrouter_decisions_total", {"reason=\"lowest_cost\""}), 1);
}

TEST(RouterMetricsTest, B48AdviceMovesNeitherHistogramNorCounters) {
  RouterMetrics metrics({});
  RouteDecision advice = Booked(100, 99);
  advice.booked = false;
  metrics.OnDecision({}, advice);
  const Scrape scrape(metrics);
  for (const char* name : {kHistogramCount, kHistogramSum, kOverlap, kIsl})
    EXPECT_EQ(scrape.Value(name), 0) << name;
  EXPECT_EQ(scrape.Value("kvrouter_advice_total"), 1);
}

TEST(RouterMetricsTest, B48PinnedDecisionFollowsTheSameRule) {
  RouterMetrics metrics({});
  RouteDecision pinned = Booked(10, 5);
  pinned.reason = DecisionReason::kPinned;
  metrics.OnDecision({}, pinned);
  const Scrape scrape(metrics);
  EXPECT_EQ(scrape.Value(kHistogramCount), 1);
  EXPECT_EQ(scrape.Value(kOverlap), 5);
  EXPECT_EQ(scrape.Value("kvrouter_decisions_total", {"reason=\"pinned\""}), 1);
}

TEST(RouterMetricsTest, TierWeightedOverlapKeepsItsFraction) {
  RouterMetrics metrics({});
  metrics.OnDecision({}, Booked(10, 2.75));
  const Scrape scrape(metrics);
  EXPECT_EQ(scrape.Value(kOverlap), 2.75);
  EXPECT_EQ(scrape.Value("kvrouter_overlap_tokens_total"), 44);
}

TEST(RouterMetricsTest, RegretIsCountedWhereAnotherEligibleWorkerHeldMore) {
  RouterMetrics metrics({});
  RouteDecision best = Booked(10, 6);
  best.best_available_overlap_blocks = 6;
  RouteDecision worse = Booked(10, 2);
  worse.best_available_overlap_blocks = 6;
  worse.regret_blocks = 4;
  RouteDecision prefill = worse;
  prefill.role = WorkerRole::kPrefill;
  RouteDecision advice = worse;
  advice.booked = false;
  for (const RouteDecision& decision : {best, worse, prefill, advice})
    metrics.OnDecision({}, decision);
  const Scrape scrape(metrics);
  EXPECT_EQ(scrape.Value("kvrouter_best_overlap_tokens_total"), 3 * 6 * 16);
  EXPECT_EQ(scrape.Value("kvrouter_overlap_tokens_total"), (6 + 2 + 2) * 16);
  EXPECT_EQ(scrape.Value("kvrouter_regret_blocks_total"), 8);
  for (const char* type : {"worker_type=\"decode\"", "worker_type=\"prefill\""}) {
    const std::string lost = "dynamo_component_router_overlap_blocks_lost";
    EXPECT_EQ(scrape.Value("dynamo_component_router_non_max_overlap_selections_total", {type}), 1);
    EXPECT_EQ(scrape.Value(lost + "_sum", {type}), 4);
    EXPECT_EQ(scrape.Value(lost + "_bucket", {type, "le=\"2\""}), 0);
    EXPECT_EQ(scrape.Value(lost + "_bucket", {type, "le=\"4\""}), 1);
    EXPECT_EQ(scrape.Value(lost + "_bucket", {type, "le=\"8192\""}), 1) << "the last bound";
  }
}

TEST(RouterMetricsTest, HitRateHasDynamosTwentyOneBuckets) {
  RouterMetrics metrics({});
  metrics.OnDecision({}, Booked(20, 0));
  metrics.OnDecision({}, Booked(20, 1));
  metrics.OnDecision({}, Booked(20, 20));
  const Scrape scrape(metrics);
  std::set<std::string> bounds;
  for (const auto& [key, value] : scrape.series) {
    if (key.starts_with("dynamo_component_router_kv_hit_rate_bucket"))
      bounds.insert(key.substr(key.find("le=")));
  }
  EXPECT_EQ(bounds.size(), 22u) << "0, 0.05 … 1 and +Inf";
  const std::string bucket = "dynamo_component_router_kv_hit_rate_bucket";
  EXPECT_EQ(scrape.Value(bucket, {"le=\"0\""}), 1);
  EXPECT_EQ(scrape.Value(bucket, {"le=\"0.05\""}), 2) << "bounds are inclusive";
  EXPECT_EQ(scrape.Value(bucket, {"le=\"0.95\""}), 2);
  EXPECT_EQ(scrape.Value(bucket, {"le=\"1\""}), 3);
  EXPECT_EQ(scrape.Value(bucket, {"le=\"+Inf\""}), 3);
}

TEST(RouterMetricsTest, ComponentLabelsAreDynamos) {
  RouterMetrics metrics({.dynamo_namespace = "prod", .router_id = "42", .version = "1.2.3"});
  const Scrape scrape(metrics);
  EXPECT_EQ(scrape.Value(kOverlap, {"dynamo_namespace=\"prod\"", "dynamo_component=\"router\"",
                                    "dynamo_endpoint=\"generate\"", "router_id=\"42\""}),
            0);
  EXPECT_EQ(scrape.Value("kvrouter_build_info", {"version=\"1.2.3\""}), 1);
}

TEST(RouterMetricsTest, RouterIdIsStableOnOneHost) {
  const auto series_of_overlap = [](const Scrape& scrape) {
    const auto it = scrape.series.lower_bound(kOverlap);
    return it == scrape.series.end() ? std::string() : it->first;
  };
  const std::string first = series_of_overlap(Scrape(RouterMetrics({})));
  EXPECT_THAT(first, testing::ContainsRegex("router_id=\"[0-9]+\""));
  EXPECT_EQ(first, series_of_overlap(Scrape(RouterMetrics({}))));
}

TEST(RouterMetricsTest, EveryFamilyIsThereBeforeTheFirstRequest) {
  const Scrape scrape{RouterMetrics({})};
  std::map<std::string, std::string> want;
  for (const MetricInfo& info : MetricCatalogue()) {
    const auto [it, is_new] =
        want.emplace(std::string(info.name), std::string(MetricTypeName(info.type)));
    EXPECT_TRUE(is_new) << it->first;
  }
  EXPECT_EQ(scrape.families, want);
  for (const auto& [key, value] : scrape.series) {
    if (key.starts_with("process_") || key.starts_with("kvrouter_build_info")) continue;
    EXPECT_EQ(value, 0) << key;
  }
}

TEST(MetricCatalogueTest, EveryRowIsComplete) {
  for (const MetricInfo& info : MetricCatalogue()) {
    SCOPED_TRACE(std::string(info.name));
    EXPECT_FALSE(info.unit.empty());
    EXPECT_TRUE(info.meaning.ends_with('.'));
    EXPECT_TRUE(info.moves.ends_with('.'));
    EXPECT_EQ(info.bounds.empty(), info.type != MetricType::kHistogram);
    EXPECT_TRUE(std::is_sorted(info.bounds.begin(), info.bounds.end(), std::less_equal<>()));
    EXPECT_EQ(info.type == MetricType::kGauge, info.weighting == Weighting::kLevel);
    EXPECT_EQ(info.name.starts_with("dynamo_"), info.origin == MetricOrigin::kDynamo);
    EXPECT_EQ(info.name.starts_with("kvrouter_"), info.origin == MetricOrigin::kOurs);
    if (info.origin != MetricOrigin::kDynamo) {
      EXPECT_EQ(info.type == MetricType::kCounter, info.name.ends_with("_total"));
    }
    EXPECT_EQ(info.meaning.find('|'), std::string_view::npos) << "would break the table";
  }
}

TEST(RouterMetricsTest, EveryFamilyHasHelpAndNoNameRepeats) {
  const Scrape scrape{RouterMetrics({})};
  std::istringstream lines(scrape.text);
  std::multiset<std::string> helped;
  for (std::string line; std::getline(lines, line);) {
    if (line.starts_with("# HELP ")) {
      const std::string rest = line.substr(7);
      const size_t space = rest.find(' ');
      ASSERT_NE(space, std::string::npos) << line;
      EXPECT_GT(rest.size() - space, 10u) << line;
      helped.insert(rest.substr(0, space));
    }
  }
  EXPECT_EQ(helped.size(), scrape.families.size());
  for (const auto& [name, type] : scrape.families) EXPECT_EQ(helped.count(name), 1u) << name;
}

TEST(RouterMetricsTest, EventsHaveEveryKindWithEveryStatusOfDynamo) {
  const Scrape scrape{RouterMetrics({})};
  for (const char* kind : {"stored", "removed", "cleared"}) {
    for (const char* status :
         {"ok", "parent_block_not_found", "block_not_found", "invalid_block", "capacity_exhausted",
          "allocation_failed", "ownership_degree_overflow", "indexer_invariant_violation",
          "unsupported_residency_domain"}) {
      EXPECT_EQ(scrape.Value(
                    "dynamo_component_kv_cache_events_applied",
                    {fmt::format("event_type=\"{}\"", kind), fmt::format("status=\"{}\"", status)}),
                0);
    }
  }
}

// The finite bucket bounds of a family as its page shows them.
std::vector<std::string> BoundsShown(const Scrape& scrape, const std::string& name) {
  std::vector<double> bounds;
  for (const auto& [key, value] : scrape.series) {
    const size_t at = key.find("le=\"");
    if (!key.starts_with(name + "_bucket{") || key.find("+Inf") != std::string::npos) continue;
    bounds.push_back(std::stod(key.substr(at + 4)));
  }
  std::sort(bounds.begin(), bounds.end());
  std::vector<std::string> texts;
  for (const double bound : bounds) texts.push_back(fmt::format("{:g}", bound));
  return texts;
}

TEST(RouterMetricsTest, BucketsAreDynamos) {
  const Scrape scrape{RouterMetrics({})};
  EXPECT_THAT(BoundsShown(scrape, "dynamo_component_router_input_sequence_tokens"),
              ElementsAre("0", "100", "210", "430", "870", "1800", "3600", "7400", "15000", "31000",
                          "63000", "130000"));
  EXPECT_THAT(
      BoundsShown(scrape, "dynamo_component_router_output_sequence_tokens"),
      ElementsAre("0", "100", "210", "430", "880", "1800", "3700", "7600", "16000", "32000"));
  EXPECT_THAT(BoundsShown(scrape, "dynamo_component_router_time_to_first_token_seconds"),
              ElementsAre("0", "0.0022", "0.0047", "0.01", "0.022", "0.047", "0.1", "0.22", "0.47",
                          "1", "2.2", "4.7", "10", "22", "48", "100", "220", "480"));
  EXPECT_THAT(BoundsShown(scrape, "dynamo_component_router_inter_token_latency_seconds"),
              ElementsAre("0", "0.0019", "0.0035", "0.0067", "0.013", "0.024", "0.045", "0.084",
                          "0.16", "0.3", "0.56", "1.1", "2"));
  for (const char* step : {"block_hashing", "seq_hashing"}) {
    EXPECT_THAT(BoundsShown(scrape, fmt::format("dynamo_router_overhead_{}_ms", step)),
                ElementsAre("0.001", "0.002", "0.004", "0.008", "0.016", "0.032", "0.064", "0.128",
                            "0.256", "0.512", "1.024", "2.048", "4.096", "8.192", "16.384"));
  }
  for (const char* step : {"indexer_find_matches", "scheduling", "total"}) {
    EXPECT_THAT(BoundsShown(scrape, fmt::format("dynamo_router_overhead_{}_ms", step)),
                ElementsAre("0.01", "0.03", "0.09", "0.27", "0.81", "2.43", "7.29", "21.87",
                            "65.61", "196.83", "590.49", "1771.47", "5314.41", "15943.2", "47829.7",
                            "143489", "430467"));
  }
}

TEST(RouterMetricsTest, OverheadIsObservedInMillisecondsStepByStep) {
  RouterMetrics metrics({.dynamo_namespace = "prod", .router_id = "42", .version = ""});
  PhaseTimes times;
  times.phases = {std::chrono::microseconds(3), std::nullopt, std::chrono::microseconds(20),
                  std::chrono::microseconds(500)};
  times.total = std::chrono::microseconds(600);
  metrics.OnPhases(times);
  const Scrape scrape(metrics);
  const auto of = [&scrape](const char* step, const char* figure) {
    return scrape.Value(fmt::format("dynamo_router_overhead_{}_ms_{}", step, figure),
                        {"{router_id=\"42\"}"});
  };
  EXPECT_DOUBLE_EQ(of("block_hashing", "sum"), 0.003);
  EXPECT_EQ(of("seq_hashing", "count"), 0) << "the caller did it";
  EXPECT_DOUBLE_EQ(of("indexer_find_matches", "sum"), 0.02);
  EXPECT_DOUBLE_EQ(of("scheduling", "sum"), 0.5);
  EXPECT_DOUBLE_EQ(of("total", "sum"), 0.6);
  EXPECT_EQ(of("total", "count"), 1);
  EXPECT_EQ(scrape.Value("dynamo_router_overhead_block_hashing_ms_bucket", {"le=\"0.002\""}), 0);
  EXPECT_EQ(scrape.Value("dynamo_router_overhead_block_hashing_ms_bucket", {"le=\"0.004\""}), 1);
}

TEST(RouterMetricsTest, InputSequenceTokensAreThoseOfBookedRequests) {
  RouterMetrics metrics({});
  RouteDecision advice = Booked(100, 0);
  advice.booked = false;
  metrics.OnDecision({}, Booked(100, 0));  // 1600 tokens
  metrics.OnDecision({}, Booked(0, 0));
  metrics.OnDecision({}, advice);
  const Scrape scrape(metrics);
  const std::string name = "dynamo_component_router_input_sequence_tokens";
  EXPECT_EQ(scrape.Value(name + "_count"), 2);
  EXPECT_EQ(scrape.Value(name + "_sum"), 1600);
  EXPECT_EQ(scrape.Value(name + "_bucket", {"le=\"0\""}), 1);
  EXPECT_EQ(scrape.Value(name + "_bucket", {"le=\"870\""}), 1);
  EXPECT_EQ(scrape.Value(name + "_bucket", {"le=\"1800\""}), 2);
}

TEST(AtomicHistogramTest, BoundsAreInclusiveAndWhatIsBeyondThemCountsToo) {
  constexpr std::array<double, 2> kBounds = {1, 2};
  AtomicHistogram histogram(kBounds);
  for (const double value : {-1.0, 1.0, 1.5, 2.0, 2.5}) histogram.Observe(value);
  const auto collected = histogram.Collect().histogram;
  ASSERT_EQ(collected.bucket.size(), 3u);
  EXPECT_EQ(collected.bucket[0].cumulative_count, 2u);
  EXPECT_EQ(collected.bucket[1].cumulative_count, 4u);
  EXPECT_EQ(collected.bucket[2].cumulative_count, 5u);
  EXPECT_TRUE(std::isinf(collected.bucket[2].upper_bound));
  EXPECT_EQ(collected.sample_count, 5u);
  EXPECT_EQ(collected.sample_sum, 6);
}

TEST(AtomicHistogramTest, NoObservationIsLostBetweenThreads) {
  constexpr std::array<double, 1> kBounds = {1};
  constexpr int kEach = 20'000;
  AtomicHistogram histogram(kBounds);
  {
    std::vector<std::jthread> threads;
    for (int t = 0; t < 4; ++t) {
      threads.emplace_back([&histogram, t] {
        for (int i = 0; i < kEach; ++i) histogram.Observe(t % 2 == 0 ? 1 : 3);
      });
    }
  }
  const auto collected = histogram.Collect().histogram;
  EXPECT_EQ(collected.sample_count, 4u * kEach);
  EXPECT_EQ(collected.bucket[0].cumulative_count, 2u * kEach);
  EXPECT_EQ(collected.sample_sum, 2 * kEach * (1 + 3));
}

// With the real core behind it.
class RouterMetricsSourcesTest : public testing::Test {
 protected:
  RouterMetricsSourcesTest()
      : metrics_({}),
        router_({}, &metrics_, &metrics_),
        service_({}, &router_, &clock_, &metrics_),
        workers_(&router_) {
    metrics_.SetSources({.router = &router_,
                         .service = &service_,
                         .feeds = &feeds_,
                         .workers = &workers_,
                         .http =
                             [] {
                               return HttpFigures{
                                   .requests = 3,
                                   .connections_refused = 4,
                                   .selection_answers = {{"POST", "/select", "4xx", 5}},
                                   .indexer_answers = {{"POST", "/query", "2xx", 6}}};
                             },
                         .ready = [] { return true; }});
  }

  void Register(uint64_t id, WorkerRole role = WorkerRole::kAggregated) {
    WorkerSpec spec;
    spec.id = WorkerId{id};
    spec.address = "http://127.0.0.1:1";
    spec.block_size_tokens = 4;
    spec.dp_size = 2;
    spec.role = role;
    ASSERT_TRUE(workers_.Register(spec).ok());
  }

  static FeedReport Report(uint64_t worker, uint32_t rank, FeedState state) {
    return {.target = {WorkerId{worker}, rank}, .state = state, .detail = "", .counters = {}};
  }

  void Route(const std::string& id, std::vector<TokenId> tokens, bool book = true) {
    RouteRequest request;
    request.request_id = id;
    request.prompt = TokenPrompt{tokens};
    request.book = book;
    const auto decision = service_.Route(std::move(request));
    ASSERT_TRUE(decision.ok()) << decision.status();
  }

  ManualClock clock_;
  RouterMetrics metrics_;
  Router router_;
  RoutingService service_;
  WorkerRegistry workers_;
  FeedMonitor feeds_;
};

TEST_F(RouterMetricsSourcesTest, RequestsAndLoadMoveWithBookings) {
  Register(1);
  Route("a", {1, 2, 3, 4, 5});
  Route("advice", {1, 2, 3, 4, 5}, /*book=*/false);
  const Scrape booked(metrics_);
  EXPECT_EQ(booked.Value("dynamo_component_router_requests_started_total"), 1);
  EXPECT_EQ(booked.Value("dynamo_component_router_requests_total"), 0);
  EXPECT_EQ(booked.Value("kvrouter_bookings", {"model=\"default\"", "routing_group=\"default\""}),
            1);
  EXPECT_EQ(booked.Value("kvrouter_advice_total"), 1);
  EXPECT_EQ(booked.Value(kIsl), 2);
  double prefill_tokens = 0;
  for (const char* rank : {"0", "1"}) {
    prefill_tokens += booked.Value(
        "dynamo_frontend_worker_active_prefill_tokens",
        {"worker_id=\"1\"", fmt::format("dp_rank=\"{}\"", rank), "worker_type=\"decode\""});
  }
  EXPECT_EQ(prefill_tokens, 5);
  ASSERT_EQ(service_.Free("a"), LifecycleResult::kDone);
  service_.Free("a");
  const Scrape freed(metrics_);
  EXPECT_EQ(freed.Value("dynamo_component_router_requests_total"), 1);
  EXPECT_EQ(freed.Value("kvrouter_unknown_frees_total"), 1);
  EXPECT_EQ(freed.Value("kvrouter_bookings"), 0);
  EXPECT_EQ(freed.Value("kvrouter_http_requests_total"), 3);
  EXPECT_EQ(freed.Value("kvrouter_http_indexer_requests_total",
                        {R"(method="POST")", R"(route="/query")", R"(status="2xx")"}),
            6);
  EXPECT_EQ(freed.Value("kvrouter_http_selection_requests_total",
                        {R"(method="POST")", R"(route="/select")", R"(status="4xx")"}),
            5);
  EXPECT_EQ(freed.Value("kvrouter_ready"), 1);
}

TEST_F(RouterMetricsSourcesTest, ReportsOfCallersBecomeLatenciesAndLengths) {
  Register(1);
  Route("a", {1, 2, 3, 4, 5, 6, 7, 8});
  clock_.Advance(std::chrono::milliseconds(300));
  service_.PrefillComplete("a");
  clock_.Advance(std::chrono::milliseconds(200));
  service_.OutputTokens("a", 5, std::nullopt);
  service_.Free("a");
  const Scrape scrape(metrics_);
  const auto of = [&scrape](const char* name, const char* figure) {
    return scrape.Value(fmt::format("dynamo_component_router_{}_{}", name, figure));
  };
  EXPECT_EQ(of("time_to_first_token_seconds", "count"), 1);
  EXPECT_DOUBLE_EQ(of("time_to_first_token_seconds", "sum"), 0.3);
  EXPECT_EQ(of("inter_token_latency_seconds", "count"), 1);
  EXPECT_DOUBLE_EQ(of("inter_token_latency_seconds", "sum"), 0.05);
  EXPECT_EQ(of("output_sequence_tokens", "count"), 1);
  EXPECT_EQ(of("output_sequence_tokens", "sum"), 5);
  EXPECT_EQ(of("input_sequence_tokens", "sum"), 8);
  const auto last = [&scrape](const char* name) {
    return scrape.Value(fmt::format("dynamo_frontend_worker_last_{}", name),
                        {"worker_id=\"1\"", "worker_type=\"decode\""});
  };
  EXPECT_DOUBLE_EQ(last("time_to_first_token_seconds"), 0.3);
  EXPECT_DOUBLE_EQ(last("inter_token_latency_seconds"), 0.05);
  EXPECT_EQ(last("input_sequence_tokens"), 8);
}

TEST_F(RouterMetricsSourcesTest, LatestFiguresAreThoseOfTheWorkersPresentLife) {
  Register(1);
  const Incarnation first_life = workers_.Find(WorkerId{1})->incarnation;
  Route("a", {1, 2, 3, 4, 5});
  ASSERT_TRUE(workers_.Remove(WorkerId{1}).ok());
  Register(1);
  EXPECT_THAT(Scrape(metrics_).text, Not(HasSubstr("last_input_sequence_tokens{")));
  Route("b", {1, 2, 3});
  for (const uint32_t rank : {0u, 1u}) {
    metrics_.OnFirstToken({.target = {WorkerId{1}, rank}, .incarnation = first_life},
                          std::chrono::seconds(9));
  }
  const Scrape scrape(metrics_);
  EXPECT_EQ(scrape.Value("dynamo_frontend_worker_last_input_sequence_tokens"), 3);
  EXPECT_THAT(scrape.text, Not(HasSubstr("last_time_to_first_token_seconds{")))
      << "a late report on the life that is over";
}

TEST_F(RouterMetricsSourcesTest, QueuesAreThereAndEmptyForEveryModelAndPool) {
  Register(1);
  Register(2);
  Register(3, WorkerRole::kPrefill);
  const Scrape scrape(metrics_);
  for (const char* type : {"worker_type=\"decode\"", "worker_type=\"prefill\""}) {
    const std::vector<std::string> pool = {"{model=\"default\"", type, "policy_class=\"default\""};
    for (const char* what : {"requests", "isl_tokens", "cached_tokens"}) {
      EXPECT_EQ(scrape.Value(fmt::format("dynamo_frontend_router_queue_pending_{}", what), pool),
                0);
    }
    for (const char* reason :
         {"request_limit", "raw_isl_token_limit", "cached_token_limit", "do_not_queue"}) {
      std::vector<std::string> labels = pool;
      labels.push_back(fmt::format("reason=\"{}\"", reason));
      EXPECT_EQ(scrape.Value("dynamo_frontend_router_queue_backpressure_total", labels), 0);
    }
  }
}

TEST_F(RouterMetricsSourcesTest, TwoRoutingGroupsOfAModelShareItsSeries) {
  Register(1);
  WorkerSpec spec = *workers_.Find(WorkerId{1});
  spec.id = WorkerId{2};
  spec.incarnation = Incarnation{};
  spec.routing_group = "other";
  spec.total_kv_blocks = 5000;
  ASSERT_TRUE(workers_.Register(spec).ok());
  const Scrape scrape(metrics_);
  EXPECT_EQ(scrape.Value("dynamo_frontend_router_queue_pending_requests"), 0) << "one series";
  EXPECT_EQ(scrape.Value("dynamo_frontend_model_total_kv_blocks", {"{model=\"default\"}"}), 5000);
  EXPECT_EQ(scrape.Value("dynamo_frontend_model_kv_cache_block_size", {"{model=\"default\"}"}), 4);
  EXPECT_THAT(scrape.text, Not(HasSubstr("dynamo_frontend_model_max_num_batched_tokens{")))
      << "nobody stated it";
}

TEST_F(RouterMetricsSourcesTest, B16NoSeriesOutlivesItsWorker) {
  Register(7, WorkerRole::kPrefill);
  Register(8);
  feeds_.Update(Report(7, 0, FeedState::kLive));
  feeds_.Update(Report(8, 1, FeedState::kDegraded));
  {
    const Scrape scrape(metrics_);
    EXPECT_EQ(scrape.Value("dynamo_component_router_worker_registered",
                           {"router_worker_id=\"7\"", "dp_rank=\"1\"", "worker_type=\"prefill\""}),
              1);
    EXPECT_EQ(
        scrape.Value("kvrouter_feed_state", {"worker_id=\"7\"", "dp_rank=\"0\"", "state=\"live\""}),
        1);
    EXPECT_EQ(
        scrape.Value("kvrouter_feed_state", {"worker_id=\"8\"", "dp_rank=\"1\"", "state=\"live\""}),
        0);
    EXPECT_EQ(scrape.Value("kvrouter_feed_state",
                           {"worker_id=\"8\"", "dp_rank=\"1\"", "state=\"degraded\""}),
              1);
  }
  ASSERT_TRUE(workers_.Remove(WorkerId{7}).ok());
  const Scrape scrape(metrics_);
  EXPECT_THAT(scrape.text, Not(HasSubstr("worker_id=\"7\"")))
      << "although the feed has not been removed yet";
  EXPECT_THAT(scrape.text, HasSubstr("worker_id=\"8\""));
}

TEST_F(RouterMetricsSourcesTest, B16NoSeriesOutlivesTheLastWorkerOfItsPartition) {
  Register(7);
  Route("a", {1, 2, 3, 4, 5});
  EXPECT_THAT(Scrape(metrics_).text, HasSubstr("kvrouter_bookings{model=\"default\""));
  ASSERT_TRUE(workers_.Remove(WorkerId{7}).ok());
  const Scrape scrape(metrics_);
  EXPECT_THAT(scrape.text, Not(HasSubstr("model=\"default\"")));
  for (const char* family : {"kvrouter_bookings", "kvrouter_index_bytes"})
    EXPECT_TRUE(scrape.families.contains(family)) << family;
}

TEST_F(RouterMetricsSourcesTest, RefusalsAreCountedByReason) {
  const auto refused = [](const Scrape& scrape, const char* calls, const char* reason) {
    return scrape.Value(fmt::format("kvrouter_{}_refused_total", calls),
                        {fmt::format("reason=\"{}\"", reason)});
  };
  const std::vector<TokenId> tokens{1, 2, 3, 4, 5};
  RouteRequest request;
  request.request_id = "a";
  request.prompt = TokenPrompt{tokens};
  EXPECT_FALSE(service_.Route(request).ok());
  Register(1);
  EXPECT_TRUE(service_.Route(request).ok());
  EXPECT_FALSE(service_.Route(request).ok());
  WorkerSpec spec;
  spec.id = WorkerId{2};
  EXPECT_FALSE(workers_.Register(spec).ok());
  EXPECT_FALSE(workers_.Drain(WorkerId{3}).ok());
  const Scrape scrape(metrics_);
  EXPECT_EQ(refused(scrape, "requests", "unknown_partition"), 1);
  EXPECT_EQ(refused(scrape, "requests", "duplicate_request"), 1);
  EXPECT_EQ(refused(scrape, "requests", "limit_reached"), 0) << "there before it is hit";
  EXPECT_EQ(refused(scrape, "registrations", "invalid_request"), 1);
  EXPECT_EQ(refused(scrape, "registrations", "unknown_worker"), 1);
}

TEST_F(RouterMetricsSourcesTest, IndexFiguresFollowEvents) {
  Register(1);
  KvEvent event;
  event.target = {WorkerId{1}, 1};
  event.incarnation = workers_.Find(WorkerId{1})->incarnation;
  event.data =
      Stored{.parent = std::nullopt,
             .blocks = {{EngineHash{1}, LocalBlockHash{11}}, {EngineHash{2}, LocalBlockHash{12}}}};
  const ApplyResult result = router_.Apply(event);
  feeds_.CountApplied(event, result);
  const Scrape scrape(metrics_);
  EXPECT_EQ(scrape.Value("dynamo_component_kv_cache_events_applied",
                         {"event_type=\"stored\"", "status=\"ok\""}),
            1);
  EXPECT_EQ(scrape.Value("kvrouter_worker_index_blocks", {"worker_id=\"1\"", "dp_rank=\"1\""}), 2);
  EXPECT_EQ(scrape.Value("kvrouter_index_blocks"), 2);
  EXPECT_EQ(scrape.Value("kvrouter_index_holder_blocks"), 2);
  EXPECT_GT(scrape.Value("kvrouter_index_bytes"), 0);
}

TEST_F(RouterMetricsSourcesTest, DegradedFeedSaysWhyInOneSeriesAndOthersHaveNone) {
  Register(7);
  Register(8);
  FeedReport report = Report(7, 1, FeedState::kDegraded);
  report.reason = DegradedReason::kReconnected;
  feeds_.Update(report);
  feeds_.Update(Report(8, 0, FeedState::kLive));
  {
    const Scrape scrape(metrics_);
    EXPECT_EQ(scrape.Value("kvrouter_feed_degraded",
                           {"worker_id=\"7\"", "dp_rank=\"1\"", "reason=\"reconnected\""}),
              1);
    EXPECT_THAT(scrape.text, Not(HasSubstr("kvrouter_feed_degraded{worker_id=\"8\"")));
  }
  report.state = FeedState::kLive;
  report.reason = DegradedReason::kNone;
  feeds_.Update(report);
  EXPECT_THAT(Scrape(metrics_).text, Not(HasSubstr("kvrouter_feed_degraded{")));
}

TEST_F(RouterMetricsSourcesTest, FeedTotalsOutliveTheirFeed) {
  FeedReport report = Report(1, 0, FeedState::kLive);
  report.counters.gaps = 2;
  report.counters.replays_failed = 1;
  report.counters.skipped[static_cast<size_t>(SkipReason::kBadEvent)] = 5;
  feeds_.Update(report);
  feeds_.Remove(report.target);
  const Scrape scrape(metrics_);
  EXPECT_EQ(scrape.Value("kvrouter_feed_gaps_total"), 2);
  EXPECT_EQ(scrape.Value("kvrouter_feed_replays_total", {"outcome=\"failed\""}), 1);
  EXPECT_EQ(scrape.Value("kvrouter_feed_skipped_total",
                         {fmt::format("reason=\"{}\"", SkipReasonName(SkipReason::kBadEvent))}),
            5);
}

}  // namespace
}  // namespace kvrouter
