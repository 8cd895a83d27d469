#ifndef KVROUTER_ADAPTERS_NATS_NATS_OPTIONS_H_
#define KVROUTER_ADAPTERS_NATS_NATS_OPTIONS_H_

#include <nats/nats.h>

#include <chrono>
#include <memory>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "adapters/nats/nats_event_source.h"

namespace kvrouter {

inline constexpr std::chrono::milliseconds kNatsConnectTimeout{1000};

using NatsOptionsPtr = std::unique_ptr<natsOptions, decltype(&natsOptions_Destroy)>;

// The library's options for one connection to one of the servers; they point into `config`. Error:
// names the setting, without its value where that is a secret.
absl::StatusOr<NatsOptionsPtr> MakeNatsOptions(const NatsEventSourceConfig& config,
                                               const std::string& server);

// The host in a server's URL; empty if it has none. Certificates are checked against it.
std::string NatsHost(std::string_view server);

// The URL without user, password or token, for messages.
std::string WithoutCredentials(std::string_view server);

// What the library says of the calling thread's last failed call.
std::string NatsErrorText(natsStatus status);

}  // namespace kvrouter

#endif  // KVROUTER_ADAPTERS_NATS_NATS_OPTIONS_H_
