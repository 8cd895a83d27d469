// One random history through the library, gRPC and HTTP: the same decisions, loads and metrics.

#include <gtest/gtest.h>

#include <map>
#include <random>
#include <set>
#include <sstream>

#include "door_legs.h"
#include "kvrouter/block_hash.h"

namespace kvrouter {
namespace {

constexpr uint32_t kBlockTokens = 4;

// Random, small and colliding: a few workers, prompts of few tokens that share beginnings.
class History {
 public:
  explicit History(uint64_t seed) : random_(seed) {
    for (auto make : {LibraryLeg, GrpcLeg, HttpLeg}) legs_.push_back(make());
    for (int i = 0; i < 4; ++i) AddWorker();
  }

  void Step() {
    switch (Below(12)) {
      case 0:
        return ChangeFleet();
      case 1:
      case 2:
        return StoreBlocks();
      case 3:
        return Prefill();
      case 4:
      case 5:
        return Output();
      case 6:
      case 7:
        return Free();
      default:
        return Route();
    }
  }

  void ExpectSameLoadsAndMetrics() {
    const auto want = Described(legs_[0]->Loads());
    for (size_t i = 1; i < legs_.size(); ++i)
      ASSERT_EQ(Described(legs_[i]->Loads()), want) << legs_[i]->Name();
    // What the doors themselves are told, and times, differ by nature; the memory of hash tables
    // differs by their random seeds.
    const std::set<std::string> of_doors = {"kvrouter_http_",
                                            "kvrouter_selections_",
                                            "process_",
                                            "kvrouter_ready",
                                            "kvrouter_build_info",
                                            "dynamo_router_overhead_",
                                            "dynamo_component_router_time_to_first_token_",
                                            "dynamo_component_router_inter_token_latency_",
                                            "dynamo_frontend_worker_last_time_to_first_token_",
                                            "dynamo_frontend_worker_last_inter_token_latency_",
                                            "kvrouter_index_bytes"};
    ASSERT_EQ(FirstDifference(Families(*legs_[2], of_doors), Families(*legs_[1], of_doors)), "");
    // The library alone has no records of requests and no registry of workers.
    std::set<std::string> of_service = of_doors;
    of_service.insert({"dynamo_component_router_requests_", "kvrouter_bookings_expired",
                       "kvrouter_duplicate_requests", "kvrouter_requests_refused",
                       "kvrouter_registrations_refused", "kvrouter_unknown_frees",
                       "kvrouter_decision_ring_", "dynamo_frontend_model_",
                       "dynamo_frontend_worker_last_", "dynamo_component_router_output_sequence_"});
    ASSERT_EQ(FirstDifference(Families(*legs_[1], of_service), Families(*legs_[0], of_service)),
              "");
  }

  int booked() const { return booked_; }
  int refused() const { return refused_; }
  const std::set<std::string>& reasons() const { return reasons_; }

 private:
  uint64_t Below(uint64_t n) { return std::uniform_int_distribution<uint64_t>(0, n - 1)(random_); }
  bool OneIn(uint64_t n) { return Below(n) == 0; }
  WorkerId AnyWorker() { return workers_[Below(workers_.size())]; }
  std::vector<TokenId> Prompt(uint64_t max_tokens) {
    const auto first = static_cast<TokenId>(Below(3));
    std::vector<TokenId> tokens(1 + Below(max_tokens));
    for (size_t i = 0; i < tokens.size(); ++i)
      tokens[i] = first + static_cast<TokenId>(i < 12 ? 0 : Below(2));
    return tokens;
  }

  void AddWorker() {
    WorkerSpec spec;
    spec.id = WorkerId{next_worker_++};
    spec.address = "http://w:1";
    spec.block_size_tokens = kBlockTokens;
    spec.dp_size = OneIn(3) ? 2 : 1;
    for (const auto& leg : legs_) leg->AddWorker(spec);
    incarnations_[spec.id] = Incarnation{next_incarnation_++};
    ranks_[spec.id] = spec.dp_size;
    workers_.push_back(spec.id);
  }

  void ChangeFleet() {
    if (workers_.size() < 4) return AddWorker();
    const WorkerId id = AnyWorker();
    if (OneIn(2)) {
      for (const auto& leg : legs_) leg->Drain(id);
      return;
    }
    for (const auto& leg : legs_) leg->Remove(id);
    std::erase(workers_, id);
    // Its bookings are gone with it; which they were, the loads say.
    std::erase_if(live_, [&](const auto& entry) { return entry.second == id; });
  }

  void StoreBlocks() {
    KvEvent event;
    event.target = {AnyWorker(), 0};
    event.target.dp_rank = static_cast<uint32_t>(Below(ranks_[event.target.worker]));
    event.incarnation = incarnations_[event.target.worker];
    std::vector<LocalBlockHash> hashes;
    AppendLocalBlockHashes(Prompt(40), kBlockTokens, BlockSeed({}), &hashes);
    if (hashes.empty()) return;
    if (OneIn(5)) {
      event.data = Cleared{};
    } else {
      Stored stored;
      for (const LocalBlockHash hash : hashes)
        stored.blocks.push_back({EngineHash{next_engine_hash_++}, hash});
      event.data = std::move(stored);
    }
    for (const auto& leg : legs_) leg->Apply(event);
  }

  void Route() {
    LegRequest request;
    request.id = "r" + std::to_string(next_request_++);
    request.tokens = Prompt(60);
    if (OneIn(8)) request.lora_name = "adapter";
    if (OneIn(8)) request.cache_salt = "salt";
    request.book = !OneIn(4);
    if (OneIn(10)) request.pinned = TargetSelector{.worker = WorkerId{1 + Below(next_worker_)}};
    if (request.pinned && OneIn(2)) request.pinned->dp_rank = static_cast<uint32_t>(Below(2));
    if (OneIn(8)) {
      request.allowed.emplace();
      for (uint64_t i = Below(4); i > 0; --i) request.allowed->push_back(AnyWorker());
    }
    if (OneIn(5)) request.temperature = static_cast<double>(Below(3)) / 2;
    if (OneIn(20)) request.temperature = -1;  // refused
    if (OneIn(5)) request.credit = static_cast<double>(Below(5)) / 3;
    if (OneIn(6)) request.track_prefill = OneIn(2);
    if (OneIn(5)) request.expected_output_tokens = 1 + Below(100);
    const std::string want = legs_[0]->Route(request);
    for (size_t i = 1; i < legs_.size(); ++i)
      ASSERT_EQ(legs_[i]->Route(request), want) << legs_[i]->Name() << ' ' << request.id;
    if (want.starts_with("error")) {
      ++refused_;
      return;
    }
    reasons_.insert(want.substr(want.find(' ') + 1, want.find(" booked") - want.find(' ') - 1));
    if (!request.book) return;
    ++booked_;
    live_.emplace_back(request.id, WorkerId{std::stoull(want)});
  }

  void Prefill() {
    if (live_.empty()) return;
    const std::string& id = live_[Below(live_.size())].first;
    for (const auto& leg : legs_) ASSERT_TRUE(leg->PrefillComplete(id)) << leg->Name() << ' ' << id;
  }

  void Output() {
    if (live_.empty()) return;
    const std::string& id = live_[Below(live_.size())].first;
    std::optional<double> decay_fraction;
    if (OneIn(3)) decay_fraction = static_cast<double>(Below(5)) / 4;
    for (const auto& leg : legs_)
      ASSERT_TRUE(leg->OutputBlock(id, decay_fraction)) << leg->Name() << ' ' << id;
  }

  void Free() {
    if (live_.empty()) return;
    const auto entry = live_.begin() + static_cast<std::ptrdiff_t>(Below(live_.size()));
    for (const auto& leg : legs_) leg->Free(entry->first);
    live_.erase(entry);
  }

  static std::string Described(const std::vector<PartitionSnapshot>& partitions) {
    std::ostringstream out;
    for (const PartitionSnapshot& p : partitions) {
      out << p.model_name << ':' << p.routing_group << " bookings " << p.bookings << " blocks "
          << p.index_unique_blocks << '/' << p.index_holder_blocks << '\n';
      for (const TargetLoad& l : p.loads) {
        out << static_cast<uint64_t>(l.target.worker) << '/' << l.target.dp_rank << ' '
            << l.draining << ' ' << l.active_prefill_tokens << ' ' << l.active_decode_blocks << ' '
            << l.active_requests << ' ' << l.index_blocks << '\n';
      }
    }
    return out.str();
  }

  static std::string Families(const FleetLeg& leg, const std::set<std::string>& without) {
    std::istringstream text(leg.MetricsText());
    std::string kept;
    for (std::string line; std::getline(text, line);) {
      if (line.starts_with('#')) continue;
      bool left_out = false;
      for (const std::string& prefix : without) left_out = left_out || line.starts_with(prefix);
      if (!left_out) kept += line + '\n';
    }
    return kept;
  }

  static std::string FirstDifference(const std::string& one, const std::string& other) {
    std::istringstream lines(one);
    std::istringstream other_lines(other);
    std::string line;
    std::string other_line;
    for (;;) {
      const bool more = static_cast<bool>(std::getline(lines, line));
      const bool more_of_other = static_cast<bool>(std::getline(other_lines, other_line));
      if (!more && !more_of_other) return "";
      if (more != more_of_other || line != other_line) return line + "  |  " + other_line;
    }
  }

  std::mt19937_64 random_;
  std::vector<std::unique_ptr<FleetLeg>> legs_;
  std::vector<WorkerId> workers_;
  std::map<WorkerId, Incarnation> incarnations_;
  std::map<WorkerId, uint32_t> ranks_;
  uint64_t next_worker_ = 1;
  uint64_t next_incarnation_ = 1;
  uint64_t next_engine_hash_ = 1;
  uint64_t next_request_ = 0;
  std::vector<std::pair<std::string, WorkerId>> live_;
  std::set<std::string> reasons_;
  int booked_ = 0;
  int refused_ = 0;
};

TEST(DoorsAgreeTest, LibraryGrpcAndHttpDecideBookAndCountAlike) {
  int booked = 0;
  int refused = 0;
  std::set<std::string> reasons;
  for (uint64_t seed = 0; seed < 6; ++seed) {
    SCOPED_TRACE(testing::Message() << "seed=" << seed);
    History history(seed);
    for (int step = 0; step < 250; ++step) {
      SCOPED_TRACE(testing::Message() << "step=" << step);
      ASSERT_NO_FATAL_FAILURE(history.Step());
      if (step % 10 != 0) continue;
      ASSERT_NO_FATAL_FAILURE(history.ExpectSameLoadsAndMetrics());
    }
    ASSERT_NO_FATAL_FAILURE(history.ExpectSameLoadsAndMetrics());
    booked += history.booked();
    refused += history.refused();
    reasons.insert(history.reasons().begin(), history.reasons().end());
  }
  // The histories were worth comparing.
  EXPECT_GT(booked, 200);
  EXPECT_GT(refused, 20);
  EXPECT_EQ(reasons, (std::set<std::string>{"lowest_cost", "tie_break", "sampled", "only_candidate",
                                            "pinned"}));
}

}  // namespace
}  // namespace kvrouter
