#ifndef KVROUTER_TESTS_UNIT_CTL_DOCTOR_DOCTOR_SEEN_H_
#define KVROUTER_TESTS_UNIT_CTL_DOCTOR_DOCTOR_SEEN_H_

#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "ctl/doctor/observations.h"

namespace kvrouter::ctl {

inline client::Sample ASample(std::string name, double value,
                              std::map<std::string, std::string> labels = {}) {
  return {.name = std::move(name), .labels = std::move(labels), .value = value};
}

inline SeenWorker ASeenWorker(uint64_t id) {
  SeenWorker worker;
  worker.worker_id = id;
  worker.model_name = "default";
  worker.routing_group = "default";
  worker.address = "http://10.0.0." + std::to_string(id) + ":8000";
  worker.block_size_tokens = 16;
  worker.events[0] = {.live = "tcp://10.0.0." + std::to_string(id) + ":5557",
                      .replay = "tcp://10.0.0." + std::to_string(id) + ":5657"};
  worker.feeds = {
      {.dp_rank = 0, .state = "live", .detail = "", .index_blocks = 100, .events_applied = 200}};
  worker.engine =
      SeenEngine{.health_status = 200,
                 .error = "",
                 .metrics = {ASample("vllm:cache_config_info", 1,
                                     {{"block_size", "16"}, {"enable_prefix_caching", "True"}}),
                             ASample("vllm:prefix_cache_queries_total", 1'000'000),
                             ASample("vllm:prefix_cache_hits_total", 500'000)}};
  return worker;
}

// A daemon with two workers, all of them well.
inline Observations AHealthyFleet() {
  Observations seen;
  seen.grpc_address = "127.0.0.1:8093";
  seen.http_address = "127.0.0.1:8092";
  seen.ready = true;
  seen.now_unix_seconds = 2000;
  seen.workers = {ASeenWorker(1), ASeenWorker(2)};
  seen.metrics = {ASample("kvrouter_isl_tokens_total", 2'000'000),
                  ASample("kvrouter_expected_engine_hit_tokens_total", 1'000'000),
                  ASample("kvrouter_overlap_tokens_total", 1'000'000),
                  ASample("kvrouter_best_overlap_tokens_total", 1'100'000),
                  ASample("dynamo_component_router_requests_started_total", 10'000),
                  ASample("process_open_fds", 50),
                  ASample("process_max_fds", 1024),
                  ASample("process_resident_memory_bytes", 1 << 28),
                  ASample("process_start_time_seconds", 1000)};
  seen.recent = seen.metrics;
  return seen;
}

// One more figure of the daemon, since its start and in the window.
inline void Count(Observations* seen, std::string name, double value,
                  std::map<std::string, std::string> labels = {}) {
  seen->metrics.push_back(ASample(name, value, labels));
  seen->recent.push_back(ASample(std::move(name), value, std::move(labels)));
}

inline void Set(std::vector<client::Sample>* samples, const std::string& name, double value) {
  for (client::Sample& sample : *samples) {
    if (sample.name == name) sample.value = value;
  }
}

}  // namespace kvrouter::ctl

#endif  // KVROUTER_TESTS_UNIT_CTL_DOCTOR_DOCTOR_SEEN_H_
