#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <set>
#include <string>
#include <vector>

#include "ctl/doctor/diagnose.h"
#include "ctl/doctor/gather.h"
#include "doctor_seen.h"

namespace kvrouter::ctl {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

std::vector<std::string> Ids(const std::vector<Finding>& findings) {
  std::vector<std::string> ids;
  for (const Finding& finding : findings) ids.push_back(finding.id);
  return ids;
}

TEST(DoctorTest, AHealthyFleetHasNoFindings) {
  const std::vector<Finding> findings = Diagnose(AHealthyFleet());
  EXPECT_THAT(Ids(findings), IsEmpty());
  EXPECT_EQ(ExitCode(findings), 0);
}

TEST(DoctorTest, WhatWasNotSeenIsNoSign) {
  Observations seen = AHealthyFleet();
  seen.metrics.clear();
  seen.recent.clear();
  seen.ready.reset();
  for (SeenWorker& worker : seen.workers) worker.engine.reset();
  EXPECT_THAT(Ids(Diagnose(seen)), IsEmpty());
  for (SeenWorker& worker : seen.workers)
    worker.engine = SeenEngine{.health_status = 200, .error = "", .metrics = {}};
  EXPECT_THAT(Ids(Diagnose(seen)), IsEmpty()) << "an engine without a metrics page";
}

// One thing goes wrong in a healthy fleet, and that is what is found.
struct Trouble {
  const char* id;
  Severity severity;
  std::function<void(Observations*)> befall;
};
class DoctorFindingTest : public testing::TestWithParam<Trouble> {};

TEST_P(DoctorFindingTest, IsFoundAloneWithEvidenceAndHelp) {
  Observations seen = AHealthyFleet();
  GetParam().befall(&seen);
  const std::vector<Finding> findings = Diagnose(seen);
  ASSERT_THAT(Ids(findings), ElementsAre(GetParam().id));
  const Finding& finding = findings[0];
  EXPECT_EQ(finding.severity, GetParam().severity);
  EXPECT_FALSE(finding.what.empty());
  EXPECT_FALSE(finding.help.empty());
  ASSERT_FALSE(finding.evidence.empty());
  for (const Evidence& evidence : finding.evidence) {
    EXPECT_FALSE(evidence.figure.empty());
    EXPECT_FALSE(evidence.value.empty());
    EXPECT_FALSE(evidence.limit.empty());
  }
  EXPECT_EQ(ExitCode(findings), GetParam().severity == Severity::kCritical  ? 2
                                : GetParam().severity == Severity::kWarning ? 1
                                                                            : 0);
}

SeenFeed& Feed(Observations* seen, size_t worker) { return seen->workers[worker].feeds[0]; }
std::vector<client::Sample>& Engine(Observations* seen, size_t worker) {
  return seen->workers[worker].engine->metrics;
}
Trouble Counted(const char* id, Severity severity, const char* name, double value,
                std::map<std::string, std::string> labels = {}) {
  return {id, severity, [=](Observations* seen) { Count(seen, name, value, labels); }};
}
Trouble Skipped(const char* id, Severity severity, const char* reason) {
  return Counted(id, severity, "kvrouter_feed_skipped_total", 3, {{"reason", reason}});
}
Trouble Refused(const char* id, Severity severity, const char* reason) {
  return Counted(id, severity, "kvrouter_requests_refused_total", 3, {{"reason", reason}});
}

Trouble Sign(const char* id, Severity severity, const char* reason) {
  return Counted(id, severity, "kvrouter_worker_sign", 1, {{"worker_id", "1"}, {"reason", reason}});
}

std::vector<Trouble> Troubles() {
  const auto critical = Severity::kCritical;
  const auto warning = Severity::kWarning;
  const auto note = Severity::kNote;
  return {
      // The daemon.
      {"grpc_unreachable", critical, [](Observations* seen) { seen->grpc_error = "refused"; }},
      {"http_unreachable", critical,
       [](Observations* seen) {
         seen->http_error = "refused";
         seen->metrics.clear();
         seen->recent.clear();
       }},
      {"slow_answers", warning,
       [](Observations* seen) { seen->slowest_answer = std::chrono::milliseconds(1001); }},
      {"descriptors_short", warning,
       [](Observations* seen) { Set(&seen->metrics, "process_open_fds", 820); }},
      {"descriptors_short", critical,
       [](Observations* seen) { Set(&seen->metrics, "process_open_fds", 1000); }},
      {"much_memory", note,
       [](Observations* seen) { Set(&seen->metrics, "process_resident_memory_bytes", 1e10); }},
      {"clock", warning,
       [](Observations* seen) { Set(&seen->metrics, "process_start_time_seconds", 2006); }},
      {"clock", warning,
       [](Observations* seen) {
         Engine(seen, 1).push_back(ASample("process_start_time_seconds", 2006));
       }},
      Counted("accept_failures", critical, "kvrouter_http_accept_failures_total", 1),
      Counted("http_limits_hit", warning, "kvrouter_http_connections_evicted_total", 1),
      Counted("rank_forgotten", warning, "kvrouter_index_device_forgotten_blocks_total", 1),
      Counted("tier_forgotten", warning, "kvrouter_index_lower_tier_forgotten_blocks_total", 1),
      Counted("index_full", warning, "kvrouter_index_whole_forgotten_blocks_total", 1),
      Counted("http_timeouts", note, "kvrouter_http_timeouts_total", 1, {{"phase", "body"}}),
      Counted("snapshot_stale", note, "kvrouter_snapshot_age_seconds", 3601),
      Counted("snapshot_not_written", warning, "kvrouter_snapshot_writes_total", 1,
              {{"result", "io_error"}}),
      Counted("snapshot_not_read", warning, "kvrouter_snapshot_loads_total", 1,
              {{"result", "refused"}}),
      // The fleet.
      {"no_workers", critical, [](Observations* seen) { seen->workers.clear(); }},
      {"no_schedulable_workers", critical,
       [](Observations* seen) {
         for (SeenWorker& worker : seen->workers) worker.draining = true;
       }},
      {"not_ready", critical,
       [](Observations* seen) {
         seen->ready = false;
         seen->not_ready_reason = "recovering";
       }},
      {"duplicate_event_endpoint", critical,
       [](Observations* seen) { seen->workers[1].events = seen->workers[0].events; }},
      {"duplicate_address", warning,
       [](Observations* seen) { seen->workers[1].address = seen->workers[0].address; }},
      Counted("registrations_refused", warning, "kvrouter_registrations_refused_total", 1,
              {{"reason", "block_size_conflict"}}),
      Counted("discovery_stale", warning, "kvrouter_discovery_current", 0,
              {{"source", "kubernetes"}}),
      Counted("discovery_conflict", warning, "kvrouter_discovery_workers", 1,
              {{"source", "file"}, {"state", "conflict"}}),
      Counted("discovery_refused", warning, "kvrouter_discovery_workers", 1,
              {{"source", "file"}, {"state", "refused"}}),
      // What the daemon noticed by itself.
      Sign("block_size_mismatch", critical, "block_size"),
      Sign("silent_publisher", critical, "silent_publisher"),
      Sign("prefix_caching_off", critical, "prefix_caching_off"),
      Sign("replay_missing", warning, "replay_missing"),
      Sign("model_mismatch", warning, "model_name"),
      Sign("engine_unreachable", warning, "unreachable"),
      // Feeds.
      {"no_event_feed", warning,
       [](Observations* seen) {
         seen->workers[0].events.clear();
         Feed(seen, 0).state = "none";
       }},
      {"feed_not_connected", warning,
       [](Observations* seen) { Feed(seen, 0).state = "connecting"; }},
      {"broker_down", warning,
       [](Observations* seen) {
         seen->workers[0].events.clear();
         Feed(seen, 0).state = "connecting";
         Feed(seen, 0).detail = "nats://h:4222: refused";
       }},
      {"broker_down", warning,  // a replay endpoint alone is none to listen to
       [](Observations* seen) {
         seen->workers[0].events[0].live.clear();
         Feed(seen, 0).state = "connecting";
       }},
      {"broker_down", critical,
       [](Observations* seen) {
         for (SeenWorker& worker : seen->workers) {
           worker.events.clear();
           worker.feeds[0].state = "connecting";
         }
       }},
      {"feed_recovering", note, [](Observations* seen) { Feed(seen, 0).state = "recovering"; }},
      {"feed_degraded", warning,
       [](Observations* seen) {
         Feed(seen, 0).state = "degraded";
         Feed(seen, 0).detail = "a gap";
       }},
      {"feed_degraded", critical,
       [](Observations* seen) {
         for (SeenWorker& worker : seen->workers) {
           worker.feeds[0].state = "degraded";
           worker.feeds[0].detail = "a gap";
         }
       }},
      {"replay_missing", warning,
       [](Observations* seen) { seen->workers[0].events[0].replay.clear(); }},
      {"silent_publisher", critical,
       [](Observations* seen) { Feed(seen, 0).events_applied = Feed(seen, 0).index_blocks = 0; }},
      {"index_empty", warning, [](Observations* seen) { Feed(seen, 0).index_blocks = 0; }},
      // Engines.
      {"engine_unhealthy", critical,
       [](Observations* seen) { seen->workers[0].engine->health_status = 503; }},
      {"engine_unreachable", warning,
       [](Observations* seen) {
         seen->workers[0].engine =
             SeenEngine{.health_status = {}, .error = "refused", .metrics = {}};
       }},
      {"block_size_mismatch", critical,
       [](Observations* seen) { Engine(seen, 0)[0].labels["block_size"] = "32"; }},
      {"prefix_caching_off", critical,
       [](Observations* seen) { Engine(seen, 0)[0].labels["enable_prefix_caching"] = "False"; }},
      {"hit_rate_gap", warning,
       [](Observations* seen) {
         Set(&seen->metrics, "kvrouter_expected_engine_hit_tokens_total", 1'300'000);
       }},
      {"hit_rate_gap", warning,
       [](Observations* seen) {
         Set(&seen->metrics, "kvrouter_expected_engine_hit_tokens_total", 700'000);
       }},
      // Events.
      Skipped("skipped_block_size", critical, "block_size"),
      Skipped("skipped_token_form", critical, "token_form"),
      Skipped("skipped_bad_framing", warning, "bad_framing"),
      Skipped("skipped_bad_envelope", warning, "bad_envelope"),
      Skipped("skipped_bad_event", warning, "bad_event"),
      Skipped("skipped_unknown_tag", warning, "unknown_tag"),
      Skipped("skipped_unknown_medium", warning, "unknown_medium"),
      Skipped("skipped_non_integer_tokens", warning, "non_integer_tokens"),
      Skipped("skipped_rank_out_of_range", warning, "rank_out_of_range"),
      Skipped("skipped_unknown_lora", warning, "unknown_lora"),
      Skipped("skipped_multimodal", note, "multimodal"),
      Skipped("skipped_oversized", warning, "oversized"),
      Skipped("skipped_unknown_worker", warning, "unknown_worker"),
      Skipped("skipped_unknown_domain", warning, "unknown_domain"),
      Counted("orphan_blocks", warning, "kvrouter_orphan_blocks_total", 5),
      Counted("replays_failed", warning, "kvrouter_feed_replays_total", 1, {{"outcome", "failed"}}),
      Counted("live_dropped", warning, "kvrouter_feed_live_dropped_total", 1),
      Counted("hash_memory_full", warning, "kvrouter_feed_hash_memory_full_total", 1),
      Counted("engine_restarts", note, "kvrouter_feed_restarts_total", 1),
      Counted("events_of_unknown_workers", warning, "dynamo_component_kv_cache_events_applied", 1,
              {{"status", "unknown_worker"}}),
      // Traffic.
      Counted("bookings_expire", warning, "kvrouter_bookings_expired_total", 101),
      Counted("bookings_expire", note, "kvrouter_bookings_expired_total", 100),
      Counted("duplicate_request_ids", warning, "kvrouter_duplicate_requests_total", 101),
      Counted("unknown_frees", note, "kvrouter_unknown_frees_total", 501),
      Refused("refused_all_overloaded", critical, "all_overloaded"),
      Refused("refused_pinned_overloaded", warning, "pinned_overloaded"),
      Refused("refused_queue_limit", critical, "queue_limit"),
      Refused("refused_limit_reached", critical, "limit_reached"),
      Refused("refused_no_workers", warning, "no_workers"),
      Refused("refused_unknown_partition", warning, "unknown_partition"),
      Refused("refused_block_naming_conflict", warning, "block_naming_conflict"),
      {"one_worker_draws_all", warning,
       [](Observations* seen) {
         Count(seen, "kvrouter_worker_active_requests", 18, {{"worker_id", "1"}});
         Count(seen, "kvrouter_worker_active_requests", 1, {{"worker_id", "2"}});
       }},
      {"overlap_given_up", note,
       [](Observations* seen) {
         Set(&seen->recent, "kvrouter_best_overlap_tokens_total", 2'000'000);
       }},
  };
}

INSTANTIATE_TEST_SUITE_P(Each, DoctorFindingTest, testing::ValuesIn(Troubles()),
                         [](const auto& param_info) {
                           return std::string(param_info.param.id) + "_" +
                                  std::to_string(param_info.index);
                         });

TEST(DoctorTest, BlocksOrCountsAreASignOfLife) {
  Observations seen = AHealthyFleet();
  Feed(&seen, 0).events_applied = 0;  // not reported yet
  EXPECT_THAT(Ids(Diagnose(seen)), IsEmpty());
  Feed(&seen, 0).index_blocks = 0;
  Set(&Engine(&seen, 0), "vllm:prefix_cache_queries_total", 999);
  Set(&Engine(&seen, 0), "vllm:prefix_cache_hits_total", 499);
  Set(&seen.metrics, "dynamo_component_router_requests_started_total", 99);
  EXPECT_THAT(Ids(Diagnose(seen)), IsEmpty()) << "too little was asked to expect events";
}

// Just short of the limit, nothing is said.
TEST(DoctorTest, LimitsAreMeantAsTheyAreSaid) {
  Observations seen = AHealthyFleet();
  seen.slowest_answer = std::chrono::milliseconds(1000);
  Set(&seen.metrics, "process_open_fds", 819);
  Set(&seen.metrics, "process_start_time_seconds", 2005);
  Set(&seen.metrics, "kvrouter_expected_engine_hit_tokens_total", 1'190'000);
  Set(&seen.recent, "kvrouter_best_overlap_tokens_total", 1'420'000);
  Count(&seen, "kvrouter_duplicate_requests_total", 100);
  Count(&seen, "kvrouter_unknown_frees_total", 500);
  Count(&seen, "kvrouter_worker_active_requests", 16, {{"worker_id", "1"}});
  Count(&seen, "kvrouter_worker_active_requests", 2, {{"worker_id", "2"}});
  Count(&seen, "kvrouter_feed_skipped_total", 9, {{"reason", "duplicate_batch"}});
  Count(&seen, "kvrouter_feed_replays_total", 9, {{"outcome", "completed"}});
  Count(&seen, "kvrouter_snapshot_age_seconds", 3600);
  Count(&seen, "kvrouter_snapshot_writes_total", 9, {{"result", "ok"}});
  Count(&seen, "kvrouter_snapshot_loads_total", 1, {{"result", "absent"}});
  EXPECT_THAT(Ids(Diagnose(seen)), IsEmpty());
}

TEST(DoctorTest, TheWorstComesFirst) {
  Observations seen = AHealthyFleet();
  Count(&seen, "kvrouter_feed_restarts_total", 1);
  seen.workers[0].events[0].replay.clear();
  Count(&seen, "kvrouter_feed_skipped_total", 1, {{"reason", "block_size"}});
  const std::vector<Finding> findings = Diagnose(seen);
  EXPECT_THAT(Ids(findings),
              ElementsAre("skipped_block_size", "replay_missing", "engine_restarts"));
  EXPECT_EQ(ExitCode(findings), 2);
}

TEST(DoctorTest, AnUnreachableDaemonIsAllThereIsToSay) {
  Observations seen;
  seen.grpc_address = seen.http_address = "h:1";
  seen.grpc_error = seen.http_error = "refused";
  EXPECT_THAT(Ids(Diagnose(seen)), ElementsAre("grpc_unreachable", "http_unreachable"));
}

TEST(DoctorTest, AHybridModelsEffectiveBlockSizeIsTheOneThatCounts) {
  Observations seen = AHealthyFleet();
  auto& labels = Engine(&seen, 0)[0].labels;
  labels["block_size"] = "8";
  labels["effective_attention_block_size"] = "16";
  EXPECT_THAT(Ids(Diagnose(seen)), IsEmpty());
}

TEST(DoctorTest, WhatTheDaemonSeesTooIsFoundOnce) {
  Observations seen = AHealthyFleet();
  seen.workers[0].events[0].replay.clear();
  Count(&seen, "kvrouter_worker_sign", 1, {{"worker_id", "1"}, {"reason", "replay_missing"}});
  EXPECT_THAT(Ids(Diagnose(seen)), ElementsAre("replay_missing"));
}

TEST(DoctorTest, ManyRanksOfOneTroubleAreOneFinding) {
  Observations seen = AHealthyFleet();
  seen.workers.clear();
  for (uint64_t id = 1; id <= 100; ++id) {
    seen.workers.push_back(ASeenWorker(id));
    seen.workers.back().events[0].replay.clear();
  }
  const std::vector<Finding> findings = Diagnose(seen);
  ASSERT_THAT(Ids(findings), ElementsAre("replay_missing"));
  EXPECT_THAT(findings[0].what, testing::HasSubstr("1/0, 2/0, 3/0, 4/0, 5/0, 6/0 and 94 more"));
}

TEST(DoctorTest, AWindowJudgesWhatWasCountedInIt) {
  const std::vector<client::Sample> before = {
      ASample("kvrouter_orphan_blocks_total", 7), ASample("kvrouter_bookings", 3),
      ASample("kvrouter_feed_skipped_total", 5, {{"reason", "block_size"}}),
      ASample("kvrouter_feed_gaps_total", 9)};
  const std::vector<client::Sample> after = {
      ASample("kvrouter_orphan_blocks_total", 7), ASample("kvrouter_bookings", 4),
      ASample("kvrouter_feed_skipped_total", 6, {{"reason", "block_size"}}),
      ASample("kvrouter_feed_skipped_total", 2, {{"reason", "bad_event"}}),
      ASample("kvrouter_feed_gaps_total", 1)};
  std::vector<double> values;
  for (const client::Sample& sample : CountedSince(before, after)) values.push_back(sample.value);
  EXPECT_THAT(values, ElementsAre(0, 4, 1, 2, 1)) << "a gauge stays; a new life counts from 0";
}

TEST(DoctorTest, OnlyPlainHttpAddressesAreAsked) {
  EXPECT_EQ(HostPortOf("http://10.0.0.1:8000"), "10.0.0.1:8000");
  EXPECT_EQ(HostPortOf("http://h:8000/v1?x"), "h:8000");
  EXPECT_EQ(HostPortOf("http://h"), "h:80");
  EXPECT_EQ(HostPortOf("http://[::1]:8000"), "[::1]:8000");
  EXPECT_EQ(HostPortOf("http://[::1]"), "[::1]:80");
  for (const char* other : {"", "https://h:8000", "h:8000", "tcp://h:1", "http://", "http://u@h:1"})
    EXPECT_FALSE(HostPortOf(other).has_value()) << other;
}

}  // namespace
}  // namespace kvrouter::ctl
