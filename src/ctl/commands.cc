#include "ctl/commands.h"

#include <fmt/format.h>

#include <cerrno>
#include <charconv>
#include <cstdio>
#include <cstring>
#include <string_view>
#include <vector>

#include "base/status_macros.h"
#include "client/exposition.h"
#include "client/http_get.h"
#include "client/router_client.h"
#include "ctl/dump_text.h"
#include "ctl/explain_text.h"
#include "ctl/metrics_report.h"
#include "ctl/render.h"
#include "ctl/token_spec.h"

namespace kvrouter::ctl {
namespace {

using client::RouterClient;

template <typename T>
bool ParseWhole(std::string_view text, T* value) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), *value);
  return error == std::errc() && end == text.data() + text.size();
}

absl::Status SetPin(const std::string& pin, v1::TargetSelector* selector) {
  const std::string_view text = pin;
  const size_t slash = text.find('/');
  uint64_t worker_id = 0;
  uint32_t dp_rank = 0;
  if (!ParseWhole(text.substr(0, slash), &worker_id) ||
      (slash != std::string_view::npos && !ParseWhole(text.substr(slash + 1), &dp_rank))) {
    return absl::InvalidArgumentError(
        fmt::format("--pin must be WORKER or WORKER/RANK, got \"{}\"", pin));
  }
  selector->set_worker_id(worker_id);
  if (slash != std::string_view::npos) selector->set_dp_rank(dp_rank);
  return absl::OkStatus();
}

absl::StatusOr<v1::RouteRequest> ToMessage(const RouteOptions& options) {
  KVR_ASSIGN_OR_RETURN(const std::vector<uint32_t> tokens, ReadTokens(options.tokens));
  v1::RouteRequest request;
  request.mutable_token_ids()->mutable_ids()->Add(tokens.begin(), tokens.end());
  request.set_request_id(options.request_id);
  request.set_model_name(options.model_name);
  request.set_routing_group(options.routing_group);
  request.set_lora_name(options.lora_name);
  request.set_cache_salt(options.cache_salt);
  request.set_advise_only(options.advise);
  if (options.pin) KVR_RETURN_IF_ERROR(SetPin(*options.pin, request.mutable_pinned()));
  if (options.expected_output_tokens) {
    request.set_expected_output_tokens(*options.expected_output_tokens);
  }
  return request;
}

absl::StatusOr<v1::WorkerSpec> ToMessage(const RegisterOptions& options) {
  if (options.replay.size() > options.events.size()) {
    return absl::InvalidArgumentError(
        fmt::format("{} --replay but {} --events: a replay needs its live endpoint",
                    options.replay.size(), options.events.size()));
  }
  v1::WorkerSpec worker;
  worker.set_worker_id(options.worker_id);
  worker.set_address(options.address);
  worker.set_block_size_tokens(options.block_size_tokens);
  worker.set_model_name(options.model_name);
  worker.set_routing_group(options.routing_group);
  worker.set_dp_size(options.dp_size);
  worker.set_is_eagle(options.is_eagle);
  if (options.image_token_id) worker.set_image_token_id(*options.image_token_id);
  for (uint32_t rank = 0; rank < options.events.size(); ++rank) {
    v1::EventEndpoints& endpoints = (*worker.mutable_events())[rank];
    endpoints.set_live(options.events[rank]);
    if (rank < options.replay.size()) endpoints.set_replay(options.replay[rank]);
  }
  return worker;
}

std::string OneWorkerJson(const v1::Worker& worker) {
  v1::ListResponse list;
  *list.add_workers() = worker;
  return WorkersJson(list);
}

}  // namespace

absl::StatusOr<std::string> RegisterWorker(const Connection& connection,
                                           const RegisterOptions& options) {
  KVR_ASSIGN_OR_RETURN(const v1::WorkerSpec message, ToMessage(options));
  RouterClient client(connection.grpc, connection.timeout);
  KVR_ASSIGN_OR_RETURN(const v1::Worker worker, client.Register(message));
  if (connection.json) return OneWorkerJson(worker);
  return fmt::format("registered worker {}, incarnation {}\n", worker.spec().worker_id(),
                     worker.spec().incarnation());
}

absl::StatusOr<std::string> DrainWorker(const Connection& connection, uint64_t worker_id) {
  RouterClient client(connection.grpc, connection.timeout);
  KVR_ASSIGN_OR_RETURN(const v1::Worker worker, client.Drain(worker_id));
  if (connection.json) return OneWorkerJson(worker);
  return fmt::format("worker {} is draining: no new requests, running ones keep their bookings\n",
                     worker_id);
}

absl::StatusOr<std::string> RemoveWorker(const Connection& connection, uint64_t worker_id) {
  RouterClient client(connection.grpc, connection.timeout);
  KVR_RETURN_IF_ERROR(client.Remove(worker_id));
  if (connection.json) return fmt::format("{{\"removed\": {}}}\n", worker_id);
  return fmt::format("removed worker {}\n", worker_id);
}

absl::StatusOr<std::string> ShowOverlap(const Connection& connection, const RouteOptions& options) {
  KVR_ASSIGN_OR_RETURN(const v1::RouteRequest request, ToMessage(options));
  RouterClient client(connection.grpc, connection.timeout);
  KVR_ASSIGN_OR_RETURN(const v1::OverlapScoresResponse response, client.OverlapScores(request));
  return connection.json ? OverlapJson(response) : OverlapText(response);
}

absl::StatusOr<std::string> ShowWorkers(const Connection& connection) {
  RouterClient client(connection.grpc, connection.timeout);
  KVR_ASSIGN_OR_RETURN(const v1::ListResponse response, client.ListWorkers());
  return connection.json ? WorkersJson(response) : WorkersText(response);
}

absl::StatusOr<std::string> RouteOnce(const Connection& connection, const RouteOptions& options) {
  KVR_ASSIGN_OR_RETURN(const v1::RouteRequest request, ToMessage(options));
  RouterClient client(connection.grpc, connection.timeout);
  KVR_ASSIGN_OR_RETURN(const v1::RouteResponse response, client.Route(request));
  return connection.json ? RouteJson(response) : RouteText(response);
}

absl::StatusOr<std::string> FreeRequest(const Connection& connection,
                                        const std::string& request_id) {
  RouterClient client(connection.grpc, connection.timeout);
  KVR_ASSIGN_OR_RETURN(const v1::FreeResponse response, client.Free(request_id));
  if (connection.json) return fmt::format("{{\"released\": {}}}\n", response.released());
  if (response.released()) return std::string("released\n");
  return absl::NotFoundError(fmt::format("no live booking under request id \"{}\"", request_id));
}

absl::StatusOr<std::string> ExplainRequest(const Connection& connection,
                                           const std::string& request_id) {
  RouterClient client(connection.grpc, connection.timeout);
  KVR_ASSIGN_OR_RETURN(const v1::ExplainResponse response, client.Explain(request_id));
  return connection.json ? ExplainJson(response) : ExplainText(response);
}

absl::StatusOr<std::string> Dump(const Connection& connection, const DumpOptions& options) {
  const auto or_default = [](const std::string& name) { return name.empty() ? "default" : name; };
  v1::DumpRequest request;
  request.set_model_name(or_default(options.model_name));
  request.set_routing_group(or_default(options.routing_group));
  RouterClient client(connection.grpc, connection.timeout);
  KVR_ASSIGN_OR_RETURN(
      const v1::DumpCounts counts, client.Dump(request, [&](const v1::DumpedEvent& event) {
        const std::string line = DumpLine(request.model_name(), request.routing_group(), event);
        if (std::fwrite(line.data(), 1, line.size(), stdout) == line.size()) {
          return absl::OkStatus();
        }
        return absl::DataLossError(
            fmt::format("cannot write to standard output: {}", std::strerror(errno)));
      }));
  if (std::fflush(stdout) != 0) {
    return absl::DataLossError(
        fmt::format("cannot write to standard output: {}", std::strerror(errno)));
  }
  return DumpSummary(counts);
}

absl::StatusOr<std::string> ShowLoads(const Connection& connection) {
  RouterClient client(connection.grpc, connection.timeout);
  KVR_ASSIGN_OR_RETURN(const v1::LoadsResponse response, client.Loads());
  return connection.json ? LoadsJson(response) : LoadsText(response);
}

absl::StatusOr<std::string> ShowMetrics(const Connection& connection, const std::string& prefix) {
  KVR_ASSIGN_OR_RETURN(const std::string body,
                       client::HttpGet(connection.http, "/metrics", connection.timeout));
  const std::vector<client::Sample> samples = client::ParseExposition(body);
  if (prefix.empty()) return connection.json ? MetricsJson(samples) : MetricsText(samples);
  return connection.json ? SeriesJson(samples, prefix) : SeriesText(samples, prefix);
}

}  // namespace kvrouter::ctl
