#include "adapters/grpc/grpc_server.h"

#include <fmt/format.h>
#include <grpc/grpc.h>
#include <grpcpp/ext/proto_server_reflection_plugin.h>
#include <grpcpp/grpcpp.h>
#include <grpcpp/health_check_service_interface.h>
#include <grpcpp/resource_quota.h>

#include <algorithm>
#include <climits>
#include <utility>

#include "adapters/grpc/kv_events_service.h"
#include "adapters/grpc/listen_address.h"
#include "adapters/grpc/router_service.h"
#include "adapters/grpc/workers_service.h"

namespace kvrouter {
namespace {

constexpr char kHealthName[] = "kvrouter.v1.Router";

// gRPC takes ints and reads INT_MAX as "never".
int ToMilliseconds(std::chrono::milliseconds value) {
  return static_cast<int>(std::clamp<int64_t>(value.count(), 1, INT_MAX));
}
int ToMillisecondsOrNever(std::chrono::milliseconds value) {
  return value.count() <= 0 ? INT_MAX : ToMilliseconds(value);
}

void ApplyConfig(const GrpcServerConfig& config, grpc::ServerBuilder* builder) {
  // Off: by default a second daemon would share the port in silence and get half of the
  // connections.
  builder->AddChannelArgument(GRPC_ARG_ALLOW_REUSEPORT, 0);
  const int max_message_bytes =
      static_cast<int>(std::min<uint64_t>(config.max_message_bytes, INT_MAX));
  builder->SetMaxReceiveMessageSize(max_message_bytes);
  builder->SetMaxSendMessageSize(max_message_bytes);
  // A compressed message is unpacked before its size is looked at: a few KiB could become GiB.
  for (const auto algorithm : {GRPC_COMPRESS_DEFLATE, GRPC_COMPRESS_GZIP}) {
    builder->SetCompressionAlgorithmSupportStatus(algorithm, false);
  }
  // An uncompressed one is received before its size is looked at, and any number may be under way:
  // only this bounds what they hold. Beyond it gRPC ends calls, those that hold most first.
  grpc::ResourceQuota quota("kvrouter");
  quota.Resize(std::max(config.max_buffered_bytes, 2 * config.max_message_bytes));
  builder->SetResourceQuota(quota);

  builder->AddChannelArgument(GRPC_ARG_MAX_CONNECTION_AGE_MS,
                              ToMillisecondsOrNever(config.max_connection_age));
  builder->AddChannelArgument(GRPC_ARG_MAX_CONNECTION_AGE_GRACE_MS,
                              ToMilliseconds(config.max_connection_age_grace));

  builder->AddChannelArgument(GRPC_ARG_KEEPALIVE_TIME_MS,
                              ToMillisecondsOrNever(config.keepalive_time));
  builder->AddChannelArgument(GRPC_ARG_KEEPALIVE_TIMEOUT_MS,
                              ToMilliseconds(config.keepalive_timeout));
  // Gateways keep one connection open over quiet hours: find dead ones without calls too, and let
  // clients do so.
  builder->AddChannelArgument(GRPC_ARG_KEEPALIVE_PERMIT_WITHOUT_CALLS, 1);
  builder->AddChannelArgument(GRPC_ARG_HTTP2_MAX_PINGS_WITHOUT_DATA, 0);
  builder->AddChannelArgument(GRPC_ARG_HTTP2_MIN_RECV_PING_INTERVAL_WITHOUT_DATA_MS,
                              ToMilliseconds(config.min_client_ping_interval));
}

}  // namespace

struct GrpcServer::Impl {
  const GrpcServerConfig config;
  RouterGrpcService router_service;
  WorkersGrpcService workers_service;
  PublishedFeeds* const published;
  KvEventsGrpcService kv_events_service;
  ListenAddress address;
  std::unique_ptr<grpc::Server> server;

  Impl(GrpcServerConfig c, const Doors& doors)
      : config(std::move(c)),
        router_service(doors.routing, doors.router, doors.route_text),
        workers_service(doors.workers, doors.feeds, doors.signs, doors.router),
        published(doors.published),
        kv_events_service(doors.published) {}
};

GrpcServer::GrpcServer(GrpcServerConfig config, Doors doors)
    : impl_(std::make_unique<Impl>(std::move(config), doors)) {}

GrpcServer::~GrpcServer() { Stop(std::chrono::milliseconds(0)); }

absl::Status GrpcServer::Start() {
  absl::StatusOr<ListenAddress> address = ParseListenAddress(impl_->config.listen);
  if (!address.ok()) return address.status();
  if (absl::Status status = CheckCanListen(*address); !status.ok()) return status;

  // Both are process-wide switches of gRPC that act on servers built later.
  grpc::EnableDefaultHealthCheckService(true);
  grpc::reflection::InitProtoReflectionServerBuilderPlugin();

  grpc::ServerBuilder builder;
  ApplyConfig(impl_->config, &builder);
  int port = 0;
  builder.AddListeningPort(address->Text(), grpc::InsecureServerCredentials(), &port);
  builder.RegisterService(&impl_->router_service);
  builder.RegisterService(&impl_->workers_service);
  if (impl_->published != nullptr) builder.RegisterService(&impl_->kv_events_service);
  impl_->server = builder.BuildAndStart();
  if (impl_->server == nullptr || port == 0) {
    impl_->server.reset();
    return absl::UnavailableError(fmt::format("cannot listen on {}", address->Text()));
  }
  address->port = static_cast<uint16_t>(port);
  impl_->address = *std::move(address);
  SetServing(false);  // until told; "" is SERVING from here on
  return absl::OkStatus();
}

std::string GrpcServer::Address() const { return impl_->address.Text(); }

void GrpcServer::SetServing(bool ready) {
  if (impl_->server == nullptr) return;
  impl_->server->GetHealthCheckService()->SetServingStatus(kHealthName, ready);
}

void GrpcServer::Stop(std::chrono::milliseconds grace) {
  if (impl_->server == nullptr) return;
  impl_->workers_service.Stop();
  if (impl_->published != nullptr) impl_->published->Stop();
  // Watchers learn it before their streams are cut.
  impl_->server->GetHealthCheckService()->Shutdown();
  impl_->server->Shutdown(std::chrono::system_clock::now() + grace);
  impl_->server.reset();
}

}  // namespace kvrouter
