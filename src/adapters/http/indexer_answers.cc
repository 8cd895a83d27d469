#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <string>

#include "adapters/http/indexer_api.h"

namespace kvrouter {
namespace {

using Json = nlohmann::ordered_json;

std::string Text(const Json& json) {
  return json.dump(-1, ' ', false, Json::error_handler_t::replace);
}

Json Listener(const InstanceListener& listener) {
  Json json = {{"endpoint", listener.endpoint}, {"status", ListenerStatusName(listener.status)}};
  if (!listener.last_error.empty()) json["last_error"] = listener.last_error;
  return json;
}

// Upstream knows sockets only; a rank whose events come otherwise has no endpoint to show.
bool HasSocket(const Instance& instance) {
  return std::any_of(instance.listeners.begin(), instance.listeners.end(),
                     [](const InstanceListener& one) { return !one.endpoint.empty(); });
}

}  // namespace

std::string InstancesJson(std::span<const Instance> instances) {
  Json list = Json::array();
  for (const Instance& instance : instances) {
    Json endpoints = Json::object();
    Json listeners = Json::object();
    for (const InstanceListener& listener : instance.listeners) {
      const std::string rank = std::to_string(listener.dp_rank);
      if (!listener.endpoint.empty()) endpoints[rank] = listener.endpoint;
      listeners[rank] = Listener(listener);
    }
    list.push_back({{"instance_id", static_cast<uint64_t>(instance.spec.id)},
                    {"source", HasSocket(instance) ? "zmq" : "stream"},
                    {"status", ListenerStatusName(instance.status)},
                    {"model_name", instance.spec.model_name},
                    {"routing_group", instance.spec.routing_group},
                    {"block_size", instance.spec.block_size_tokens},
                    {"endpoints", std::move(endpoints)},
                    {"listeners", std::move(listeners)}});
  }
  return Text(list);
}

std::string ScoresJson(uint32_t block_size_tokens, std::span<const TargetOverlap> overlaps) {
  // Of an instance, the most that one of its ranks holds; cumulative over the tiers.
  struct Tokens {
    uint64_t gpu = 0, cpu = 0, disk = 0;
  };
  std::map<uint64_t, Tokens> most;
  Json ranks = Json::object();  // device, by instance and rank
  for (const TargetOverlap& overlap : overlaps) {
    const uint64_t host = uint64_t{overlap.device_blocks} + overlap.host_blocks;
    const uint64_t disk = host + overlap.disk_blocks + overlap.external_blocks;
    Tokens& tokens = most[static_cast<uint64_t>(overlap.target.worker)];
    tokens.gpu = std::max(tokens.gpu, uint64_t{overlap.device_blocks} * block_size_tokens);
    tokens.cpu = std::max(tokens.cpu, host * block_size_tokens);
    tokens.disk = std::max(tokens.disk, disk * block_size_tokens);
    if (overlap.device_blocks == 0) continue;
    ranks[std::to_string(static_cast<uint64_t>(overlap.target.worker))]
         [std::to_string(overlap.target.dp_rank)] =
             uint64_t{overlap.device_blocks} * block_size_tokens;
  }
  Json instances = Json::object();
  for (const auto& [instance, tokens] : most) {
    const std::string name = std::to_string(instance);
    instances[name] = {{"longest_matched", tokens.disk},
                       {"gpu", tokens.gpu},
                       {"dp", ranks.value(name, Json::object())},
                       {"cpu", tokens.cpu},
                       {"disk", tokens.disk}};
  }
  return Text({{"scores", std::move(ranks)},
               {"frequencies", Json::array()},  // always empty upstream, too
               {"instances", std::move(instances)}});
}

}  // namespace kvrouter
