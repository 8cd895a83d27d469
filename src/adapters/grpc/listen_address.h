#ifndef KVROUTER_ADAPTERS_GRPC_LISTEN_ADDRESS_H_
#define KVROUTER_ADAPTERS_GRPC_LISTEN_ADDRESS_H_

#include <cstdint>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace kvrouter {

// HOST:PORT as in settings: "127.0.0.1:8093", "localhost:0", "[::1]:8093".
struct ListenAddress {
  std::string host;  // without brackets
  uint16_t port = 0;

  std::string Text() const;  // brackets around an IPv6 host
};

absl::StatusOr<ListenAddress> ParseListenAddress(std::string_view text);

// OK if every address the host stands for can be bound now; else one line with the address and the
// system's reason.
//
// gRPC itself says only that it failed, logs several lines, and counts it a success if one of
// several addresses (say ::1 of localhost) was free. Someone may still take the port between this
// check and gRPC's bind: then gRPC's poorer error is reported.
absl::Status CheckCanListen(const ListenAddress& address);

}  // namespace kvrouter

#endif  // KVROUTER_ADAPTERS_GRPC_LISTEN_ADDRESS_H_
