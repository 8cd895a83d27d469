#ifndef KVROUTER_ADAPTERS_GRPC_ROUTER_SERVICE_H_
#define KVROUTER_ADAPTERS_GRPC_ROUTER_SERVICE_H_

#include "adapters/grpc/dump_stream.h"
#include "adapters/grpc/route_messages.h"
#include "dispatch/dispatcher.h"
#include "kvrouter/router.h"
#include "kvrouter/v1/router.grpc.pb.h"
#include "service/routing_service.h"

namespace kvrouter {

// The door kvrouter.v1.Router: converts, calls the service, finishes; never waits. Thread-safe.
class RouterGrpcService final : public v1::Router::CallbackService {
 public:
  // All outlive the door; `route_text` may be null.
  RouterGrpcService(RoutingService* routing, const Router* router, RouteTextFunction route_text)
      : routing_(routing), router_(router), route_text_(std::move(route_text)) {
    SetMessageAllocatorFor_Route(&route_messages_);
  }

  grpc::ServerUnaryReactor* Route(grpc::CallbackServerContext* context,
                                  const v1::RouteRequest* request,
                                  v1::RouteResponse* response) override;
  grpc::ServerUnaryReactor* RouteText(grpc::CallbackServerContext* context,
                                      const v1::RouteTextRequest* request,
                                      v1::RouteTextResponse* response) override;
  grpc::ServerBidiReactor<v1::StreamRequest, v1::StreamResponse>* RouteStream(
      grpc::CallbackServerContext* context) override;
  grpc::ServerUnaryReactor* PrefillComplete(grpc::CallbackServerContext* context,
                                            const v1::PrefillCompleteRequest* request,
                                            v1::PrefillCompleteResponse* response) override;
  grpc::ServerUnaryReactor* OutputBlock(grpc::CallbackServerContext* context,
                                        const v1::OutputBlockRequest* request,
                                        v1::OutputBlockResponse* response) override;
  grpc::ServerUnaryReactor* KeepAlive(grpc::CallbackServerContext* context,
                                      const v1::KeepAliveRequest* request,
                                      v1::KeepAliveResponse* response) override;
  grpc::ServerUnaryReactor* ReportLeg(grpc::CallbackServerContext* context,
                                      const v1::ReportLegRequest* request,
                                      v1::ReportLegResponse* response) override;
  grpc::ServerUnaryReactor* Free(grpc::CallbackServerContext* context,
                                 const v1::FreeRequest* request,
                                 v1::FreeResponse* response) override;
  grpc::ServerUnaryReactor* Explain(grpc::CallbackServerContext* context,
                                    const v1::ExplainRequest* request,
                                    v1::ExplainResponse* response) override;
  grpc::ServerUnaryReactor* OverlapScores(grpc::CallbackServerContext* context,
                                          const v1::OverlapScoresRequest* request,
                                          v1::OverlapScoresResponse* response) override;
  grpc::ServerUnaryReactor* PotentialLoads(grpc::CallbackServerContext* context,
                                           const v1::PotentialLoadsRequest* request,
                                           v1::PotentialLoadsResponse* response) override;
  grpc::ServerUnaryReactor* Loads(grpc::CallbackServerContext* context,
                                  const v1::LoadsRequest* request,
                                  v1::LoadsResponse* response) override;
  grpc::ServerWriteReactor<v1::DumpResponse>* Dump(grpc::CallbackServerContext* context,
                                                   const v1::DumpRequest* request) override;

 private:
  // With a slot taken, unless it fails.
  absl::StatusOr<std::unique_ptr<DumpCursor>> OpenDump(const v1::DumpRequest& request);

  DumpSlots dumps_;
  RoutingService* const routing_;
  const Router* const router_;
  const RouteTextFunction route_text_;  // null: not served
  RouteMessages route_messages_;
};

}  // namespace kvrouter

#endif  // KVROUTER_ADAPTERS_GRPC_ROUTER_SERVICE_H_
