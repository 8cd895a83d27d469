#ifndef KVROUTER_ADAPTERS_NATS_NKEY_H_
#define KVROUTER_ADAPTERS_NATS_NKEY_H_

#include <string>
#include <string_view>

#include "absl/status/statusor.h"

namespace kvrouter {

// The public key, as servers know it, that belongs to a NATS user's seed ("SU..."). NATS.c signs
// with a seed but wants to be told the key. Error: not a seed; the message does not repeat it.
absl::StatusOr<std::string> NkeyPublicKey(std::string_view seed);

}  // namespace kvrouter

#endif  // KVROUTER_ADAPTERS_NATS_NKEY_H_
