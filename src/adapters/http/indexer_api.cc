#include "adapters/http/indexer_api.h"

#include <fmt/format.h>

#include <optional>
#include <string_view>
#include <utility>

#include "adapters/http/dump_json.h"
#include "adapters/http/http_format.h"
#include "adapters/http/selection_answers.h"
#include "adapters/http/selection_headers.h"
#include "base/status_macros.h"
#include "kvrouter/error.h"

namespace kvrouter {

void IndexerApi::AddRoutes(HttpServer* server) {
  struct Route {
    std::string_view method;
    std::string_view path;
    Call call;
  };
  static constexpr Route kRoutes[] = {
      {"POST", "/register", &IndexerApi::Register},
      {"POST", "/unregister", &IndexerApi::Unregister},
      {"GET", "/workers", &IndexerApi::Workers},
      {"POST", "/query", &IndexerApi::Query},
      {"POST", "/query_by_hash", &IndexerApi::QueryByHash},
      {"GET", "/dump", &IndexerApi::Dump},
      {"POST", "/register_peer", &IndexerApi::RegisterPeer},
      {"POST", "/deregister_peer", &IndexerApi::DeregisterPeer},
      {"GET", "/peers", &IndexerApi::Peers},
      {"GET", "/health", &IndexerApi::Health},
      {"GET", "/metrics", &IndexerApi::Metrics},
      {"POST", "/reopen_logs", &IndexerApi::ReopenLogs},
  };
  for (const Route& route : kRoutes) {
    routes_.Add(
        server, route.method, route.path,
        [this, call = route.call](const HttpRequest& request) { return (this->*call)(request); });
  }
}

IndexerApi::Answer IndexerApi::Register(const HttpRequest& request) {
  KVR_RETURN_IF_ERROR(Counted(parts_.workers, CheckJsonContent(request)));
  KVR_ASSIGN_OR_RETURN(const InstanceRank rank,
                       Counted(parts_.workers, ReadRegisterBody(request.body)));
  KVR_RETURN_IF_ERROR(RegisterInstanceRank(parts_.workers, rank));
  return JsonAnswer(201, R"({"status":"ok"})");
}

IndexerApi::Answer IndexerApi::Unregister(const HttpRequest& request) {
  KVR_RETURN_IF_ERROR(Counted(parts_.workers, CheckJsonContent(request)));
  KVR_ASSIGN_OR_RETURN(const InstanceSelector which,
                       Counted(parts_.workers, ReadUnregisterBody(request.body)));
  KVR_RETURN_IF_ERROR(UnregisterInstance(parts_.workers, which));
  return OkAnswer();
}

IndexerApi::Answer IndexerApi::Workers(const HttpRequest& request) {
  const auto model_name = QueryParameter(request.query, "model_name");
  const auto routing_group = QueryParameter(request.query, "routing_group");
  std::vector<WorkerSpec> workers = parts_.workers->List();
  std::erase_if(workers, [&](const WorkerSpec& worker) {
    return (model_name && *model_name != worker.model_name) ||
           (routing_group && *routing_group != worker.routing_group);
  });
  return JsonAnswer(200, InstancesJson(ListInstances(workers, parts_.feeds->Reports())));
}

IndexerApi::Answer IndexerApi::Query(const HttpRequest& request) {
  KVR_RETURN_IF_ERROR(Counted(parts_.routing, CheckJsonContent(request)));
  KVR_ASSIGN_OR_RETURN(const IndexerQuery query,
                       Counted(parts_.routing, ReadQueryBody(request.body)));
  return AnswerQuery(query, /*by_hash=*/false);
}

IndexerApi::Answer IndexerApi::QueryByHash(const HttpRequest& request) {
  KVR_RETURN_IF_ERROR(Counted(parts_.routing, CheckJsonContent(request)));
  KVR_ASSIGN_OR_RETURN(const IndexerQuery query,
                       Counted(parts_.routing, ReadQueryByHashBody(request.body)));
  return AnswerQuery(query, /*by_hash=*/true);
}

IndexerApi::Answer IndexerApi::AnswerQuery(const IndexerQuery& query, bool by_hash) {
  const auto naming = parts_.router->Naming(query.model_name, query.routing_group);
  if (!naming.ok()) {
    return Counted(parts_.routing,
                   MakeError(absl::StatusCode::kNotFound, ErrorReason::kUnknownPartition,
                             fmt::format("no indexer for model={} routing_group={}",
                                         query.model_name, query.routing_group)));
  }
  RouteRequest route;
  route.model_name = query.model_name;
  route.routing_group = query.routing_group;
  route.lora_name = query.lora_name;
  route.cache_salt = query.cache_salt;
  route.book = false;
  if (by_hash) {
    // As many tokens as these blocks have; an EAGLE block needs the token behind it.
    const uint64_t tokens = query.block_hashes.size() * naming->block_size_tokens;
    route.prompt = HashPrompt{.local_hashes = query.block_hashes,
                              .sequence_hashes = {},
                              .isl_tokens = tokens + (naming->is_eagle ? 1 : 0)};
  } else {
    route.prompt = TokenPrompt{.token_ids = query.token_ids};
  }
  KVR_ASSIGN_OR_RETURN(const auto overlaps, parts_.routing->FindOverlap(route));
  return JsonAnswer(200, ScoresJson(naming->block_size_tokens, overlaps));
}

IndexerApi::Answer IndexerApi::Dump(const HttpRequest&) {
  KVR_ASSIGN_OR_RETURN(std::string text, Counted(parts_.routing, DumpJson(*parts_.router)));
  return JsonAnswer(200, std::move(text));
}

IndexerApi::Answer IndexerApi::RegisterPeer(const HttpRequest& request) {
  KVR_RETURN_IF_ERROR(CheckJsonContent(request));
  KVR_ASSIGN_OR_RETURN(std::string url, ReadPeerBody(request.body));
  if (url.empty() || url.size() > kMaxPeerBytes) {
    return MakeError(absl::StatusCode::kInvalidArgument, ErrorReason::kInvalidRequest,
                     fmt::format("url must be 1..{} bytes, got {}", kMaxPeerBytes, url.size()));
  }
  MutexLock lock(mu_);
  if (!peers_.contains(url) && peers_.size() >= kMaxPeers) {
    return MakeError(absl::StatusCode::kResourceExhausted, ErrorReason::kLimitReached,
                     fmt::format("{} peers, limit {}", peers_.size(), kMaxPeers));
  }
  peers_.insert(std::move(url));
  return JsonAnswer(201, R"({"status":"ok"})");
}

IndexerApi::Answer IndexerApi::DeregisterPeer(const HttpRequest& request) {
  KVR_RETURN_IF_ERROR(CheckJsonContent(request));
  KVR_ASSIGN_OR_RETURN(const std::string url, ReadPeerBody(request.body));
  MutexLock lock(mu_);
  if (peers_.erase(url) > 0) return OkAnswer();
  return MakeError(absl::StatusCode::kNotFound, ErrorReason::kInvalidRequest, "peer not found");
}

IndexerApi::Answer IndexerApi::Peers(const HttpRequest&) {
  MutexLock lock(mu_);
  std::string text = "[";
  for (const std::string& url : peers_) text += (text.size() > 1 ? "," : "") + JsonText(url);
  return JsonAnswer(200, text + "]");
}

IndexerApi::Answer IndexerApi::Health(const HttpRequest&) { return JsonAnswer(200, ""); }

IndexerApi::Answer IndexerApi::Metrics(const HttpRequest&) {
  return HttpResponse{.content_type = "text/plain; version=0.0.4; charset=utf-8",
                      .headers = {},
                      .body = parts_.metrics_text()};
}

// There is no access log, and nothing to reopen: the daemon logs to stderr.
IndexerApi::Answer IndexerApi::ReopenLogs(const HttpRequest&) { return OkAnswer(); }

}  // namespace kvrouter
