#include "adapters/http/selection_answers.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <iterator>
#include <map>
#include <nlohmann/json.hpp>
#include <utility>
#include <variant>

#include "adapters/http/selection_plan.h"

namespace kvrouter {
namespace {

using Json = nlohmann::ordered_json;

std::string Text(const Json& json) {
  return json.dump(-1, ' ', false, Json::error_handler_t::replace);
}

Json OrNull(uint64_t value) { return value == 0 ? Json(nullptr) : Json(value); }

// One entry per rank. A rank whose source has not reported yet is connecting, if it has one.
Json Feeds(const WorkerSpec& spec, std::span<const FeedReport> feeds) {
  Json list = Json::array();
  for (uint32_t offset = 0; offset < spec.dp_size; ++offset) {
    const Target target{spec.id, spec.dp_start_rank + offset};
    const auto report = std::lower_bound(
        feeds.begin(), feeds.end(), target,
        [](const FeedReport& r, const Target& wanted) { return r.target < wanted; });
    const bool reported = report != feeds.end() && report->target == target;
    const auto endpoints = spec.events.find(target.dp_rank);
    const bool configured = endpoints != spec.events.end() && !endpoints->second.live.empty();
    const FeedState state = reported     ? report->state
                            : configured ? FeedState::kConnecting
                                         : FeedState::kNone;
    list.push_back({{"dp_rank", target.dp_rank},
                    {"state", std::string(FeedStateName(state))},
                    {"detail", reported ? report->detail : std::string()}});
  }
  return list;
}

void ShowTopology(const WorkerTopology& topology, Json* worker) {
  if (!topology.topology_domains.empty()) (*worker)["topology_domains"] = topology.topology_domains;
  if (!topology.kv_transfer_domain.empty())
    (*worker)["kv_transfer_domain"] = topology.kv_transfer_domain;
  if (!topology.kv_transfer_enforcement.empty())
    (*worker)["kv_transfer_enforcement"] = topology.kv_transfer_enforcement;
  if (topology.kv_transfer_preferred_weight)
    (*worker)["kv_transfer_preferred_weight"] = *topology.kv_transfer_preferred_weight;
}

// One entry per rank: what keeps it from being picked although it is schedulable.
Json Health(const WorkerSpec& spec, std::span<const TargetLoad> loads, MonotonicTime now) {
  Json list = Json::array();
  auto load =
      std::lower_bound(loads.begin(), loads.end(), Target{spec.id, 0},
                       [](const TargetLoad& l, const Target& wanted) { return l.target < wanted; });
  for (; load != loads.end() && load->target.worker == spec.id; ++load) {
    const std::chrono::duration<double> out = load->ejected_until.value_or(now) - now;
    list.push_back({{"dp_rank", load->target.dp_rank},
                    {"overloaded", load->overloaded},
                    {"ejected_seconds", std::max(0.0, out.count())},
                    {"ejections", load->ejections}});
  }
  return list;
}

Json Worker(const SelectionWorker& worker) {
  const WorkerSpec& spec = worker.spec;
  Json live = Json::object();
  Json replay = Json::object();
  for (const auto& [rank, endpoints] : spec.events) {
    if (!endpoints.live.empty()) live[std::to_string(rank)] = endpoints.live;
    if (!endpoints.replay.empty()) replay[std::to_string(rank)] = endpoints.replay;
  }
  Json reasons = Json::array();
  if (spec.address.empty()) reasons.push_back("endpoint is missing");
  if (spec.block_size_tokens == 0) reasons.push_back("block_size is missing");
  const bool complete = reasons.empty();
  if (complete && spec.draining) reasons.push_back("draining");
  Json json = {{"worker_id", static_cast<uint64_t>(spec.id)},
               {"model_name", spec.model_name},
               {"routing_group", spec.routing_group},
               {"endpoint", spec.address.empty() ? Json(nullptr) : Json(spec.address)},
               {"kv_events_endpoints", std::move(live)},
               {"replay_endpoints", std::move(replay)},
               {"block_size", OrNull(spec.block_size_tokens)},
               {"data_parallel_start_rank", spec.dp_start_rank},
               {"data_parallel_size", spec.dp_size},
               {"max_num_batched_tokens", OrNull(spec.max_num_batched_tokens)},
               {"total_kv_blocks", OrNull(spec.total_kv_blocks)},
               {"is_eagle", spec.is_eagle},
               {"image_token_id", spec.image_token_id ? Json(*spec.image_token_id) : Json()},
               {"role", WorkerRoleName(spec.role)},
               {"kv_role", KvRoleName(spec.kv_role)},
               {"engine_version", spec.engine_version.empty() ? Json() : Json(spec.engine_version)},
               {"incarnation", static_cast<uint64_t>(spec.incarnation)},
               {"lifecycle", !complete       ? "incomplete"
                             : spec.draining ? "draining"
                                             : "schedulable"},
               {"not_schedulable_reasons", std::move(reasons)}};
  if (!spec.taints.empty()) json["taints"] = spec.taints;
  ShowTopology(spec.topology, &json);
  if (spec.lora_adapters) json["lora_adapters"] = *spec.lora_adapters;
  for (const auto& [name, text] : worker.traits)
    json[name] = Json::parse(text, nullptr, /*allow_exceptions=*/false);
  return json;
}

uint64_t Tokens(double blocks, uint32_t block_size_tokens) {
  return static_cast<uint64_t>(std::llround(blocks * block_size_tokens));
}

// Tiers are cumulative, in tokens. Ranks of the chosen worker, as far as the decision kept them.
Json Overlap(const RouteDecision& decision) {
  CandidateCost chosen;
  Json ranks = Json::object();
  for (const CandidateCost& cost : decision.candidates) {
    if (cost.target == decision.target) chosen = cost;
    if (cost.target.worker == decision.target.worker && cost.device_overlap_blocks > 0) {
      ranks[std::to_string(cost.target.dp_rank)] =
          Tokens(cost.device_overlap_blocks, decision.block_size_tokens);
    }
  }
  const double host = chosen.device_overlap_blocks + chosen.host_overlap_blocks;
  const double disk = host + chosen.disk_overlap_blocks;
  const auto tokens = [&](double blocks) { return Tokens(blocks, decision.block_size_tokens); };
  return {{"longest_matched", tokens(disk)},
          {"gpu", tokens(chosen.device_overlap_blocks)},
          {"dp", std::move(ranks)},
          {"cpu", tokens(host)},
          {"disk", tokens(disk)}};
}

int64_t Signed(SequenceHash hash) { return static_cast<int64_t>(static_cast<uint64_t>(hash)); }

}  // namespace

HttpResponse JsonAnswer(int status, std::string body) {
  return {.status = status, .headers = {}, .body = std::move(body)};
}

HttpResponse OkAnswer() { return JsonAnswer(200, R"({"status":"ok"})"); }

std::string JsonText(std::string_view text) { return Text(Json(text)); }

std::string WorkerJson(const SelectionWorker& worker) { return Text(Worker(worker)); }

std::string WorkersJson(std::span<const SelectionWorker> workers, const WorkerSignBoard* signs,
                        std::span<const FeedReport> feeds, std::span<const TargetLoad> loads,
                        MonotonicTime now) {
  Json list = Json::array();
  for (const SelectionWorker& worker : workers) {
    Json& json = list.emplace_back(Worker(worker));
    json["feeds"] = Feeds(worker.spec, feeds);
    json["health"] = Health(worker.spec, loads, now);
    if (signs == nullptr) continue;
    json["signs"] = Json::array();
    for (const std::string_view sign : NamesOf(signs->Of(worker.spec)))
      json["signs"].push_back(std::string(sign));
  }
  return Text(list);
}

uint64_t EffectivePrefillTokens(const RouteDecision& decision) {
  const uint64_t cached = Tokens(decision.effective_overlap_blocks, decision.block_size_tokens);
  return decision.isl_tokens - std::min(decision.isl_tokens, cached);
}

std::string SelectionJson(std::string_view selection_id, const RouteRequest& request,
                          const RouteDecision& decision,
                          const std::optional<BookedPrompt>& booked) {
  Json json = Json::object();
  if (!selection_id.empty()) json["selection_id"] = selection_id;
  json["model_name"] = request.model_name;
  json["routing_group"] = request.routing_group;
  json["worker_id"] = static_cast<uint64_t>(decision.target.worker);
  json["dp_rank"] = decision.target.dp_rank;
  json["endpoint"] = decision.address;
  json["block_size"] = decision.block_size_tokens;
  json["overlap"] = Overlap(decision);
  json["effective_prefill_tokens"] = EffectivePrefillTokens(decision);
  if (booked) {
    Json hashes = Json::array();
    for (const SequenceHash hash : booked->sequence_hashes) hashes.push_back(Signed(hash));
    json["sequence_hashes"] = std::move(hashes);
    json["isl_tokens"] = decision.isl_tokens;
    json["track_prefill_tokens"] = booked->track_prefill_tokens;
  }
  AddPlan(decision, &json);
  return Text(json);
}

std::string ReservationJson(std::string_view selection_id, std::string_view model_name,
                            std::string_view routing_group, const RouteDecision& decision) {
  const Json json = {{"selection_id", selection_id},
                     {"model_name", model_name},
                     {"routing_group", routing_group},
                     {"worker_id", static_cast<uint64_t>(decision.target.worker)},
                     {"dp_rank", decision.target.dp_rank},
                     {"endpoint", decision.address}};
  return Text(json);
}

Pending PendingOf(const PartitionSnapshot& partition) {
  Pending pending;
  for (const QueueClassSnapshot& queued : partition.queue) {
    pending.requests += queued.waiting;
    pending.isl_tokens += queued.waiting_isl_tokens;
  }
  return pending;
}

std::string LoadsJson(std::span<const PartitionSnapshot> partitions) {
  Json list = Json::array();
  for (const PartitionSnapshot& partition : partitions) {
    Json loads = Json::array();
    for (const TargetLoad& load : partition.loads) {
      loads.push_back({{"worker_id", static_cast<uint64_t>(load.target.worker)},
                       {"dp_rank", load.target.dp_rank},
                       {"potential_prefill_tokens", load.active_prefill_tokens},
                       {"potential_decode_blocks", std::llround(load.active_decode_blocks)},
                       {"active_requests", load.active_requests}});
    }
    const Pending pending = PendingOf(partition);
    list.push_back({{"model_name", partition.model_name},
                    {"routing_group", partition.routing_group},
                    {"loads", std::move(loads)},
                    {"pending_count", pending.requests},
                    {"pending_isl_tokens", pending.isl_tokens}});
  }
  return Text(list);
}

std::string PotentialLoadsJson(const RouteRequest& request,
                               std::span<const TargetPotentialLoad> loads, const Pending& pending) {
  Json list = Json::array();
  for (const TargetPotentialLoad& load : loads) {
    list.push_back({{"worker_id", static_cast<uint64_t>(load.target.worker)},
                    {"dp_rank", load.target.dp_rank},
                    {"potential_prefill_tokens", load.potential_prefill_tokens},
                    {"potential_decode_blocks", std::llround(load.potential_decode_blocks)},
                    {"active_requests", load.active_requests}});
  }
  const Json json = {{"model_name", request.model_name},
                     {"routing_group", request.routing_group},
                     {"loads", std::move(list)},
                     {"pending_count", pending.requests},
                     {"pending_isl_tokens", pending.isl_tokens}};
  return Text(json);
}

std::string OverlapScoresJson(uint32_t block_size_tokens, uint64_t blocks,
                              const CostWeights& weights, std::span<const TargetOverlap> overlaps,
                              std::span<const TargetLoad> targets) {
  std::map<Target, TargetOverlap> by_target;
  for (const TargetOverlap& overlap : overlaps) by_target[overlap.target] = overlap;
  Json list = Json::array();
  for (const TargetLoad& load : targets) {
    const auto found = by_target.find(load.target);
    const TargetOverlap overlap = found == by_target.end() ? TargetOverlap{} : found->second;
    const uint64_t device = overlap.device_blocks;
    const uint64_t host = overlap.host_blocks;
    const uint64_t disk = uint64_t{overlap.disk_blocks} + overlap.external_blocks;
    const double credit_blocks = weights.overlap_score_credit * static_cast<double>(device) +
                                 (weights.host_cache_hit_weight * static_cast<double>(host) +
                                  weights.disk_cache_hit_weight * static_cast<double>(disk));
    list.push_back({{"worker_id", static_cast<uint64_t>(load.target.worker)},
                    {"dp_rank", load.target.dp_rank},
                    {"device_blocks", device},
                    {"host_pinned_blocks", device + host},  // cumulative, as in `overlap`
                    {"disk_blocks", device + host + disk},
                    {"host_pinned_extension_blocks", host},
                    {"disk_extension_blocks", disk},
                    {"shared_beyond_device_blocks", 0},
                    {"router_credit_blocks", credit_blocks}});
  }
  const Json json = {{"block_size", block_size_tokens},
                     {"num_blocks", blocks},
                     {"workers", std::move(list)},
                     {"shared_cache",
                      {{"enabled", false},
                       {"total_hit_blocks", 0},
                       {"ranges", Json::array()},
                       {"error", nullptr}}}};
  return Text(json);
}

std::string ReadyJson(const Readiness& readiness, std::span<const SelectionWorker> workers) {
  Json list = Json::array();
  for (const SelectionWorker& worker : workers) list.push_back(Worker(worker));
  Json json = {{"ready", readiness.ready},
               {"schedulable_workers", readiness.schedulable_workers},
               {"workers", std::move(list)}};
  if (!readiness.ready) json["error"] = readiness.reason;
  if (const auto& door = readiness.openai_door) {
    json["openai_door"] = {{"address", door->address},
                           {"tls", door->tls},
                           {"engines", door->engines},
                           {"can_dispatch", door->problem.empty()}};
    if (!door->problem.empty()) json["openai_door"]["error"] = door->problem;
  }
  return Text(json);
}

std::string EventJson(const KvEvent& event) {
  std::string text = fmt::format(
      R"({{"worker_id":{},"storage_tier":"{}","event":{{"event_id":{},"dp_rank":{},"data":)",
      fmt::underlying(event.target.worker), TierName(event.tier), event.event_id,
      event.target.dp_rank);
  auto out = std::back_inserter(text);
  if (const auto* stored = std::get_if<Stored>(&event.data)) {
    text += R"({"stored":{"parent_hash":)";
    text += stored->parent ? fmt::format("{}", fmt::underlying(*stored->parent)) : "null";
    text += R"(,"start_position":null,"blocks":[)";
    for (size_t i = 0; i < stored->blocks.size(); ++i) {
      fmt::format_to(out, R"({}{{"block_hash":{},"tokens_hash":{}}})", i == 0 ? "" : ",",
                     fmt::underlying(stored->blocks[i].engine_hash),
                     fmt::underlying(stored->blocks[i].local_hash));
    }
    text += "]}}";
  } else if (const auto* removed = std::get_if<Removed>(&event.data)) {
    text += R"({"removed":{"block_hashes":[)";
    for (size_t i = 0; i < removed->engine_hashes.size(); ++i) {
      fmt::format_to(out, "{}{}", i == 0 ? "" : ",", fmt::underlying(removed->engine_hashes[i]));
    }
    text += "]}}";
  } else {
    text += R"("cleared")";
  }
  text += "}}";
  return text;
}

}  // namespace kvrouter
