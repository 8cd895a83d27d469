#include <cstdint>
#include <string_view>
#include <vector>

#include "daemon/option_areas.h"
#include "daemon/option_builders.h"
#include "daemon/option_ranges.h"

namespace kvrouter {
namespace {

bool IsEventPlane(std::string_view text) {
  return text == "none" || text == "nats" || text == "zmq";
}

}  // namespace

void AddEventPlaneOptions(std::vector<Option>* table) {
  auto& t = *table;
  t.push_back(Words("event-plane", "DYN_EVENT_PLANE", KVR_SETTING(event_plane.transport),
                    "none, nats or zmq", IsEventPlane,
                    "Dynamo's event plane to listen to, for ranks without an event endpoint of "
                    "their own."));
  t.push_back(Words("event-plane-component", "KVROUTER_EVENT_PLANE_COMPONENT",
                    KVR_SETTING(event_plane.component), "text, or empty", Anything,
                    "Dynamo component whose workers are heard; empty: all of the namespace."));
  t.push_back(Words("event-plane-endpoint", "KVROUTER_EVENT_PLANE_ENDPOINT",
                    KVR_SETTING(event_plane.endpoint), "text, or empty", Anything,
                    "Dynamo endpoint, of that component, whose workers are heard; empty: all."));
  t.push_back(WordList("event-plane-publishers", "KVROUTER_EVENT_PLANE_PUBLISHERS",
                       KVR_SETTING(event_plane.zmq.publishers), "ENDPOINT[,...], or empty",
                       "With event-plane zmq: the sockets that workers publish on, when there is "
                       "no broker."));
  t.push_back(Words("zmq-broker-url", "DYN_ZMQ_BROKER_URL", KVR_SETTING(event_plane.zmq_broker_url),
                    "xsub=ENDPOINT[;...],xpub=ENDPOINT[;...], or empty", Anything,
                    "With event-plane zmq: the brokers; their xpub endpoints are connected to."));
  t.push_back(Whole("event-plane-gap-wait-ms", "KVROUTER_EVENT_PLANE_GAP_WAIT_MS",
                    KVR_SETTING(event_plane.gap_wait), 0, kDayMs,
                    "With several brokers: how long an event that came early waits for those "
                    "before it, in ms."));
  t.push_back(Whole("event-plane-doubt-ms", "KVROUTER_EVENT_PLANE_DOUBT_MS",
                    KVR_SETTING(event_plane.doubt_grace), 0, kDayMs,
                    "A rank that may have lost events, and can be repaired, is repaired unless its "
                    "next event settles the doubt before, in ms."));
  t.push_back(Whole("event-plane-repair-patience-ms", "KVROUTER_EVENT_PLANE_REPAIR_PATIENCE_MS",
                    KVR_SETTING(event_plane.repair_patience), 0, kDayMs,
                    "How long the blocks known before a loss are believed while it is being "
                    "repaired, in ms."));
  t.push_back(Whole("event-plane-queue-messages", "DYN_ZMQ_EVENT_SUBSCRIBER_CHANNEL_CAPACITY",
                    KVR_SETTING(event_plane.intake.max_queued_messages), 1, 10'000'000,
                    "Messages of the event plane received and not yet applied; beyond, new ones "
                    "are dropped."));
  t.push_back(Whole("event-plane-queue-bytes", "KVROUTER_EVENT_PLANE_QUEUE_BYTES",
                    KVR_SETTING(event_plane.intake.max_queued_bytes), 1 << 20, uint64_t{1} << 40,
                    "Memory of those messages together, in bytes."));
  t.push_back(WordList("nats-server", "NATS_SERVER", KVR_SETTING(event_plane.nats.servers),
                       "nats://HOST:PORT or tls://HOST:PORT [,...]",
                       "With event-plane nats: the servers, tried in turn."));
  t.push_back(Words("nats-auth-username", "NATS_AUTH_USERNAME",
                    KVR_SETTING(event_plane.nats.username), "text, or empty", Anything,
                    "User at the NATS server."));
  t.push_back(Secret("nats-auth-password", "NATS_AUTH_PASSWORD",
                     KVR_SETTING(event_plane.nats.password), "Password of that user."));
  t.push_back(Secret("nats-auth-token", "NATS_AUTH_TOKEN", KVR_SETTING(event_plane.nats.token),
                     "Token instead of a user."));
  t.push_back(Secret("nats-auth-nkey", "NATS_AUTH_NKEY", KVR_SETTING(event_plane.nats.nkey_seed),
                     "Seed of an nkey (SU...) instead of a user."));
  t.push_back(Words("nats-auth-credentials-file", "NATS_AUTH_CREDENTIALS_FILE",
                    KVR_SETTING(event_plane.nats.credentials_file), "a path, or empty", Anything,
                    "File with JWT and seed instead of a user."));
  t.push_back(Words("nats-tls-ca-cert-path", "NATS_TLS_CA_CERT_PATH",
                    KVR_SETTING(event_plane.nats.tls_ca_cert_path), "a path, or empty", Anything,
                    "Certificates that the NATS server's is checked against; asks for TLS."));
  t.push_back(Switch("nats-tls-insecure", "NATS_TLS_INSECURE",
                     KVR_SETTING(event_plane.nats.tls_insecure),
                     "TLS without checking the NATS server's certificate."));
  t.push_back(Whole("nats-reconnect-min-ms", "KVROUTER_NATS_RECONNECT_MIN_MS",
                    KVR_SETTING(event_plane.nats.reconnect_min), 1, kHourMs,
                    "First wait before another try to reach NATS, in ms; it doubles up to the "
                    "maximum, each time a random part of up to a half less."));
  t.push_back(Whole("nats-reconnect-max-ms", "KVROUTER_NATS_RECONNECT_MAX_MS",
                    KVR_SETTING(event_plane.nats.reconnect_max), 1, kHourMs,
                    "Longest such wait, in ms."));
}

}  // namespace kvrouter
