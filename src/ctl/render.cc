#include "ctl/render.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <string_view>
#include <vector>

#include "ctl/enum_text.h"
#include "ctl/table.h"

namespace kvrouter::ctl {
namespace {

using Json = nlohmann::ordered_json;

std::string RoleText(v1::WorkerRole role) {
  return EnumText(v1::WorkerRole_Name(role), "WORKER_ROLE_");
}
std::string ReasonText(v1::DecisionReason reason) {
  return EnumText(v1::DecisionReason_Name(reason), "DECISION_REASON_");
}
std::string PlanText(v1::Plan plan) { return EnumText(v1::Plan_Name(plan), "PLAN_"); }

std::string TargetText(const v1::Target& target) {
  return fmt::format("{}/{}", target.worker_id(), target.dp_rank());
}
Json TargetJson(const v1::Target& target) {
  return {{"worker_id", target.worker_id()}, {"dp_rank", target.dp_rank()}};
}

std::vector<const v1::CandidateCost*> CheapestFirst(const v1::RouteResponse& response) {
  std::vector<const v1::CandidateCost*> candidates;
  for (const v1::CandidateCost& candidate : response.candidates()) candidates.push_back(&candidate);
  std::stable_sort(candidates.begin(), candidates.end(),
                   [](const v1::CandidateCost* a, const v1::CandidateCost* b) {
                     return a->cost_blocks() < b->cost_blocks();
                   });
  return candidates;
}

bool IsChosen(const v1::RouteResponse& response, const v1::CandidateCost& candidate) {
  return candidate.target().worker_id() == response.target().worker_id() &&
         candidate.target().dp_rank() == response.target().dp_rank();
}

std::string CostTable(const v1::RouteResponse& response) {
  Table table({"", "TARGET", "DEVICE", "HOST", "DISK", "SHARED", "CREDIT", "PENDING", "PREFILL",
               "DECODE", "REQUESTS", "TAINT", "COST"});
  for (const v1::CandidateCost* c : CheapestFirst(response)) {
    table.AddRow({IsChosen(response, *c) ? "*" : "", TargetText(c->target()),
                  Number(c->device_overlap_blocks()), Number(c->host_overlap_blocks()),
                  Number(c->disk_overlap_blocks()), Number(c->shared_overlap_blocks()),
                  Number(c->credit_blocks()), Number(c->raw_prefill_blocks()),
                  Number(c->prefill_cost_blocks()), Number(c->decode_blocks()),
                  Number(c->request_cost_blocks()), Number(c->taint_multiplier()),
                  Number(c->cost_blocks())});
  }
  return table.Text();
}

Json CandidateJson(const v1::CandidateCost& c) {
  return {{"target", TargetJson(c.target())},
          {"device_overlap_blocks", c.device_overlap_blocks()},
          {"host_overlap_blocks", c.host_overlap_blocks()},
          {"disk_overlap_blocks", c.disk_overlap_blocks()},
          {"shared_overlap_blocks", c.shared_overlap_blocks()},
          {"effective_overlap_blocks", c.effective_overlap_blocks()},
          {"credit_blocks", c.credit_blocks()},
          {"raw_prefill_blocks", c.raw_prefill_blocks()},
          {"prefill_cost_blocks", c.prefill_cost_blocks()},
          {"decode_blocks", c.decode_blocks()},
          {"request_cost_blocks", c.request_cost_blocks()},
          {"taint_multiplier", c.taint_multiplier()},
          {"cost_blocks", c.cost_blocks()},
          {"active_prefill_tokens", c.active_prefill_tokens()},
          {"active_decode_blocks", c.active_decode_blocks()},
          {"additional_decode_blocks", c.additional_decode_blocks()},
          {"active_requests", c.active_requests()}};
}

Json FeedJson(const v1::FeedStatus& feed) {
  return {{"dp_rank", feed.dp_rank()},
          {"state", feed.state()},
          {"detail", feed.detail()},
          {"index_blocks", feed.index_blocks()},
          {"events_applied", feed.events_applied()},
          {"gaps", feed.gaps()},
          {"restarts", feed.restarts()}};
}

Json WorkerJson(const v1::Worker& worker) {
  const v1::WorkerSpec& spec = worker.spec();
  Json events = Json::object();
  std::map<uint32_t, const v1::EventEndpoints*> by_rank;  // protobuf's own map has no order
  for (const auto& [dp_rank, endpoints] : spec.events()) by_rank[dp_rank] = &endpoints;
  for (const auto& [dp_rank, endpoints] : by_rank) {
    events[std::to_string(dp_rank)] = {{"live", endpoints->live()},
                                       {"replay", endpoints->replay()}};
  }
  Json feeds = Json::array();
  for (const v1::FeedStatus& feed : worker.feeds()) feeds.push_back(FeedJson(feed));
  Json json = {{"worker_id", spec.worker_id()},
               {"incarnation", spec.incarnation()},
               {"model_name", spec.model_name()},
               {"routing_group", spec.routing_group()},
               {"address", spec.address()},
               {"block_size_tokens", spec.block_size_tokens()},
               {"dp_start_rank", spec.dp_start_rank()},
               {"dp_size", spec.dp_size()},
               {"role", RoleText(spec.role())},
               {"draining", worker.draining()},
               {"total_kv_blocks", spec.total_kv_blocks()},
               {"max_num_batched_tokens", spec.max_num_batched_tokens()},
               {"is_eagle", spec.is_eagle()},
               {"events", std::move(events)},
               {"feeds", std::move(feeds)}};
  json["signs"] = std::vector<std::string>(worker.signs().begin(), worker.signs().end());
  if (spec.has_image_token_id()) json["image_token_id"] = spec.image_token_id();
  return json;
}

Json LowerTiersJson(const v1::LowerTierBlocks& blocks) {
  return {{"host", blocks.host()}, {"disk", blocks.disk()}, {"external", blocks.external()}};
}

uint64_t LowerTiersSum(const v1::LowerTierBlocks& blocks) {
  return blocks.host() + blocks.disk() + blocks.external();
}

Json LoadJson(const v1::TargetLoad& load) {
  return {{"target", TargetJson(load.target())},
          {"incarnation", load.incarnation()},
          {"draining", load.draining()},
          {"active_prefill_tokens", load.active_prefill_tokens()},
          {"active_decode_blocks", load.active_decode_blocks()},
          {"active_requests", load.active_requests()},
          {"index_blocks", load.index_blocks()},
          {"lower_tier_blocks", LowerTiersJson(load.lower_tier_blocks())}};
}

}  // namespace

std::string WorkersText(const v1::ListResponse& response) {
  if (response.workers().empty()) return "no workers\n";
  Table table({"WORKER", "RANK", "INCARNATION", "MODEL", "GROUP", "ROLE", "STATE", "BLOCK",
               "ADDRESS", "FEED", "INDEX_BLOCKS", "EVENTS", "GAPS", "RESTARTS", "SIGNS", "DETAIL"});
  for (const v1::Worker& worker : response.workers()) {
    const v1::WorkerSpec& spec = worker.spec();
    for (const v1::FeedStatus& feed : worker.feeds()) {
      table.AddRow({std::to_string(spec.worker_id()), std::to_string(feed.dp_rank()),
                    std::to_string(spec.incarnation()), spec.model_name(), spec.routing_group(),
                    RoleText(spec.role()), worker.draining() ? "draining" : "active",
                    std::to_string(spec.block_size_tokens()), spec.address(), feed.state(),
                    std::to_string(feed.index_blocks()), std::to_string(feed.events_applied()),
                    std::to_string(feed.gaps()), std::to_string(feed.restarts()),
                    fmt::format("{}", fmt::join(worker.signs(), ",")), feed.detail()});
    }
  }
  return table.Text();
}

std::string WorkersJson(const v1::ListResponse& response) {
  Json workers = Json::array();
  for (const v1::Worker& worker : response.workers()) workers.push_back(WorkerJson(worker));
  return Json{{"workers", std::move(workers)}}.dump(2) + "\n";
}

std::string RouteText(const v1::RouteResponse& r) {
  std::string text =
      fmt::format("worker {} rank {}  {}  (incarnation {})\n", r.target().worker_id(),
                  r.target().dp_rank(), r.address(), r.incarnation());
  text += fmt::format("plan {}, reason {}{}, {}\n", PlanText(r.plan()), ReasonText(r.reason()),
                      r.tie_size() > 1 ? fmt::format(" of {}", r.tie_size()) : "",
                      r.booked() ? fmt::format("booked as {}", r.request_id())
                                 : std::string("advice only, nothing booked"));
  text +=
      fmt::format("overlap {} of {} blocks of {} tokens; the engine should find {} of {} tokens\n",
                  Number(r.effective_overlap_blocks()), r.isl_blocks(), r.block_size_tokens(),
                  r.expected_engine_hit_tokens(), r.isl_tokens());
  if (r.has_best_overlap_target()) {
    text += fmt::format("best overlap anywhere: {} blocks on {}\n", Number(r.best_overlap_blocks()),
                        TargetText(r.best_overlap_target()));
  }
  text += fmt::format("\n{}", CostTable(r));
  text +=
      "All columns are blocks. PREFILL is scale x max(0, PENDING - CREDIT), COST is (PREFILL + "
      "DECODE + REQUESTS) x TAINT;"
      "\nthe lowest cost wins.\n";
  if (static_cast<int>(r.candidate_count()) > r.candidates_size()) {
    text += fmt::format("{} of {} candidates shown.\n", r.candidates_size(), r.candidate_count());
  }
  return text;
}

namespace {

Json FilteredJson(const v1::RouteResponse& r) {
  Json targets = Json::array();
  for (const v1::FilteredTarget& filtered : r.filtered_targets()) {
    targets.push_back(
        {{"target", TargetJson(filtered.target())},
         {"reason", EnumText(v1::FilterReason_Name(filtered.reason()), "FILTER_REASON_")},
         {"device_overlap_blocks", filtered.device_overlap_blocks()}});
  }
  return targets;
}

Json FilterCountsJson(const v1::FilterCounts& counts) {
  return {{"not_pinned", counts.not_pinned()},
          {"not_allowed", counts.not_allowed()},
          {"excluded", counts.excluded()},
          {"draining", counts.draining()},
          {"overloaded", counts.overloaded()},
          {"taints", counts.taints()},
          {"no_lora_replica", counts.no_lora_replica()},
          {"ejected", counts.ejected()},
          {"other_role", counts.other_role()}};
}

Json OmittedJson(const v1::CandidateSummary& omitted) {
  return {{"count", omitted.count()},
          {"min_cost_blocks", omitted.min_cost_blocks()},
          {"max_cost_blocks", omitted.max_cost_blocks()},
          {"mean_cost_blocks", omitted.mean_cost_blocks()}};
}

Json WeightsJson(const v1::DecisionWeights& weights) {
  return {{"overlap_score_credit", weights.overlap_score_credit()},
          {"overlap_score_credit_decay", weights.overlap_score_credit_decay()},
          {"prefill_load_scale", weights.prefill_load_scale()},
          {"decode_active_request_weight", weights.decode_active_request_weight()},
          {"host_cache_hit_weight", weights.host_cache_hit_weight()},
          {"disk_cache_hit_weight", weights.disk_cache_hit_weight()},
          {"shared_cache_multiplier", weights.shared_cache_multiplier()},
          {"track_prefill_tokens", weights.track_prefill_tokens()},
          {"assume_kv_reuse", weights.assume_kv_reuse()},
          {"least_active_prefill_tokens", weights.least_active_prefill_tokens()}};
}

Json LegJson(const v1::Leg& leg) {
  Json json = {{"kind", EnumText(v1::LegKind_Name(leg.kind()), "LEG_KIND_")},
               {"request_id", leg.request_id()},
               {"kv_migration_source", leg.kv_migration_source()},
               {"fallback", EnumText(v1::LegFallback_Name(leg.fallback()), "LEG_FALLBACK_")}};
  if (leg.has_target()) {
    json["target"] = TargetJson(leg.target());
    json["incarnation"] = leg.incarnation();
    json["address"] = leg.address();
  }
  if (leg.has_max_tokens()) json["max_tokens"] = leg.max_tokens();
  if (leg.has_timeout_ms()) json["timeout_ms"] = leg.timeout_ms();
  return json;
}

void AddPlan(const v1::RouteResponse& r, Json* json) {
  (*json)["phase"] = EnumText(v1::Phase_Name(r.phase()), "PHASE_");
  if (r.has_session()) {
    (*json)["session"] = {{"key", r.session().key()},
                          {"source", r.session().source()},
                          {"outcome", r.session().outcome()},
                          {"derived_name", r.session().derived_name()}};
  }
  if (r.has_gate()) {
    (*json)["gate"] = {{"remote", r.gate().remote()},
                       {"rule", r.gate().rule()},
                       {"input_missing", r.gate().input_missing()},
                       {"text", r.gate().text()}};
  }
  if (!r.prefill_refused().empty()) (*json)["prefill_refused"] = r.prefill_refused();
  if (r.has_migration()) {
    Json migration = {{"outcome", r.migration().outcome()},
                      {"migrate", r.migration().migrate()},
                      {"migratable_tokens", r.migration().migratable_tokens()},
                      {"target_tokens", r.migration().target_tokens()},
                      {"text", r.migration().text()}};
    if (r.migration().has_source()) migration["source"] = TargetJson(r.migration().source());
    (*json)["migration"] = std::move(migration);
  }
  if (r.legs().empty()) return;
  Json legs = Json::array();
  for (const v1::Leg& leg : r.legs()) legs.push_back(LegJson(leg));
  (*json)["legs"] = std::move(legs);
  (*json)["lease_ms"] = r.lease_ms();
}

Json DecisionJson(const v1::RouteResponse& r) {
  Json candidates = Json::array();
  for (const v1::CandidateCost* c : CheapestFirst(r)) candidates.push_back(CandidateJson(*c));
  Json json = {{"request_id", r.request_id()},
               {"target", TargetJson(r.target())},
               {"incarnation", r.incarnation()},
               {"address", r.address()},
               {"plan", PlanText(r.plan())},
               {"reason", ReasonText(r.reason())},
               {"booked", r.booked()},
               {"overlap_blocks", r.overlap_blocks()},
               {"isl_blocks", r.isl_blocks()},
               {"isl_tokens", r.isl_tokens()},
               {"block_size_tokens", r.block_size_tokens()},
               {"effective_overlap_blocks", r.effective_overlap_blocks()},
               {"expected_engine_hit_tokens", r.expected_engine_hit_tokens()},
               {"candidate_count", r.candidate_count()},
               {"tie_size", r.tie_size()},
               {"temperature", r.temperature()},
               {"best_overlap_blocks", r.best_overlap_blocks()}};
  if (r.has_best_overlap_target())
    json["best_overlap_target"] = TargetJson(r.best_overlap_target());
  json["best_available_overlap_blocks"] = r.best_available_overlap_blocks();
  if (r.has_best_available_overlap_target())
    json["best_available_overlap_target"] = TargetJson(r.best_available_overlap_target());
  json["regret_blocks"] = r.regret_blocks();
  json["draw"] = r.draw();
  json["config_generation"] = r.config_generation();
  json["weights"] = WeightsJson(r.weights());
  json["filtered"] = FilterCountsJson(r.filtered());
  json["filtered_targets"] = FilteredJson(r);
  if (r.has_omitted()) json["omitted"] = OmittedJson(r.omitted());
  AddPlan(r, &json);
  json["candidates"] = std::move(candidates);
  return json;
}

}  // namespace

std::string RouteJson(const v1::RouteResponse& r) { return DecisionJson(r).dump(2) + "\n"; }

std::string ExplainJson(const v1::ExplainResponse& response) {
  const Json json = {{"age_seconds", response.age_seconds()},
                     {"live", response.live()},
                     {"decision", DecisionJson(response.decision())}};
  return json.dump(2) + "\n";
}

std::string OverlapText(const v1::OverlapScoresResponse& response) {
  if (response.overlaps().empty()) return "no worker holds any of it\n";
  Table table({"TARGET", "DEVICE_BLOCKS", "HOST", "DISK", "EXTERNAL"});
  for (const v1::TargetOverlap& overlap : response.overlaps()) {
    table.AddRow({TargetText(overlap.target()), std::to_string(overlap.device_blocks()),
                  std::to_string(overlap.host_blocks()), std::to_string(overlap.disk_blocks()),
                  std::to_string(overlap.external_blocks())});
  }
  return table.Text();
}

std::string OverlapJson(const v1::OverlapScoresResponse& response) {
  Json overlaps = Json::array();
  for (const v1::TargetOverlap& overlap : response.overlaps()) {
    overlaps.push_back({{"target", TargetJson(overlap.target())},
                        {"device_blocks", overlap.device_blocks()},
                        {"host_blocks", overlap.host_blocks()},
                        {"disk_blocks", overlap.disk_blocks()},
                        {"external_blocks", overlap.external_blocks()}});
  }
  return Json{{"overlaps", std::move(overlaps)}}.dump(2) + "\n";
}

std::string LoadsText(const v1::LoadsResponse& response) {
  if (response.partitions().empty()) return "no workers\n";
  std::string text;
  for (const v1::PartitionLoads& partition : response.partitions()) {
    text += fmt::format(
        "{}{} / {}: block size {}, {} bookings, index {} blocks in {} places ({} on lower "
        "tiers), {:.1f} MiB\n",
        text.empty() ? "" : "\n", partition.model_name(), partition.routing_group(),
        partition.block_size_tokens(), partition.bookings(), partition.index_unique_blocks(),
        partition.index_holder_blocks() + LowerTiersSum(partition.lower_tier_blocks()),
        LowerTiersSum(partition.lower_tier_blocks()),
        static_cast<double>(partition.index_bytes()) / 1048576.0);
    Table table({"TARGET", "STATE", "REQUESTS", "PREFILL_TOKENS", "DECODE_BLOCKS", "INDEX_BLOCKS",
                 "LOWER_TIERS"});
    for (const v1::TargetLoad& load : partition.targets()) {
      table.AddRow({TargetText(load.target()), load.draining() ? "draining" : "active",
                    std::to_string(load.active_requests()),
                    std::to_string(load.active_prefill_tokens()),
                    Number(load.active_decode_blocks()), std::to_string(load.index_blocks()),
                    std::to_string(LowerTiersSum(load.lower_tier_blocks()))});
    }
    text += table.Text();
  }
  return text;
}

std::string LoadsJson(const v1::LoadsResponse& response) {
  Json partitions = Json::array();
  for (const v1::PartitionLoads& partition : response.partitions()) {
    Json targets = Json::array();
    for (const v1::TargetLoad& load : partition.targets()) targets.push_back(LoadJson(load));
    partitions.push_back({{"model_name", partition.model_name()},
                          {"routing_group", partition.routing_group()},
                          {"block_size_tokens", partition.block_size_tokens()},
                          {"bookings", partition.bookings()},
                          {"index_unique_blocks", partition.index_unique_blocks()},
                          {"index_holder_blocks", partition.index_holder_blocks()},
                          {"lower_tier_blocks", LowerTiersJson(partition.lower_tier_blocks())},
                          {"index_bytes", partition.index_bytes()},
                          {"targets", std::move(targets)}});
  }
  return Json{{"partitions", std::move(partitions)}}.dump(2) + "\n";
}

}  // namespace kvrouter::ctl
