#include <algorithm>
#include <array>
#include <cstdint>
#include <string_view>
#include <vector>

#include "adapters/http/http_format.h"
#include "daemon/option_areas.h"
#include "daemon/option_builders.h"
#include "daemon/option_ranges.h"

namespace kvrouter {
namespace {

bool IsHostPort(std::string_view text) { return ParseHostPort(text).ok(); }

bool IsLogLevel(std::string_view text) {
  static constexpr std::array<std::string_view, 6> kLevels = {"trace", "debug", "info",
                                                              "warn",  "error", "off"};
  return std::find(kLevels.begin(), kLevels.end(), text) != kLevels.end();
}

}  // namespace

void AddDoorOptions(std::vector<Option>* table) {
  table->push_back(Words("http-listen", "KVROUTER_HTTP_LISTEN", KVR_SETTING(http.listen),
                         "HOST:PORT", IsHostPort,
                         "Address of the selection API, /metrics, /live and /ready; port 0 takes a "
                         "free one."));
  table->push_back(Words("grpc-listen", "KVROUTER_GRPC_LISTEN", KVR_SETTING(grpc.listen),
                         "HOST:PORT", IsHostPort,
                         "Address of the gRPC services; port 0 takes a free one."));
  table->push_back(Words(
      "indexer-listen", "KVROUTER_INDEXER_LISTEN", KVR_SETTING(indexer_listen),
      "HOST:PORT, or empty", [](std::string_view text) { return text.empty() || IsHostPort(text); },
      "Address of the standalone indexer's API (Dynamo's port: 8090), for Mooncake-style callers "
      "and Dynamo peers; empty: not served."));
  table->push_back(
      Words("addresses-file", "KVROUTER_ADDRESSES_FILE", KVR_SETTING(addresses_file),
            "a path, or empty", Anything,
            "File that gets the bound addresses once all doors are open, as lines http=HOST:PORT, "
            "grpc=HOST:PORT and, if served, indexer=HOST:PORT and openai=HOST:PORT; empty: none."));
  table->push_back(Words("log-level", "KVROUTER_LOG_LEVEL", KVR_SETTING(log_level),
                         "trace, debug, info, warn, error or off", IsLogLevel,
                         "Least severe log lines that are written (stderr)."));
  table->push_back(Whole("ready-bound-ms", "KVROUTER_READY_BOUND_MS", KVR_SETTING(ready_bound), 0,
                         kDayMs,
                         "Longest wait of /ready for the event feeds' first replay, in ms."));
  table->push_back(Whole("shutdown-grace-ms", "KVROUTER_SHUTDOWN_GRACE_MS",
                         KVR_SETTING(shutdown_grace), 0, kMaxShutdownGraceMs,
                         "How long running calls may take to finish after SIGTERM, in ms."));
}

void AddGrpcOptions(std::vector<Option>* table) {
  auto& t = *table;
  t.push_back(Whole("grpc-max-message-bytes", "KVROUTER_GRPC_MAX_MESSAGE_BYTES",
                    KVR_SETTING(grpc.max_message_bytes), 1024, kMaxBytes - 1,
                    "Largest gRPC message, in bytes."));
  t.push_back(Whole("grpc-max-buffered-bytes", "KVROUTER_GRPC_MAX_BUFFERED_BYTES",
                    KVR_SETTING(grpc.max_buffered_bytes), 1 << 20, uint64_t{1} << 40,
                    "Of all gRPC messages under way together, in bytes; beyond it calls are ended. "
                    "Two messages of the largest size always fit."));
  t.push_back(Whole("grpc-max-connection-age-ms", "KVROUTER_GRPC_MAX_CONNECTION_AGE_MS",
                    KVR_SETTING(grpc.max_connection_age), 0, kDayMs,
                    "Connections are closed gracefully at this age so that an L4 balancer "
                    "rebalances, in ms; 0: never."));
  t.push_back(Whole("grpc-max-connection-age-grace-ms", "KVROUTER_GRPC_MAX_CONNECTION_AGE_GRACE_MS",
                    KVR_SETTING(grpc.max_connection_age_grace), 0, kDayMs,
                    "Time for running calls after that age, in ms."));
  t.push_back(Whole("grpc-keepalive-time-ms", "KVROUTER_GRPC_KEEPALIVE_TIME_MS",
                    KVR_SETTING(grpc.keepalive_time), 0, kDayMs,
                    "An idle client is pinged after this long, in ms; 0: never."));
  t.push_back(Whole("grpc-keepalive-timeout-ms", "KVROUTER_GRPC_KEEPALIVE_TIMEOUT_MS",
                    KVR_SETTING(grpc.keepalive_timeout), 1, kDayMs,
                    "A client that does not answer the ping for this long is gone, in ms."));
  t.push_back(Whole("grpc-min-client-ping-interval-ms", "KVROUTER_GRPC_MIN_CLIENT_PING_INTERVAL_MS",
                    KVR_SETTING(grpc.min_client_ping_interval), 0, kDayMs,
                    "Clients that ping more often are told to calm down, in ms."));
}

void AddHttpOptions(std::vector<Option>* table) {
  auto& t = *table;
  t.push_back(Whole("http-threads", "KVROUTER_HTTP_THREADS", KVR_SETTING(http.threads), 1, 64,
                    "Threads of the HTTP server."));
  t.push_back(Whole("http-max-body-bytes", "KVROUTER_HTTP_MAX_BODY_BYTES",
                    KVR_SETTING(http.max_body_bytes), 0, kMaxBytes,
                    "Largest HTTP body, in bytes; beyond: 413."));
  t.push_back(Whole("http-max-header-bytes", "KVROUTER_HTTP_MAX_HEADER_BYTES",
                    KVR_SETTING(http.max_header_bytes), 256, 1 << 20,
                    "All headers of a request together, in bytes; beyond: 431."));
  t.push_back(Whole("http-max-connections", "KVROUTER_HTTP_MAX_CONNECTIONS",
                    KVR_SETTING(http.max_connections), 1, 1'000'000,
                    "Open HTTP connections; beyond, one that waits for a request makes room."));
  t.push_back(Whole("http-max-header-fields", "KVROUTER_HTTP_MAX_HEADER_FIELDS",
                    KVR_SETTING(http.max_header_fields), 16, 100'000,
                    "Header fields of a request; beyond: 431."));
  t.push_back(Whole("http-max-buffered-bytes", "KVROUTER_HTTP_MAX_BUFFERED_BYTES",
                    KVR_SETTING(http.max_buffered_bytes), 1 << 20, uint64_t{1} << 40,
                    "Request bodies and large answers that all HTTP connections hold together, in "
                    "bytes; beyond: 503."));
  t.push_back(Whole("http-read-timeout-ms", "KVROUTER_HTTP_READ_TIMEOUT_MS",
                    KVR_SETTING(http.read_timeout), 1, kDayMs,
                    "Time for a whole request once its first byte came, in ms."));
  t.push_back(Whole("http-idle-timeout-ms", "KVROUTER_HTTP_IDLE_TIMEOUT_MS",
                    KVR_SETTING(http.idle_timeout), 1, kDayMs,
                    "A kept connection without a request for this long is closed, in ms."));
  t.push_back(
      Whole("http-write-timeout-ms", "KVROUTER_HTTP_WRITE_TIMEOUT_MS",
            KVR_SETTING(http.write_timeout), 1, kDayMs,
            "A client that takes less than 64 KiB of its answer, or less than the rest, in this "
            "time is closed, in ms."));
  t.push_back(Whole("selection-cache-ttl-secs", "KVROUTER_SELECTION_CACHE_TTL_SECS",
                    KVR_SETTING(select_cache.ttl), 1, 86'400,
                    "How long the inputs of a /select with an id wait for their booking, in s."));
  t.push_back(Whole("selection-cache-max-entries", "KVROUTER_SELECTION_CACHE_MAX_ENTRIES",
                    KVR_SETTING(select_cache.max_entries), 0, 1'000'000,
                    "Inputs of /select calls kept at once; the oldest leave first."));
  t.push_back(Whole("selection-cache-max-bytes", "KVROUTER_SELECTION_CACHE_MAX_BYTES",
                    KVR_SETTING(select_cache.max_bytes), 0, kMaxBytes,
                    "Memory of the kept inputs of /select calls, in bytes."));
}

void AddLabelOptions(std::vector<Option>* table) {
  table->push_back(Words("namespace", "DYN_NAMESPACE", KVR_SETTING(metrics.dynamo_namespace),
                         "text", Anything, "Label dynamo_namespace of Dynamo's metrics."));
  table->push_back(Words(
      "router-id", "KVROUTER_ROUTER_ID", KVR_SETTING(metrics.router_id), "text, or empty", Anything,
      "Label router_id of Dynamo's metrics; empty: a stable hash of the host name."));
}

}  // namespace kvrouter
