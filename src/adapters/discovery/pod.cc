#include "adapters/discovery/pod.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <limits>
#include <map>
#include <nlohmann/json.hpp>
#include <string_view>
#include <system_error>
#include <utility>

#include "adapters/discovery/pod_worker_id.h"
#include "adapters/discovery/worker_sources.h"
#include "base/status_macros.h"

namespace kvrouter {
namespace {

using Json = nlohmann::json;

constexpr std::string_view kPrefix = "kvrouter.io/";
// Parity: the operator's names for what a pod of a disaggregated fleet does.
constexpr std::string_view kDynamoRoles[] = {"nvidia.com/dynamo-sub-component-type",
                                             "nvidia.com/dynamo-component-type"};
constexpr uint32_t kDefaultHttpPort = 8000;
constexpr uint32_t kDefaultEventsPort = 5557;  // vLLM's own
constexpr std::string_view kNoPort = "none";

// ---- JSON that may lack anything ----

const Json& Member(const Json& object, const char* name) {
  static const Json* const null = new Json;
  if (!object.is_object()) return *null;
  const auto it = object.find(name);
  return it == object.end() ? *null : *it;
}

std::string TextOf(const Json& value) {
  return value.is_string() ? value.get<std::string>() : std::string();
}

uint64_t WholeOf(const Json& value) {
  if (value.is_number_unsigned()) return value.get<uint64_t>();
  return value.is_number_integer()
             ? static_cast<uint64_t>(std::max<int64_t>(0, value.get<int64_t>()))
             : 0;
}

// ---- What a pod says of itself ----

struct Settings {
  std::map<std::string, std::string> by_name;  // without the prefix
  std::string dynamo_role;
  const std::string* Find(std::string_view name) const {
    const auto it = by_name.find(std::string(name));
    return it == by_name.end() ? nullptr : &it->second;
  }
};

void Collect(const Json& map, Settings* out) {
  if (!map.is_object()) return;
  for (const auto& [key, value] : map.items()) {
    if (value.is_string() && std::string_view(key).starts_with(kPrefix))
      out->by_name[key.substr(kPrefix.size())] = value.get<std::string>();
  }
}

Settings SettingsOf(const Json& metadata) {
  Settings settings;
  const Json& labels = Member(metadata, "labels");
  Collect(labels, &settings);
  Collect(Member(metadata, "annotations"), &settings);
  for (const std::string_view label : kDynamoRoles) {
    const std::string role = TextOf(Member(labels, std::string(label).c_str()));
    if (settings.dynamo_role.empty() && (role == "prefill" || role == "decode"))
      settings.dynamo_role = role;
  }
  return settings;
}

absl::Status Bad(std::string_view name, std::string_view value, std::string_view want) {
  return absl::InvalidArgumentError(
      fmt::format("{}{}: bad value '{}': want {}", kPrefix, name, value, want));
}

template <typename Number>
absl::Status ReadWhole(const Settings& settings, std::string_view name, Number* out) {
  const std::string* text = settings.Find(name);
  if (text == nullptr) return absl::OkStatus();
  uint64_t max = std::numeric_limits<uint64_t>::max();  // also of an id
  if constexpr (!std::is_enum_v<Number>) max = std::numeric_limits<Number>::max();
  uint64_t value = 0;
  const auto [end, error] = std::from_chars(text->data(), text->data() + text->size(), value);
  if (error != std::errc() || end != text->data() + text->size() || value > max)
    return Bad(name, *text, fmt::format("a whole number in 0..{}", max));
  *out = static_cast<Number>(value);
  return absl::OkStatus();
}

absl::Status ReadYesNo(const Settings& settings, std::string_view name, bool* out) {
  const std::string* text = settings.Find(name);
  if (text == nullptr) return absl::OkStatus();
  if (*text != "true" && *text != "false") return Bad(name, *text, "true or false");
  *out = *text == "true";
  return absl::OkStatus();
}

void ReadText(const Settings& settings, std::string_view name, std::string* out) {
  if (const std::string* text = settings.Find(name)) *out = *text;
}

absl::Status ReadRole(const Settings& settings, WorkerRole* out) {
  const std::string* own = settings.Find("role");
  const std::string role = own != nullptr ? *own : settings.dynamo_role;
  if (role.empty()) return absl::OkStatus();
  const std::optional<WorkerRole> named = WorkerRoleOf(role);
  if (!named) return Bad("role", role, kWorkerRolesWanted);
  *out = *named;
  return absl::OkStatus();
}

// Ports of all containers by name; the first of a name wins.
std::map<std::string, uint32_t> NamedPorts(const Json& spec) {
  std::map<std::string, uint32_t> ports;
  for (const Json& container : Member(spec, "containers")) {
    for (const Json& port : Member(container, "ports")) {
      ports.emplace(TextOf(Member(port, "name")),
                    static_cast<uint32_t>(WholeOf(Member(port, "containerPort")) & 0xFFFF));
    }
  }
  return ports;
}

struct PortRule {
  std::string_view setting;
  std::string_view container_port;  // taken when the setting is absent
  uint32_t otherwise;               // when there is neither; 0: none
};
constexpr PortRule kHttp = {"port", "http", kDefaultHttpPort};
constexpr PortRule kEvents = {"events-port", "kv-events", kDefaultEventsPort};
constexpr PortRule kReplay = {"replay-port", "kv-replay", 0};

// 0: none.
absl::StatusOr<uint32_t> ReadPort(const Settings& settings,
                                  const std::map<std::string, uint32_t>& named,
                                  const PortRule& rule) {
  const std::string* text = settings.Find(rule.setting);
  if (text == nullptr) {
    const auto it = named.find(std::string(rule.container_port));
    return it == named.end() ? rule.otherwise : it->second;
  }
  if (*text == kNoPort && rule.setting != kHttp.setting) return 0;
  if (const auto it = named.find(*text); it != named.end()) return it->second;
  uint16_t port = 0;
  const auto [end, error] = std::from_chars(text->data(), text->data() + text->size(), port);
  if (error != std::errc() || end != text->data() + text->size() || port == 0)
    return Bad(rule.setting, *text, "a port, or the name of a container's port");
  return port;
}

// Words separated by commas.
void ReadList(const Settings& settings, const char* name, std::vector<std::string>* out) {
  std::string text;
  ReadText(settings, name, &text);
  for (size_t from = 0; from < text.size();) {
    const size_t comma = std::min(text.find(',', from), text.size());
    if (comma > from) out->push_back(text.substr(from, comma - from));
    from = comma + 1;
  }
}

// Where the pod is, and whom its blocks may reach. A label that a transfer domain needs is here, so
// that the pod is refused by name and not with the whole set.
absl::Status ReadTopology(const Settings& settings, WorkerTopology* out) {
  std::vector<std::string> pairs;
  ReadList(settings, "topology-domains", &pairs);
  for (const std::string& pair : pairs) {
    const size_t equals = pair.find('=');
    if (equals == std::string::npos || equals == 0 || equals + 1 == pair.size())
      return Bad("topology-domains", pair, "domain=label pairs, separated by commas");
    out->topology_domains[pair.substr(0, equals)] = pair.substr(equals + 1);
  }
  ReadText(settings, "kv-transfer-domain", &out->kv_transfer_domain);
  ReadText(settings, "kv-transfer-enforcement", &out->kv_transfer_enforcement);
  if (const std::string* text = settings.Find("kv-transfer-preferred-weight")) {
    double weight = 0;
    const auto [end, error] = std::from_chars(text->data(), text->data() + text->size(), weight);
    if (error != std::errc() || end != text->data() + text->size() || !std::isfinite(weight))
      return Bad("kv-transfer-preferred-weight", *text, "a finite number");
    out->kv_transfer_preferred_weight = weight;
  }
  if (out->kv_transfer_domain.empty()) return absl::OkStatus();
  if (!out->topology_domains.contains(out->kv_transfer_domain))
    return Bad("kv-transfer-domain", out->kv_transfer_domain, "one of topology-domains");
  if (out->kv_transfer_enforcement == "required") return absl::OkStatus();
  if (out->kv_transfer_enforcement != "preferred")
    return Bad("kv-transfer-enforcement", out->kv_transfer_enforcement, "required or preferred");
  if (!out->kv_transfer_preferred_weight)
    return Bad("kv-transfer-enforcement", "preferred", "kv-transfer-preferred-weight besides");
  return absl::OkStatus();
}

absl::Status AddEndpoints(std::string_view host, uint32_t base_port,
                          std::string EventEndpoints::*field, WorkerSpec* spec) {
  if (base_port == 0) return absl::OkStatus();
  for (uint32_t i = 0; i < spec->dp_size; ++i) {
    const uint32_t rank = spec->dp_start_rank + i;
    if (uint64_t{base_port} + rank > 65535) {
      return absl::InvalidArgumentError(
          fmt::format("port {} plus rank {} is over 65535", base_port, rank));
    }
    spec->events[rank].*field = fmt::format("tcp://{}:{}", host, base_port + rank);
  }
  return absl::OkStatus();
}

absl::StatusOr<WorkerSpec> ReadSpec(const std::string& pod_name, const std::string& ip,
                                    const Settings& settings, const Json& pod_spec,
                                    const PodDefaults& defaults) {
  WorkerSpec spec;
  spec.id = PodWorkerId(pod_name);
  spec.block_size_tokens = defaults.block_size_tokens;
  KVR_RETURN_IF_ERROR(ReadWhole(settings, "worker-id", &spec.id));
  KVR_RETURN_IF_ERROR(ReadWhole(settings, "block-size", &spec.block_size_tokens));
  KVR_RETURN_IF_ERROR(ReadWhole(settings, "dp-size", &spec.dp_size));
  KVR_RETURN_IF_ERROR(ReadWhole(settings, "dp-start-rank", &spec.dp_start_rank));
  KVR_RETURN_IF_ERROR(ReadWhole(settings, "total-kv-blocks", &spec.total_kv_blocks));
  KVR_RETURN_IF_ERROR(ReadWhole(settings, "max-num-batched-tokens", &spec.max_num_batched_tokens));
  KVR_RETURN_IF_ERROR(ReadYesNo(settings, "is-eagle", &spec.is_eagle));
  if (settings.Find("image-token-id") != nullptr) {
    KVR_RETURN_IF_ERROR(ReadWhole(settings, "image-token-id", &spec.image_token_id.emplace()));
  }
  KVR_RETURN_IF_ERROR(ReadRole(settings, &spec.role));
  ReadList(settings, "taints", &spec.taints);
  KVR_RETURN_IF_ERROR(ReadTopology(settings, &spec.topology));
  if (settings.Find("lora-adapters") != nullptr) {
    ReadList(settings, "lora-adapters", &spec.lora_adapters.emplace());
  }
  ReadText(settings, "model", &spec.model_name);
  ReadText(settings, "routing-group", &spec.routing_group);
  std::string scheme = "http";
  ReadText(settings, "scheme", &scheme);
  if (scheme != "http" && scheme != "https") return Bad("scheme", scheme, "http or https");
  if (spec.block_size_tokens == 0 && !defaults.may_be_learned) {
    return absl::InvalidArgumentError(fmt::format(
        "no block size: give {}block-size, kv_cache_block_size or introspect_workers", kPrefix));
  }
  const auto named = NamedPorts(pod_spec);
  KVR_ASSIGN_OR_RETURN(const uint32_t http, ReadPort(settings, named, kHttp));
  KVR_ASSIGN_OR_RETURN(const uint32_t events, ReadPort(settings, named, kEvents));
  KVR_ASSIGN_OR_RETURN(const uint32_t replay, ReadPort(settings, named, kReplay));
  const std::string host = ip.find(':') == std::string::npos ? ip : "[" + ip + "]";
  spec.address = fmt::format("{}://{}:{}", scheme, host, http);
  // Before anything loops over its ranks.
  KVR_RETURN_IF_ERROR(ValidateDeclared(spec, defaults.may_be_learned));
  KVR_RETURN_IF_ERROR(AddEndpoints(host, events, &EventEndpoints::live, &spec));
  if (events != 0) KVR_RETURN_IF_ERROR(AddEndpoints(host, replay, &EventEndpoints::replay, &spec));
  KVR_RETURN_IF_ERROR(ValidateDeclared(spec, defaults.may_be_learned));
  return spec;
}

// ---- Which process this is ----

bool DeclaresPort(const Json& container, uint32_t port) {
  for (const Json& entry : Member(container, "ports")) {
    if (WholeOf(Member(entry, "containerPort")) == port) return true;
  }
  return false;
}

// The named one, else the one that declares the HTTP port, else the first: a restart of some
// side-car must not void what the engine has cached.
std::string EngineContainer(const Settings& settings, const Json& pod_spec) {
  if (const std::string* name = settings.Find("container")) return *name;
  const Json& containers = Member(pod_spec, "containers");
  const auto port = ReadPort(settings, NamedPorts(pod_spec), kHttp);
  for (const Json& container : containers) {
    if (port.ok() && DeclaresPort(container, *port)) return TextOf(Member(container, "name"));
  }
  return containers.is_array() && !containers.empty() ? TextOf(Member(containers.front(), "name"))
                                                      : std::string();
}

uint64_t Restarts(const Json& status, const std::string& container) {
  for (const Json& entry : Member(status, "containerStatuses")) {
    if (TextOf(Member(entry, "name")) == container) return WholeOf(Member(entry, "restartCount"));
  }
  return 0;
}

bool IsReady(const Json& status) {
  for (const Json& condition : Member(status, "conditions")) {
    if (TextOf(Member(condition, "type")) == "Ready")
      return TextOf(Member(condition, "status")) == "True";
  }
  return false;
}

}  // namespace

absl::StatusOr<Pod> ReadPod(const Json& object, const PodDefaults& defaults) {
  const Json& metadata = Member(object, "metadata");
  const Json& pod_spec = Member(object, "spec");
  const Json& status = Member(object, "status");
  Pod pod;
  pod.name = TextOf(Member(metadata, "name"));
  pod.uid = TextOf(Member(metadata, "uid"));
  if (pod.name.empty() || pod.uid.empty())
    return absl::InvalidArgumentError("a pod without a name or a uid");
  pod.ready = IsReady(status);
  pod.terminating = !TextOf(Member(metadata, "deletionTimestamp")).empty();
  const Settings settings = SettingsOf(metadata);
  pod.life = fmt::format("{}/{}", pod.uid, Restarts(status, EngineContainer(settings, pod_spec)));
  const std::string phase = TextOf(Member(status, "phase"));
  const std::string ip = TextOf(Member(status, "podIP"));
  pod.has_address = !ip.empty() && phase != "Succeeded" && phase != "Failed";
  if (pod.has_address) pod.spec = ReadSpec(pod.name, ip, settings, pod_spec, defaults);
  return pod;
}

absl::StatusOr<EndpointSlice> ReadEndpointSlice(const Json& object) {
  EndpointSlice slice;
  slice.name = TextOf(Member(Member(object, "metadata"), "name"));
  if (slice.name.empty()) return absl::InvalidArgumentError("an EndpointSlice without a name");
  for (const Json& entry : Member(object, "endpoints")) {
    const Json& target = Member(entry, "targetRef");
    if (TextOf(Member(target, "kind")) != "Pod") continue;
    const Json& conditions = Member(entry, "conditions");
    const Json& ready = Member(conditions, "ready");
    const Json& terminating = Member(conditions, "terminating");
    slice.endpoints.push_back(
        {.pod_name = TextOf(Member(target, "name")),
         .pod_uid = TextOf(Member(target, "uid")),
         .ready = !ready.is_boolean() || ready.get<bool>(),  // absent means ready, by the API
         .terminating = terminating.is_boolean() && terminating.get<bool>()});
  }
  return slice;
}

}  // namespace kvrouter
