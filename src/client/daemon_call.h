#ifndef KVROUTER_CLIENT_DAEMON_CALL_H_
#define KVROUTER_CLIENT_DAEMON_CALL_H_

#include <grpcpp/channel.h>
#include <grpcpp/client_context.h>
#include <grpcpp/support/status.h>

#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "kvrouter/v1/common.pb.h"
#include "kvrouter/v1/router.pb.h"

namespace kvrouter::client {

// What every gRPC client of ours needs: the way to a daemon, and what a failed call says. Pure but
// for the channel. grpcpp shows here, so include it from .cc files only.

// Carries messages as large as the daemon's default limit. Connects at the first call. `own`: a
// connection of its own, not shared with other channels of this process to the same address.
std::shared_ptr<grpc::Channel> Connect(const std::string& host_port, bool own = false);

// As in gRPC's documentation: "RESOURCE_EXHAUSTED"; "ERROR" for a number that is no code.
std::string_view CodeName(absl::StatusCode code);

// The detail a daemon put into a failed call's trailers. Nothing: the daemon did not answer this,
// gRPC did, or somebody else on that port.
std::optional<v1::ErrorDetail> DetailOf(const grpc::ClientContext& context);

// A failed call in one line: which server, the code, the reason from the error's detail and, for a
// duplicate, where the live booking is. REQUIRES: !status.ok().
absl::Status ExplainFailure(const std::string& host_port, const grpc::Status& status,
                            const grpc::ClientContext& context);

}  // namespace kvrouter::client

#endif  // KVROUTER_CLIENT_DAEMON_CALL_H_
