#include "daemon/worker_yaml.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <limits>
#include <map>
#include <set>
#include <system_error>
#include <type_traits>
#include <utility>

#include "absl/status/status.h"
#include "base/status_macros.h"
#include "daemon/option_text.h"
#include "daemon/yaml_values.h"

namespace kvrouter {
namespace {

absl::StatusOr<WorkerRole> ParseRole(const YAML::Node& node, const Place& place) {
  const std::string text = node.IsScalar() ? node.Scalar() : "";
  if (const auto role = WorkerRoleOf(text)) return *role;
  return place.Error(fmt::format("role: bad value '{}': want {}", text, kWorkerRolesWanted));
}

absl::StatusOr<KvRole> ParseKvRole(const YAML::Node& node, const Place& place) {
  const std::string text = node.IsScalar() ? node.Scalar() : "";
  if (const auto role = KvRoleOf(text)) return *role;
  return place.Error(fmt::format("kv_role: bad value '{}': want {}", text, kKvRolesWanted));
}

// Endpoints of one kind: either one base for all ranks or a map by rank.
struct EndpointKeys {
  const char* base;
  const char* by_rank;
  std::string EventEndpoints::*field;
};
constexpr std::array<EndpointKeys, 2> kEndpointKeys = {
    EndpointKeys{"kv_events_endpoint", "kv_events_endpoints", &EventEndpoints::live},
    EndpointKeys{"replay_endpoint", "replay_endpoints", &EventEndpoints::replay}};

absl::Status ParseEndpoints(const YAML::Node& worker, const EndpointKeys& keys, const Place& place,
                            WorkerSpec* spec) {
  const YAML::Node base = worker[keys.base];
  const YAML::Node by_rank = worker[keys.by_rank];
  if (base && by_rank)
    return place.Error(fmt::format("{} and {} exclude each other", keys.base, keys.by_rank));
  if (base) {
    KVR_ASSIGN_OR_RETURN(const std::string endpoint, ParseText(base, keys.base, place));
    // Ranks beyond the limit are refused when the worker is checked; do not loop over them.
    const uint32_t dp_size = std::min(spec->dp_size, kMaxDpSize);
    for (uint32_t i = 0; i < dp_size && !endpoint.empty(); ++i) {
      const uint32_t rank = spec->dp_start_rank + i;
      absl::StatusOr<std::string> ranked = EndpointForRank(endpoint, rank);
      if (!ranked.ok())
        return place.Error(
            fmt::format("{}: {}", keys.base, std::string(ranked.status().message())));
      spec->events[rank].*keys.field = *std::move(ranked);
    }
  }
  if (by_rank) {
    if (!by_rank.IsMap())
      return place.Error(fmt::format("{}: want a map from rank to endpoint", keys.by_rank));
    for (const auto& entry : by_rank) {
      const Place here{place.file, LineOf(entry.first)};
      KVR_ASSIGN_OR_RETURN(
          const uint64_t rank,
          ParseWhole(entry.first, keys.by_rank, std::numeric_limits<uint32_t>::max(), here));
      KVR_ASSIGN_OR_RETURN(std::string endpoint, ParseText(entry.second, keys.by_rank, here));
      spec->events[static_cast<uint32_t>(rank)].*keys.field = std::move(endpoint);
    }
  }
  return absl::OkStatus();
}

absl::StatusOr<std::vector<std::string>> ParseTexts(const YAML::Node& list, std::string_view key,
                                                    const std::string& file) {
  if (!list.IsSequence())
    return Place{file, LineOf(list)}.Error(fmt::format("{}: want a list", key));
  std::vector<std::string> texts;
  for (const YAML::Node& item : list) {
    KVR_ASSIGN_OR_RETURN(texts.emplace_back(), ParseText(item, key, Place{file, LineOf(item)}));
  }
  return texts;
}

// What requests may want of the worker.
absl::Status ParseLabels(const YAML::Node& worker, const std::string& file, WorkerSpec* spec) {
  if (const YAML::Node taints = worker["taints"]) {
    KVR_ASSIGN_OR_RETURN(spec->taints, ParseTexts(taints, "taints", file));
  }
  if (const YAML::Node adapters = worker["lora_adapters"]) {
    KVR_ASSIGN_OR_RETURN(spec->lora_adapters, ParseTexts(adapters, "lora_adapters", file));
  }
  if (const YAML::Node domains = worker["topology_domains"]) {
    const Place place{file, LineOf(domains)};
    if (!domains.IsMap()) return place.Error("topology_domains: want a map from domain to label");
    for (const auto& entry : domains) {
      KVR_ASSIGN_OR_RETURN(const std::string domain,
                           ParseText(entry.first, "topology_domains", place));
      KVR_ASSIGN_OR_RETURN(spec->topology.topology_domains[domain],
                           ParseText(entry.second, "topology_domains", place));
    }
  }
  if (const YAML::Node weight = worker["kv_transfer_preferred_weight"]) {
    const std::string text = weight.IsScalar() ? weight.Scalar() : "";
    double value = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
    if (error != std::errc() || end != text.data() + text.size()) {
      return Place{file, LineOf(weight)}.Error(
          fmt::format("kv_transfer_preferred_weight: bad value '{}': want a number", text));
    }
    spec->topology.kv_transfer_preferred_weight = value;
  }
  return absl::OkStatus();
}

std::string LabelsYaml(const WorkerSpec& spec) {
  const auto list = [](std::string_view key, const std::vector<std::string>& texts) {
    std::string out = fmt::format("    {}: [", key);
    for (size_t i = 0; i < texts.size(); ++i) {
      out += fmt::format("{}{}", i == 0 ? "" : ", ", YamlScalar(texts[i]));
    }
    return out + "]\n";
  };
  std::string out;
  if (!spec.taints.empty()) out += list("taints", spec.taints);
  if (spec.lora_adapters) out += list("lora_adapters", *spec.lora_adapters);
  const WorkerTopology& topology = spec.topology;
  if (!topology.topology_domains.empty()) out += "    topology_domains:\n";
  for (const auto& [domain, label] : topology.topology_domains) {
    out += fmt::format("      {}: {}\n", YamlScalar(domain), YamlScalar(label));
  }
  if (!topology.kv_transfer_domain.empty()) {
    out += fmt::format("    kv_transfer_domain: {}\n    kv_transfer_enforcement: {}\n",
                       YamlScalar(topology.kv_transfer_domain),
                       YamlScalar(topology.kv_transfer_enforcement));
  }
  if (topology.kv_transfer_preferred_weight) {
    out += fmt::format("    kv_transfer_preferred_weight: {}\n",
                       *topology.kv_transfer_preferred_weight);
  }
  return out;
}

const std::vector<std::string>& WorkerKeys() {
  static const auto* const keys = new std::vector<std::string>{"worker_id",
                                                               "address",
                                                               "block_size",
                                                               "model_name",
                                                               "routing_group",
                                                               "dp_start_rank",
                                                               "dp_size",
                                                               "role",
                                                               "kv_role",
                                                               "engine_version",
                                                               "total_kv_blocks",
                                                               "max_num_batched_tokens",
                                                               "is_eagle",
                                                               "image_token_id",
                                                               "taints",
                                                               "topology_domains",
                                                               "kv_transfer_domain",
                                                               "kv_transfer_enforcement",
                                                               "kv_transfer_preferred_weight",
                                                               "lora_adapters",
                                                               "kv_events_endpoint",
                                                               "kv_events_endpoints",
                                                               "replay_endpoint",
                                                               "replay_endpoints"};
  return *keys;
}

absl::Status CheckKeys(const YAML::Node& worker, const std::string& file) {
  std::set<std::string> seen;
  for (const auto& entry : worker) {
    const Place place{file, LineOf(entry.first)};
    KVR_ASSIGN_OR_RETURN(const std::string key, ParseText(entry.first, "workers", place));
    if (!seen.insert(key).second) return place.Error(fmt::format("{} is given twice", key));
    const auto& known = WorkerKeys();
    if (std::find(known.begin(), known.end(), key) != known.end()) continue;
    return place.Error(
        fmt::format("unknown key '{}' of a worker{}", key, Suggestion("", key, known)));
  }
  return absl::OkStatus();
}

absl::StatusOr<WorkerSpec> ParseWorker(const YAML::Node& node, const std::string& file) {
  const Place place{file, LineOf(node)};
  if (!node.IsMap()) return place.Error("a worker must be a map");
  KVR_RETURN_IF_ERROR(CheckKeys(node, file));
  WorkerSpec spec;
  if (!node["worker_id"]) return place.Error("a worker needs worker_id");
  constexpr uint64_t kMaxU32 = std::numeric_limits<uint32_t>::max();
  constexpr uint64_t kMaxU64 = std::numeric_limits<uint64_t>::max();
  const auto whole = [&](const char* key, uint64_t max, auto* out) -> absl::Status {
    if (!node[key]) return absl::OkStatus();
    KVR_ASSIGN_OR_RETURN(const uint64_t value,
                         ParseWhole(node[key], key, max, Place{file, LineOf(node[key])}));
    *out = static_cast<std::remove_pointer_t<decltype(out)>>(value);
    return absl::OkStatus();
  };
  const auto text = [&](const char* key, std::string* out) -> absl::Status {
    if (!node[key]) return absl::OkStatus();
    KVR_ASSIGN_OR_RETURN(*out, ParseText(node[key], key, Place{file, LineOf(node[key])}));
    return absl::OkStatus();
  };
  KVR_RETURN_IF_ERROR(whole("worker_id", kMaxU64, &spec.id));
  KVR_RETURN_IF_ERROR(whole("block_size", kMaxU32, &spec.block_size_tokens));
  KVR_RETURN_IF_ERROR(whole("dp_start_rank", kMaxU32, &spec.dp_start_rank));
  KVR_RETURN_IF_ERROR(whole("dp_size", kMaxU32, &spec.dp_size));
  KVR_RETURN_IF_ERROR(whole("total_kv_blocks", kMaxU64, &spec.total_kv_blocks));
  KVR_RETURN_IF_ERROR(whole("max_num_batched_tokens", kMaxU64, &spec.max_num_batched_tokens));
  if (node["image_token_id"])
    KVR_RETURN_IF_ERROR(whole("image_token_id", kMaxU32, &spec.image_token_id.emplace()));
  if (node["is_eagle"]) {
    KVR_ASSIGN_OR_RETURN(spec.is_eagle, ParseFlag(node["is_eagle"], "is_eagle",
                                                  Place{file, LineOf(node["is_eagle"])}));
  }
  KVR_RETURN_IF_ERROR(text("address", &spec.address));
  KVR_RETURN_IF_ERROR(text("model_name", &spec.model_name));
  KVR_RETURN_IF_ERROR(text("routing_group", &spec.routing_group));
  if (node["role"]) {
    KVR_ASSIGN_OR_RETURN(spec.role, ParseRole(node["role"], Place{file, LineOf(node["role"])}));
  }
  KVR_RETURN_IF_ERROR(text("kv_transfer_domain", &spec.topology.kv_transfer_domain));
  KVR_RETURN_IF_ERROR(text("kv_transfer_enforcement", &spec.topology.kv_transfer_enforcement));
  KVR_RETURN_IF_ERROR(ParseLabels(node, file, &spec));
  if (node["kv_role"]) {
    KVR_ASSIGN_OR_RETURN(spec.kv_role,
                         ParseKvRole(node["kv_role"], Place{file, LineOf(node["kv_role"])}));
  }
  KVR_RETURN_IF_ERROR(text("engine_version", &spec.engine_version));
  for (const EndpointKeys& keys : kEndpointKeys)
    KVR_RETURN_IF_ERROR(ParseEndpoints(node, keys, place, &spec));
  return spec;
}

}  // namespace

absl::StatusOr<std::vector<WorkerSpec>> ParseWorkers(const YAML::Node& list,
                                                     const std::string& file) {
  std::vector<WorkerSpec> workers;
  if (list.IsNull()) return workers;
  if (!list.IsSequence()) return Place{file, LineOf(list)}.Error("workers must be a list");
  std::set<WorkerId> seen;
  for (const YAML::Node& node : list) {
    KVR_ASSIGN_OR_RETURN(WorkerSpec spec, ParseWorker(node, file));
    if (!seen.insert(spec.id).second) {
      return Place{file, LineOf(node)}.Error(
          fmt::format("worker_id {} is given twice", static_cast<uint64_t>(spec.id)));
    }
    workers.push_back(std::move(spec));
  }
  return workers;
}

absl::StatusOr<std::string> EndpointForRank(std::string_view base_endpoint, uint32_t dp_rank) {
  if (dp_rank == 0) return std::string(base_endpoint);
  const size_t colon = base_endpoint.rfind(':');
  uint32_t port = 0;
  const bool tcp = base_endpoint.starts_with("tcp://");
  const char* const text_end = base_endpoint.data() + base_endpoint.size();
  const auto [end, error] = tcp ? std::from_chars(base_endpoint.data() + colon + 1, text_end, port)
                                : std::from_chars_result{text_end, std::errc()};
  if (!tcp || error != std::errc() || end != text_end) {
    return absl::InvalidArgumentError(fmt::format(
        "'{}' gives no address for rank {}: want tcp://HOST:PORT, or one endpoint per rank",
        base_endpoint, dp_rank));
  }
  if (uint64_t{port} + dp_rank > 65535) {
    return absl::InvalidArgumentError(
        fmt::format("port {} of '{}' plus rank {} is over 65535", port, base_endpoint, dp_rank));
  }
  return fmt::format("{}{}", base_endpoint.substr(0, colon + 1), port + dp_rank);
}

std::string WorkersYaml(const std::vector<WorkerSpec>& workers) {
  if (workers.empty()) return "workers: []\n";
  std::string out = "workers:\n";
  for (const WorkerSpec& spec : workers) {
    out += fmt::format("  - worker_id: {}\n", static_cast<uint64_t>(spec.id));
    out += fmt::format("    model_name: {}\n    routing_group: {}\n    address: {}\n",
                       YamlScalar(spec.model_name), YamlScalar(spec.routing_group),
                       YamlScalar(spec.address));
    out += fmt::format("    block_size: {}\n    dp_start_rank: {}\n    dp_size: {}\n    role: {}\n",
                       spec.block_size_tokens, spec.dp_start_rank, spec.dp_size,
                       WorkerRoleName(spec.role));
    out += fmt::format("    total_kv_blocks: {}\n    max_num_batched_tokens: {}\n",
                       spec.total_kv_blocks, spec.max_num_batched_tokens);
    out += fmt::format("    is_eagle: {}\n", spec.is_eagle);
    if (spec.image_token_id) out += fmt::format("    image_token_id: {}\n", *spec.image_token_id);
    out += LabelsYaml(spec);
    if (spec.kv_role != KvRole::kNone)
      out += fmt::format("    kv_role: {}\n", KvRoleName(spec.kv_role));
    if (!spec.engine_version.empty())
      out += fmt::format("    engine_version: {}\n", YamlScalar(spec.engine_version));
    for (const EndpointKeys& keys : kEndpointKeys) {
      std::string entries;
      for (const auto& [rank, endpoints] : spec.events) {
        if (!(endpoints.*keys.field).empty())
          entries += fmt::format("      {}: {}\n", rank, YamlScalar(endpoints.*keys.field));
      }
      if (!entries.empty()) out += fmt::format("    {}:\n{}", keys.by_rank, entries);
    }
  }
  return out;
}

}  // namespace kvrouter
