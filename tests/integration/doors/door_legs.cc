#include "door_legs.h"

#include <fmt/format.h>
#include <grpcpp/grpcpp.h>

#include <map>
#include <nlohmann/json.hpp>

#include "adapters/grpc/grpc_server.h"
#include "adapters/http/http_server.h"
#include "adapters/http/selection_api.h"
#include "base/ascii.h"
#include "base/check.h"
#include "base/clock.h"
#include "integration/http/blocking_client.h"
#include "kvrouter/v1/router.grpc.pb.h"
#include "kvrouter/v1/workers.grpc.pb.h"
#include "service/routing_service.h"
#include "service/select_cache.h"
#include "service/selection_workers.h"
#include "service/worker_registry.h"

namespace kvrouter {
namespace {

RouterConfig Config() {
  RouterConfig config;
  config.random_seed = 99;
  config.scheduler.track_output_blocks = true;
  return config;
}

std::string Words(uint64_t worker, uint32_t rank, std::string_view reason, bool booked,
                  double overlap_blocks, uint64_t isl_tokens, double regret_blocks, double draw) {
  return fmt::format("{}/{} {} booked={} overlap={} isl={} regret={} draw={}", worker, rank, reason,
                     booked, overlap_blocks, isl_tokens, regret_blocks, draw);
}
std::string CostWords(uint64_t worker, uint32_t rank, double overlap_blocks, double prefill_blocks,
                      double decode_blocks, double cost_blocks) {
  return fmt::format(" [{}/{} {} {} {} {}]", worker, rank, overlap_blocks, prefill_blocks,
                     decode_blocks, cost_blocks);
}

class Library final : public FleetLeg {
 public:
  const char* Name() const override { return "library"; }

  void AddWorker(const WorkerSpec& spec) override {
    WorkerSpec stored = spec;
    stored.incarnation = Incarnation{next_incarnation_++};
    KVR_CHECK(router_.UpsertWorker(stored).ok(), "worker refused");
    workers_[spec.id] = stored;
  }
  void Drain(WorkerId id) override {
    workers_[id].draining = true;
    KVR_CHECK(router_.UpsertWorker(workers_[id]).ok(), "drain refused");
  }
  void Remove(WorkerId id) override { router_.RemoveWorker(id); }

  std::string Route(const LegRequest& request) override {
    RouteRequest route;
    route.request_id = request.id;
    route.prompt = TokenPrompt{request.tokens};
    route.lora_name = request.lora_name;
    route.cache_salt = request.cache_salt;
    route.book = request.book;
    route.pinned = request.pinned;
    route.allowed_workers = request.allowed;
    route.overrides = {.overlap_score_credit = request.credit,
                       .router_temperature = request.temperature,
                       .track_prefill_tokens = request.track_prefill};
    route.expected_output_tokens = request.expected_output_tokens;
    const auto submitted = router_.Submit(route, SteadyClock().Now());
    if (!submitted.ok()) {
      return fmt::format("error: {}", std::string_view(submitted.status().message().data(),
                                                       submitted.status().message().size()));
    }
    const auto& d = std::get<RouteDecision>(*submitted);
    if (d.booked) bookings_[request.id] = d.booking;
    std::string words = Words(static_cast<uint64_t>(d.target.worker), d.target.dp_rank,
                              DecisionReasonName(d.reason), d.booked, d.effective_overlap_blocks,
                              d.isl_tokens, d.regret_blocks, d.draw);
    for (const CandidateCost& c : d.candidates) {
      words += CostWords(static_cast<uint64_t>(c.target.worker), c.target.dp_rank,
                         c.effective_overlap_blocks, c.prefill_cost_blocks, c.decode_blocks,
                         c.cost_blocks);
    }
    return words;
  }
  bool PrefillComplete(const std::string& id) override {
    return router_.PrefillComplete(bookings_[id], SteadyClock().Now());
  }
  bool OutputBlock(const std::string& id, std::optional<double> decay_fraction) override {
    return router_.OutputBlock(bookings_[id], decay_fraction, SteadyClock().Now());
  }
  void Free(const std::string& id) override {
    router_.Finish(bookings_[id], SteadyClock().Now());
    bookings_.erase(id);
  }

 private:
  uint64_t next_incarnation_ = 1;
  std::map<WorkerId, WorkerSpec> workers_;
  std::map<std::string, BookingId> bookings_;
};

// What both doors stand on.
class DoorLeg : public FleetLeg {
 protected:
  DoorLeg() {
    metrics_.SetSources({.router = &router_,
                         .service = &service_,
                         .feeds = nullptr,
                         .workers = &registry_,
                         .http = {},
                         .ready = {}});
  }
  RoutingService service_{ServiceConfig(), &router_, &SteadyClock(), &metrics_};
  WorkerRegistry registry_{&router_};
};

class Grpc final : public DoorLeg {
 public:
  Grpc() {
    KVR_CHECK(server_.Start().ok(), "no gRPC server");
    const auto channel = grpc::CreateChannel(server_.Address(), grpc::InsecureChannelCredentials());
    stub_ = v1::Router::NewStub(channel);
    workers_ = v1::Workers::NewStub(channel);
  }
  const char* Name() const override { return "gRPC"; }

  void AddWorker(const WorkerSpec& spec) override {
    v1::RegisterRequest request;
    v1::WorkerSpec* worker = request.mutable_worker();
    worker->set_worker_id(static_cast<uint64_t>(spec.id));
    worker->set_address(spec.address);
    worker->set_block_size_tokens(spec.block_size_tokens);
    worker->set_dp_size(spec.dp_size);
    v1::Worker stored;
    grpc::ClientContext context;
    KVR_CHECK(workers_->Register(&context, request, &stored).ok(), "worker refused");
  }
  void Drain(WorkerId id) override {
    v1::DrainRequest request;
    request.set_worker_id(static_cast<uint64_t>(id));
    v1::Worker stored;
    grpc::ClientContext context;
    KVR_CHECK(workers_->Drain(&context, request, &stored).ok(), "drain refused");
  }
  void Remove(WorkerId id) override {
    v1::RemoveRequest request;
    request.set_worker_id(static_cast<uint64_t>(id));
    v1::RemoveResponse removed;
    grpc::ClientContext context;
    KVR_CHECK(workers_->Remove(&context, request, &removed).ok(), "removal refused");
  }

  std::string Route(const LegRequest& request) override {
    v1::RouteRequest route;
    route.set_request_id(request.id);
    for (const TokenId token : request.tokens) route.mutable_token_ids()->add_ids(token);
    route.mutable_token_ids();
    route.set_lora_name(request.lora_name);
    route.set_cache_salt(request.cache_salt);
    route.set_advise_only(!request.book);
    if (request.pinned) {
      route.mutable_pinned()->set_worker_id(static_cast<uint64_t>(request.pinned->worker));
      if (request.pinned->dp_rank) route.mutable_pinned()->set_dp_rank(*request.pinned->dp_rank);
    }
    if (request.allowed) {
      for (const WorkerId id : *request.allowed)
        route.mutable_allowed_worker_ids()->add_worker_ids(static_cast<uint64_t>(id));
      route.mutable_allowed_worker_ids();
    }
    v1::ConfigOverride* overrides = route.mutable_config_override();
    if (request.temperature) overrides->set_router_temperature(*request.temperature);
    if (request.credit) overrides->set_overlap_score_credit(*request.credit);
    if (request.track_prefill) overrides->set_track_prefill_tokens(*request.track_prefill);
    if (request.expected_output_tokens)
      route.set_expected_output_tokens(*request.expected_output_tokens);
    v1::RouteResponse d;
    grpc::ClientContext context;
    const grpc::Status status = stub_->Route(&context, route, &d);
    if (!status.ok()) return fmt::format("error: {}", status.error_message());
    const std::string reason =
        AsciiLower(v1::DecisionReason_Name(d.reason()).substr(sizeof("DECISION_REASON_") - 1));
    std::string words =
        Words(d.target().worker_id(), d.target().dp_rank(), reason, d.booked(),
              d.effective_overlap_blocks(), d.isl_tokens(), d.regret_blocks(), d.draw());
    for (const v1::CandidateCost& c : d.candidates()) {
      words += CostWords(c.target().worker_id(), c.target().dp_rank(), c.effective_overlap_blocks(),
                         c.prefill_cost_blocks(), c.decode_blocks(), c.cost_blocks());
    }
    return words;
  }
  bool PrefillComplete(const std::string& id) override {
    v1::PrefillCompleteRequest request;
    request.set_request_id(id);
    v1::PrefillCompleteResponse answer;
    grpc::ClientContext context;
    return stub_->PrefillComplete(&context, request, &answer).ok();
  }
  bool OutputBlock(const std::string& id, std::optional<double> decay_fraction) override {
    v1::OutputBlockRequest request;
    request.set_request_id(id);
    if (decay_fraction) request.set_decay_fraction(*decay_fraction);
    v1::OutputBlockResponse answer;
    grpc::ClientContext context;
    return stub_->OutputBlock(&context, request, &answer).ok();
  }
  void Free(const std::string& id) override {
    v1::FreeRequest request;
    request.set_request_id(id);
    v1::FreeResponse answer;
    grpc::ClientContext context;
    KVR_CHECK(stub_->Free(&context, request, &answer).ok(), "free refused");
  }

 private:
  GrpcServer server_{
      GrpcServerConfig(),
      {.routing = &service_, .workers = &registry_, .feeds = nullptr, .router = &router_}};
  std::unique_ptr<v1::Router::Stub> stub_;
  std::unique_ptr<v1::Workers::Stub> workers_;
};

class Http final : public DoorLeg {
  using Json = nlohmann::json;

 public:
  Http() {
    api_.AddRoutes(&server_);
    KVR_CHECK(server_.Start().ok(), "no HTTP server");
    client_ = std::make_unique<BlockingClient>(server_.Address());
  }
  ~Http() override { server_.Stop(std::chrono::milliseconds(0)); }
  const char* Name() const override { return "HTTP"; }

  void AddWorker(const WorkerSpec& spec) override {
    Must("POST", "/workers",
         {{"worker_id", static_cast<uint64_t>(spec.id)},
          {"endpoint", spec.address},
          {"block_size", spec.block_size_tokens},
          {"data_parallel_size", spec.dp_size}});
  }
  void Drain(WorkerId id) override { Must("PATCH", WorkerPath(id), {{"draining", true}}); }
  void Remove(WorkerId id) override { Must("DELETE", WorkerPath(id), nullptr); }

  std::string Route(const LegRequest& request) override {
    Json body = {{"token_ids", request.tokens}, {"router_config_override", Json::object()}};
    if (request.book) body["selection_id"] = request.id;
    if (!request.lora_name.empty()) body["lora_name"] = request.lora_name;
    if (!request.cache_salt.empty()) body["cache_salt"] = request.cache_salt;
    if (request.pinned) {
      body["pinned_worker"] = {{"worker_id", static_cast<uint64_t>(request.pinned->worker)}};
      if (request.pinned->dp_rank) body["pinned_worker"]["dp_rank"] = *request.pinned->dp_rank;
    }
    if (request.allowed) {
      body["allowed_worker_ids"] = Json::array();
      for (const WorkerId id : *request.allowed)
        body["allowed_worker_ids"].push_back(static_cast<uint64_t>(id));
    }
    Json& overrides = body["router_config_override"];
    if (request.temperature) overrides["router_temperature"] = *request.temperature;
    if (request.credit) overrides["overlap_score_credit"] = *request.credit;
    if (request.track_prefill) overrides["track_prefill_tokens"] = *request.track_prefill;
    if (request.expected_output_tokens)
      body["expected_output_tokens"] = *request.expected_output_tokens;
    const auto [status, answer] =
        Call("POST", request.book ? "/select_and_reserve" : "/select", body);
    if (status != 200) return fmt::format("error: {}", answer["error"].get<std::string>());
    const Json& d = answer["explanation"]["decision"];
    std::string words =
        Words(answer["worker_id"], answer["dp_rank"], d["reason"].get<std::string>(), d["booked"],
              d["effective_overlap_blocks"], d["isl_tokens"], d["regret_blocks"], d["draw"]);
    for (const Json& c : d["candidates"]) {
      words +=
          CostWords(c["target"]["worker_id"], c["target"]["dp_rank"], c["effective_overlap_blocks"],
                    c["prefill_cost_blocks"], c["decode_blocks"], c["cost_blocks"]);
    }
    return words;
  }
  bool PrefillComplete(const std::string& id) override {
    return Call("POST", "/reservations/" + id + "/prefill_complete", nullptr).first == 200;
  }
  bool OutputBlock(const std::string& id, std::optional<double> decay_fraction) override {
    Json body = Json::object();
    if (decay_fraction) body["decay_fraction"] = *decay_fraction;
    return Call("POST", "/reservations/" + id + "/output_block", body).first == 200;
  }
  void Free(const std::string& id) override { Must("DELETE", "/reservations/" + id, nullptr); }

 private:
  static std::string WorkerPath(WorkerId id) {
    return fmt::format("/workers/{}", static_cast<uint64_t>(id));
  }
  std::pair<int, Json> Call(const std::string& method, const std::string& path, const Json& body) {
    const std::string text = body.is_null() ? "" : body.dump();
    client_->Send(
        fmt::format("{} {} HTTP/1.1\r\nHost: t\r\nContent-Type: application/json\r\n"
                    "x-route-explain: 1\r\nContent-Length: {}\r\n\r\n{}",
                    method, path, text.size(), text));
    const BlockingClient::Answer answer = client_->ReadAnswer();
    return {answer.status, Json::parse(answer.body)};
  }
  void Must(const std::string& method, const std::string& path, const Json& body) {
    const auto [status, answer] = Call(method, path, body);
    KVR_CHECK(status < 300, "{} {}: {} {}", method, path, status, answer.dump());
  }

  SelectionWorkers selection_workers_{&registry_};
  SelectCache cache_{SelectCacheConfig()};
  SelectionApi api_{{.routing = &service_,
                     .workers = &selection_workers_,
                     .cache = &cache_,
                     .router = &router_,
                     .clock = &SteadyClock(),
                     .readiness = [] { return Readiness{}; }}};
  HttpServer server_{HttpServerConfig()};
  std::unique_ptr<BlockingClient> client_;
};

}  // namespace

FleetLeg::FleetLeg() : metrics_({}), router_(Config(), &metrics_) {
  metrics_.SetSources({.router = &router_, .http = {}, .ready = {}});
}

std::unique_ptr<FleetLeg> LibraryLeg() { return std::make_unique<Library>(); }
std::unique_ptr<FleetLeg> GrpcLeg() { return std::make_unique<Grpc>(); }
std::unique_ptr<FleetLeg> HttpLeg() { return std::make_unique<Http>(); }

}  // namespace kvrouter
