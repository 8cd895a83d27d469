#include <fmt/format.h>

#include <string>
#include <string_view>

#include "ctl/doctor/diagnose.h"
#include "ctl/doctor/figures.h"

namespace kvrouter::ctl {
namespace {

void CheckDoors(const Observations& seen, std::vector<Finding>* out) {
  if (!seen.grpc_error.empty()) {
    out->push_back({Severity::kCritical,
                    "grpc_unreachable",
                    fmt::format("the gRPC door does not answer: {}", seen.grpc_error),
                    {{"address", seen.grpc_address, "answers"}},
                    "is kvrouterd running and is --grpc its grpc_listen? A daemon in a container "
                    "that listens on 127.0.0.1 cannot be reached from outside"});
  }
  if (!seen.http_error.empty()) {
    out->push_back({Severity::kCritical,
                    "http_unreachable",
                    fmt::format("the HTTP door does not answer: {}", seen.http_error),
                    {{"address", seen.http_address, "answers"}},
                    "is --http its http_listen?"});
  }
  constexpr double kSlowMs = 1000;
  if (static_cast<double>(seen.slowest_answer.count()) > kSlowMs) {
    out->push_back(
        {Severity::kWarning,
         "slow_answers",
         "the daemon takes long to answer simple questions: its machine is overloaded, or "
         "its time-outs will be hit",
         {{"slowest answer, ms", std::to_string(seen.slowest_answer.count()), Figure(kSlowMs)}},
         "CPU of the machine; http_threads; kvrouterctl bench --rate 1"});
  }
}

void CheckDescriptors(const Observations& seen, std::vector<Finding>* out) {
  const double open = Total(seen.metrics, "process_open_fds");
  const double limit = Total(seen.metrics, "process_max_fds");
  if (limit > 0 && open > 0.8 * limit) {
    out->push_back({open > 0.95 * limit ? Severity::kCritical : Severity::kWarning,
                    "descriptors_short",
                    "the daemon is close to its limit of open files: new connections and event "
                    "sockets will fail",
                    {{"process_open_fds", Figure(open), Figure(limit)}},
                    "raise ulimit -Hn (4 per rank with events), or lower "
                    "http_max_connections"});
  }
  const double failures = Total(seen.recent, "kvrouter_http_accept_failures_total");
  if (failures > 0) {
    out->push_back({Severity::kCritical,
                    "accept_failures",
                    "new HTTP connections failed, mostly for want of open files",
                    {{"kvrouter_http_accept_failures_total", Figure(failures), "0"}},
                    "raise ulimit -Hn"});
  }
}

// Nobody tells the daemon its memory limit, so the index is measured by what workers can hold.
void CheckMemory(const Observations& seen, std::vector<Finding>* out) {
  const double resident = Total(seen.metrics, "process_resident_memory_bytes");
  const double index = Total(seen.metrics, "kvrouter_index_bytes");
  constexpr double kMuchBytes = 8.0 * (1ull << 30);
  if (resident > kMuchBytes) {
    out->push_back({Severity::kNote,
                    "much_memory",
                    "the daemon holds much memory",
                    {{"process_resident_memory_bytes", Figure(resident), Figure(kMuchBytes)},
                     {"kvrouter_index_bytes", Figure(index), "-"}},
                    "compare with the container's limit; max_index_blocks, fewer workers per "
                    "router, or decision_ring_bytes and selection_cache_max_bytes"});
  }
  for (const char* what :
       {"kvrouter_http_buffers_full_total", "kvrouter_http_connections_refused_total",
        "kvrouter_http_connections_evicted_total", "kvrouter_http_streams_overflowed_total"}) {
    const double count = Total(seen.recent, what);
    if (count <= 0) continue;
    out->push_back({Severity::kWarning,
                    "http_limits_hit",
                    "clients of the HTTP door were turned away at a bound",
                    {{what, Figure(count), "0"}},
                    "http_max_connections, http_max_buffered_bytes; do clients close what they do "
                    "not use?"});
  }
}

// Routed to by load until they fill again, and nothing else shows it: they are not degraded.
void CheckForgotten(const Observations& seen, std::vector<Finding>* out) {
  struct Bound {
    const char* counter;
    const char* id;
    const char* what;
    const char* help;
  };
  constexpr Bound kBounds[] = {
      {"kvrouter_index_device_forgotten_blocks_total", "rank_forgotten",
       "ranks announced more blocks than max_device_blocks and were forgotten: their hits are "
       "unknown until they fill again",
       "does the engine announce removals? If it does, raise max_device_blocks above its cache"},
      {"kvrouter_index_lower_tier_forgotten_blocks_total", "tier_forgotten",
       "tiers below a device outgrew max_lower_tier_blocks and were forgotten until they fill "
       "again",
       "some connectors never announce removals: it goes on by itself; else raise "
       "max_lower_tier_blocks"},
      {"kvrouter_index_whole_forgotten_blocks_total", "index_full",
       "all ranks together outgrew max_index_blocks and the largest were forgotten: their hits are "
       "unknown until they fill again",
       "raise max_index_blocks and the container's memory with it, or fewer workers per router"}};
  for (const Bound& bound : kBounds) {
    const double blocks = Total(seen.recent, bound.counter);
    if (blocks <= 0) continue;
    out->push_back({Severity::kWarning,
                    bound.id,
                    bound.what,
                    {{bound.counter, Figure(blocks), "0"}},
                    bound.help});
  }
}

void CheckTimeouts(const Observations& seen, std::vector<Finding>* out) {
  for (const char* phase : {"head", "body", "write"}) {
    const double count = TotalWith(seen.recent, "kvrouter_http_timeouts_total", "phase", phase);
    if (count <= 0) continue;
    out->push_back(
        {Severity::kNote,
         "http_timeouts",
         "clients of the HTTP door were too slow and were closed",
         {{fmt::format("kvrouter_http_timeouts_total{{phase=\"{}\"}}", phase), Figure(count), "0"}},
         "http_read_timeout_ms, http_write_timeout_ms; the network between"});
  }
}

void CheckClock(const Observations& seen, std::vector<Finding>* out) {
  const auto ahead = [&](const std::vector<client::Sample>& samples) {
    const double started = Total(samples, "process_start_time_seconds");
    return started > 0 ? started - seen.now_unix_seconds : 0;
  };
  constexpr double kLimitSeconds = 5;
  const auto add = [&](const std::string& who, double seconds) {
    if (seconds <= kLimitSeconds) return;
    out->push_back({Severity::kWarning,
                    "clock",
                    fmt::format("by its own clock {} was started in the future", who),
                    {{"seconds ahead of this machine", Figure(seconds), Figure(kLimitSeconds)}},
                    "synchronise the clocks: a restarted engine is told from its old life by the "
                    "time stamps of its events, too"});
  };
  add("the daemon", ahead(seen.metrics));
  for (const SeenWorker& worker : seen.workers) {
    if (worker.engine)
      add(fmt::format("worker {}", worker.worker_id), ahead(worker.engine->metrics));
  }
}

// Of a daemon that keeps one.
void CheckSnapshot(const Observations& seen, std::vector<Finding>* out) {
  constexpr double kLimitSeconds = 3600;
  const double age = Total(seen.metrics, "kvrouter_snapshot_age_seconds");
  if (age > kLimitSeconds) {
    out->push_back({Severity::kNote,
                    "snapshot_stale",
                    "the snapshot on the disk is old: a restart now would begin with less",
                    {{"kvrouter_snapshot_age_seconds", Figure(age), Figure(kLimitSeconds)}},
                    "snapshot_interval_secs; the daemon's log says if writing fails"});
  }
  for (const client::Sample& sample : seen.recent) {
    const std::string_view result = sample.Label("result");
    if (sample.value <= 0 || result == "ok" || result == "absent") continue;
    const bool written = sample.name == "kvrouter_snapshot_writes_total";
    if (!written && sample.name != "kvrouter_snapshot_loads_total") continue;
    out->push_back(
        {Severity::kWarning,
         written ? "snapshot_not_written" : "snapshot_not_read",
         written ? "a snapshot could not be written: a restart begins with an older one"
                 : "the snapshot could not be read at the start: it was cold",
         {{fmt::format("{}{{result=\"{}\"}}", sample.name, result), Figure(sample.value), "0"}},
         "snapshot_path: space and rights of its folder; the daemon's log says why"});
  }
}

}  // namespace

void CheckDaemon(const Observations& seen, std::vector<Finding>* out) {
  CheckDoors(seen, out);
  CheckDescriptors(seen, out);
  CheckMemory(seen, out);
  CheckForgotten(seen, out);
  CheckTimeouts(seen, out);
  CheckClock(seen, out);
  CheckSnapshot(seen, out);
}

}  // namespace kvrouter::ctl
