#ifndef KVROUTER_ADAPTERS_GRPC_ROUTER_CALLS_H_
#define KVROUTER_ADAPTERS_GRPC_ROUTER_CALLS_H_

#include "absl/status/status.h"
#include "kvrouter/v1/router.pb.h"
#include "service/routing_service.h"

namespace kvrouter {

// The calls on a booking's life: check the message, call the service, say what came of it. Common
// to the unary calls and the messages of a RouteStream.

absl::Status CallPrefillComplete(RoutingService* routing,
                                 const v1::PrefillCompleteRequest& request);
absl::Status CallOutputBlock(RoutingService* routing, const v1::OutputBlockRequest& request);
absl::Status CallKeepAlive(RoutingService* routing, const v1::KeepAliveRequest& request);
absl::Status CallReportLeg(RoutingService* routing, const v1::ReportLegRequest& request);
absl::Status CallFree(RoutingService* routing, const v1::FreeRequest& request,
                      v1::FreeResponse* response);

}  // namespace kvrouter

#endif  // KVROUTER_ADAPTERS_GRPC_ROUTER_CALLS_H_
