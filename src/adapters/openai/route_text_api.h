#ifndef KVROUTER_ADAPTERS_OPENAI_ROUTE_TEXT_API_H_
#define KVROUTER_ADAPTERS_OPENAI_ROUTE_TEXT_API_H_

#include <string>
#include <vector>

#include "adapters/http/api_routes.h"
#include "adapters/http/http_server.h"
#include "dispatch/dispatcher.h"

namespace kvrouter {

// RouteText over HTTP, for gateways that have no tokenizer: the path of OpenAI's call behind
// /route, its body and headers as they would be sent to a worker.
//
//   POST /route/v1/completions, /route/v1/chat/completions   [?book=false: advice]
//   {"decision":{…},"tokenized":true,"token_ids":[…]}        decision: gRPC's RouteResponse
//
// A caller that leaves before its answer keeps no booking.
//
// Thread safety: AddRoutes before the server starts; then thread-safe.
class RouteTextApi {
 public:
  // Null: every call is answered 501.
  explicit RouteTextApi(RouteTextFunction call) : call_(std::move(call)) {}

  void AddRoutes(HttpServer* server);

  std::vector<ApiRoutes::RouteAnswers> Answers() const { return routes_.Answers(); }

 private:
  const RouteTextFunction call_;
  ApiRoutes routes_;
};

}  // namespace kvrouter

#endif  // KVROUTER_ADAPTERS_OPENAI_ROUTE_TEXT_API_H_
