#include <chrono>
#include <cmath>
#include <cstdint>
#include <string>
#include <utility>

#include "adapters/http/http_format.h"
#include "daemon/option_areas.h"
#include "daemon/option_builders.h"
#include "daemon/option_ranges.h"

namespace kvrouter {
namespace {

#define FIELD(path) KVR_SETTING(dispatch.path)

constexpr uint64_t kManyBytes = uint64_t{1} << 40;
constexpr double kDaySeconds = 24 * 3600;

bool IsHostPort(std::string_view text) { return ParseHostPort(text).ok(); }

// Above 0, with a fraction, into nanoseconds.
template <typename Field>
Option PositiveSeconds(std::string name, std::string environment, Field field, std::string help) {
  Option option =
      Seconds(std::move(name), std::move(environment), field, kDaySeconds, std::move(help));
  option.range = fmt::format("a number above 0, at most {}", kDaySeconds);
  option.set = [field, range = option.range](std::string_view text,
                                             DaemonConfig* config) -> absl::Status {
    double value = 0;
    if (!ParseReal(text, kDaySeconds, &value)) return Want(range);
    const std::chrono::nanoseconds time(std::llround(value * 1e9));
    if (time.count() <= 0) return Want(range);
    field(*config) = time;
    return absl::OkStatus();
  };
  return option;
}

void AddDoor(std::vector<Option>* table) {
  auto& t = *table;
  t.push_back(Switch("dispatch", "KVROUTER_DISPATCH", FIELD(enabled),
                     "Serve OpenAI requests on dispatch-listen: decide, send them to the workers, "
                     "stream their answers (docs/dispatch.md)."));
  t.push_back(Switch("route-text", "KVROUTER_ROUTE_TEXT", FIELD(route_text),
                     "Without dispatch: answer RouteText (gRPC) and /route/v1/... (HTTP), for "
                     "gateways that have no tokenizer. With dispatch it is always answered."));
  t.push_back(Words("dispatch-listen", "KVROUTER_DISPATCH_LISTEN", FIELD(http.listen), "HOST:PORT",
                    IsHostPort, "Address of the OpenAI door; port 0 takes a free one."));
  t.push_back(Words("dispatch-tls-cert-path", "KVROUTER_DISPATCH_TLS_CERT_PATH",
                    FIELD(http.tls.certificate_file), "a path, or empty", Anything,
                    "Certificate of the OpenAI door with its chain (PEM), which then speaks TLS "
                    "only; read again when it changes. With dispatch-tls-key-path. Empty: plain "
                    "text."));
  t.push_back(Words("dispatch-tls-key-path", "KVROUTER_DISPATCH_TLS_KEY_PATH",
                    FIELD(http.tls.key_file), "a path, or empty", Anything, "Its key (PEM)."));
  t.push_back(Words("dispatch-tls-client-ca-cert-path", "KVROUTER_DISPATCH_TLS_CLIENT_CA_CERT_PATH",
                    FIELD(http.tls.client_ca_file), "a path, or empty", Anything,
                    "If set, its clients must show a certificate signed by one of these (PEM)."));
  t.push_back(Whole("dispatch-threads", "KVROUTER_DISPATCH_THREADS", FIELD(http.threads), 1, 64,
                    "Threads of the OpenAI door."));
  t.push_back(Whole("dispatch-max-body-bytes", "KVROUTER_DISPATCH_MAX_BODY_BYTES",
                    FIELD(http.max_body_bytes), 0, kMaxBytes,
                    "Largest body of a request there, in bytes; beyond: 413."));
  t.push_back(Whole("dispatch-max-header-bytes", "KVROUTER_DISPATCH_MAX_HEADER_BYTES",
                    FIELD(http.max_header_bytes), 256, 1 << 20,
                    "All headers of a request there together, in bytes; beyond: 431."));
  t.push_back(Whole("dispatch-max-connections", "KVROUTER_DISPATCH_MAX_CONNECTIONS",
                    FIELD(http.max_connections), 1, 1'000'000,
                    "Open connections of clients there; beyond, one that waits for a request makes "
                    "room."));
  t.push_back(Whole("dispatch-max-buffered-bytes", "KVROUTER_DISPATCH_MAX_BUFFERED_BYTES",
                    FIELD(http.max_buffered_bytes), 1 << 20, kManyBytes,
                    "Bodies of running requests and large answers there together, in bytes; "
                    "beyond: 503."));
  t.push_back(Whole("dispatch-read-timeout-ms", "KVROUTER_DISPATCH_READ_TIMEOUT_MS",
                    FIELD(http.read_timeout), 1, kDayMs,
                    "Time for a whole request there once its first byte came, in ms; then 408."));
  t.push_back(Whole("dispatch-idle-timeout-ms", "KVROUTER_DISPATCH_IDLE_TIMEOUT_MS",
                    FIELD(http.idle_timeout), 1, kDayMs,
                    "A kept connection there without a request for this long is closed, in ms."));
  t.push_back(Whole("dispatch-write-timeout-ms", "KVROUTER_DISPATCH_WRITE_TIMEOUT_MS",
                    FIELD(http.write_timeout), 1, kDayMs,
                    "A client there that takes less than 64 KiB of its answer, or less than the "
                    "rest, in this time is closed, in ms."));
  t.push_back(Whole("dispatch-shutdown-grace-ms", "KVROUTER_DISPATCH_SHUTDOWN_GRACE_MS",
                    FIELD(shutdown_grace), 0, kHourMs,
                    "How long running requests there may go on after SIGTERM, in ms; before "
                    "shutdown-grace-ms begins."));
}

void AddRequests(std::vector<Option>* table) {
  auto& t = *table;
  t.push_back(Words(
      "dispatch-routing-group", "KVROUTER_DISPATCH_ROUTING_GROUP", FIELD(dispatch.routing_group),
      "text", [](std::string_view text) { return !text.empty(); },
      "Routing group of requests that name none, if their model is served in it; "
      "else the only one that serves it."));
  t.push_back(Whole("dispatch-max-live-requests", "KVROUTER_DISPATCH_MAX_LIVE_REQUESTS",
                    FIELD(dispatch.max_live_requests), 1, kMaxU32,
                    "Dispatched requests at one time; beyond: 429."));
  t.push_back(Seconds("dispatch-total-timeout-secs", "KVROUTER_DISPATCH_TOTAL_TIMEOUT_SECS",
                      FIELD(dispatch.total_timeout), kDaySeconds,
                      "A dispatched request from its arrival to the end of its answer, in s; 0: no "
                      "limit."));
  t.push_back(PositiveSeconds("dispatch-head-timeout-secs", "KVROUTER_DISPATCH_HEAD_TIMEOUT_SECS",
                              FIELD(dispatch.head_timeout),
                              "From sending a streaming request to a worker until its answer "
                              "begins, in s."));
  t.push_back(PositiveSeconds(
      "dispatch-silence-timeout-secs", "KVROUTER_DISPATCH_SILENCE_TIMEOUT_SECS",
      FIELD(dispatch.idle_timeout), "Between two pieces of a worker's answer, in s."));
  t.push_back(PositiveSeconds("dispatch-prefill-timeout-secs",
                              "KVROUTER_DISPATCH_PREFILL_TIMEOUT_SECS",
                              FIELD(dispatch.prefill_timeout),
                              "A prefill leg that has not answered after this has failed, in s."));
  t.push_back(Whole("dispatch-max-retries", "KVROUTER_DISPATCH_MAX_RETRIES",
                    FIELD(dispatch.max_retries), 0, 100,
                    "How often a request whose leg failed before its client got a byte is sent to "
                    "another worker."));
  t.push_back(PositiveSeconds("dispatch-handshake-lease-secs",
                              "KVROUTER_DISPATCH_HANDSHAKE_LEASE_SECS",
                              FIELD(dispatch.handshake_lease),
                              "A producer's handshake older than this is not used any more, in s; "
                              "below the engines' own lease (vLLM: 30 s)."));
  t.push_back(PositiveSeconds("dispatch-keep-alive-secs", "KVROUTER_DISPATCH_KEEP_ALIVE_SECS",
                              FIELD(dispatch.keep_alive_period),
                              "Signs of life of a request that waits for its worker, in s; below "
                              "router-active-request-expiry-secs."));
  t.push_back(Whole("dispatch-max-held-reply-bytes", "KVROUTER_DISPATCH_MAX_HELD_REPLY_BYTES",
                    FIELD(dispatch.max_held_reply_bytes), 1, kMaxBytes,
                    "An answer that does not stream is kept up to this size before its client gets "
                    "any of it, so that its failure can still be retried, in bytes."));
  t.push_back(Switch("dispatch-two-leg-chat", "KVROUTER_DISPATCH_TWO_LEG_CHAT",
                     FIELD(dispatch.two_leg_chat),
                     "Plans of two legs for chats, too, between workers that render a probe "
                     "conversation alike."));
  t.push_back(
      Switch("dispatch-explain-headers", "KVROUTER_DISPATCH_EXPLAIN_HEADERS",
             FIELD(dispatch.explain_headers),
             "Clients that ask for them get x-kvrouter-... headers: worker, overlap, plan."));
  t.push_back(Switch("dispatch-ask-usage", "KVROUTER_DISPATCH_ASK_USAGE", FIELD(dispatch.ask_usage),
                     "Ask workers for the usage of streams whose clients did not ask, and keep its "
                     "event from them: delivered overlap counts streams, too."));
}

void AddTokenizing(std::vector<Option>* table) {
  auto& t = *table;
  t.push_back(Switch("tokenize", "KVROUTER_TOKENIZE", FIELD(dispatch.tokenize.enabled),
                     "Ask the engines' /tokenize for the token ids of texts; false: texts are "
                     "routed by load alone."));
  t.push_back(PositiveSeconds("tokenize-timeout-secs", "KVROUTER_TOKENIZE_TIMEOUT_SECS",
                              FIELD(dispatch.tokenize.timeout),
                              "Longest wait for that answer, in s; then by load alone."));
  t.push_back(Whole("tokenize-cache-bytes", "KVROUTER_TOKENIZE_CACHE_BYTES",
                    FIELD(dispatch.tokenize.cache_bytes), 0, kManyBytes,
                    "Memory of texts whose ids are kept, in bytes; 0: none is."));
  t.push_back(Whole("tokenize-max-cached-text-bytes", "KVROUTER_TOKENIZE_MAX_CACHED_TEXT_BYTES",
                    FIELD(dispatch.tokenize.max_cached_text_bytes), 0, kMaxBytes,
                    "Longer texts are not kept, in bytes."));
  t.push_back(Whole("tokenize-max-in-flight", "KVROUTER_TOKENIZE_MAX_IN_FLIGHT",
                    FIELD(dispatch.tokenize.max_in_flight), 1, 1'000'000,
                    "Texts on their way to engines at one time; more are routed by load alone."));
  t.push_back(Whole("tokenize-breaker-failures", "KVROUTER_TOKENIZE_BREAKER_FAILURES",
                    FIELD(dispatch.tokenize.breaker_failures), 1, kMaxU32,
                    "So many failures of one model in a row, and its engines are not asked for "
                    "tokenize-breaker-open-secs."));
  t.push_back(PositiveSeconds("tokenize-breaker-open-secs", "KVROUTER_TOKENIZE_BREAKER_OPEN_SECS",
                              FIELD(dispatch.tokenize.breaker_open), "See there, in s."));
}

void AddEngines(std::vector<Option>* table) {
  auto& t = *table;
  t.push_back(Whole("engine-threads", "KVROUTER_ENGINE_THREADS", FIELD(engines.threads), 1, 64,
                    "Threads of the connections to engines."));
  t.push_back(Whole("engine-max-connections", "KVROUTER_ENGINE_MAX_CONNECTIONS",
                    FIELD(engines.max_connections), 1, 1'000'000,
                    "Connections to one engine; beyond, requests wait for one."));
  t.push_back(Whole("engine-max-waiting", "KVROUTER_ENGINE_MAX_WAITING", FIELD(engines.max_waiting),
                    0, 1'000'000,
                    "Requests that wait so; more have failed there and are retried elsewhere."));
  t.push_back(Whole("engine-max-idle-connections", "KVROUTER_ENGINE_MAX_IDLE_CONNECTIONS",
                    FIELD(engines.max_idle_connections), 0, 1'000'000,
                    "Connections to one engine that are kept without use."));
  t.push_back(Whole("engine-keep-idle-ms", "KVROUTER_ENGINE_KEEP_IDLE_MS",
                    FIELD(engines.keep_idle_timeout), 1, kDayMs,
                    "How long they are, in ms; below what the engines' servers keep them for "
                    "(uvicorn: 5 s)."));
  t.push_back(Whole("engine-connect-timeout-ms", "KVROUTER_ENGINE_CONNECT_TIMEOUT_MS",
                    FIELD(engines.connect_timeout), 1, kDayMs,
                    "Longest time to connect to an engine, name and TLS included, in ms."));
  t.push_back(Whole("engine-name-ttl-ms", "KVROUTER_ENGINE_NAME_TTL_MS", FIELD(engines.name_ttl), 0,
                    kDayMs, "How long a name server's answer is believed, in ms."));
  t.push_back(Words("engine-tls-ca-cert-path", "KVROUTER_ENGINE_TLS_CA_CERT_PATH",
                    FIELD(engines.tls.ca_file), "a path, or empty", Anything,
                    "Certificates that those of engines at https:// addresses are checked against; "
                    "empty: the system's."));
  t.push_back(Words("engine-tls-cert-path", "KVROUTER_ENGINE_TLS_CERT_PATH",
                    FIELD(engines.tls.certificate_file), "a path, or empty", Anything,
                    "Certificate shown to engines that ask for one; with engine-tls-key-path."));
  t.push_back(Words("engine-tls-key-path", "KVROUTER_ENGINE_TLS_KEY_PATH",
                    FIELD(engines.tls.key_file), "a path, or empty", Anything, "Its key."));
  t.push_back(Switch("engine-tls-insecure", "KVROUTER_ENGINE_TLS_INSECURE",
                     FIELD(engines.tls.insecure),
                     "Neither certificates nor names of engines are checked."));
}

#undef FIELD

}  // namespace

void AddDispatchOptions(std::vector<Option>* table) {
  AddDoor(table);
  AddRequests(table);
  AddTokenizing(table);
  AddEngines(table);
}

}  // namespace kvrouter
