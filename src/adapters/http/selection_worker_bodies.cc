#include <fmt/format.h>

#include <charconv>
#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>
#include <set>
#include <string_view>
#include <utility>

#include "adapters/http/selection_bodies.h"
#include "base/status_macros.h"
#include "kvrouter/error.h"

namespace kvrouter {
namespace {

using Json = nlohmann::json;

absl::Status BadShape(std::string_view name, std::string_view what) {
  const std::string message = fmt::format("{}: {}", name, what);
  return absl::OutOfRangeError(message);
}

absl::Status Invalid(std::string_view message) {
  return MakeError(absl::StatusCode::kInvalidArgument, ErrorReason::kInvalidRequest, message);
}

// Small documents: read whole, nested at most kMaxDepth deep, names of the object unique.
absl::StatusOr<Json> ReadSmallObject(std::string_view body) {
  constexpr int kMaxDepth = 64;
  if (body.size() > kMaxWorkerBodyBytes) {
    return MakeError(absl::StatusCode::kResourceExhausted, ErrorReason::kTooLarge,
                     fmt::format("body of {} bytes, limit {}", body.size(), kMaxWorkerBodyBytes));
  }
  // The library takes a NUL for the end of the text; in JSON it has no place.
  if (body.find('\0') != std::string_view::npos)
    return absl::InvalidArgumentError("not valid JSON: a NUL byte");
  std::set<std::string> names;
  std::string twice;
  bool deep = false;
  Json read = Json::parse(
      body,
      [&](int depth, Json::parse_event_t event, Json& parsed) {
        if (depth >= kMaxDepth) deep = true;
        if (event == Json::parse_event_t::key && depth == 1 &&
            !names.insert(parsed.get<std::string>()).second)
          twice = parsed.get<std::string>();
        return !deep;
      },
      /*allow_exceptions=*/false);
  if (deep) return absl::InvalidArgumentError("not valid JSON: nested too deeply");
  if (read.is_discarded()) return absl::InvalidArgumentError("not valid JSON");
  if (!read.is_object()) return BadShape("body", "must be an object");
  if (!twice.empty()) return BadShape(twice, "sent twice");
  return read;
}

// Reads members of one object; the first error stays.
class Members {
 public:
  explicit Members(const Json& object) : object_(object) {}

  const absl::Status& status() const { return status_; }
  void Fail(absl::Status status) {
    if (status_.ok()) status_ = std::move(status);
  }

  // Null if absent or null.
  const Json* Find(const char* name) const {
    const auto it = object_.find(name);
    return it == object_.end() || it->is_null() ? nullptr : &*it;
  }

  template <typename T>
  void Number(const char* name, std::optional<T>* out) {
    const Json* value = Find(name);
    if (value == nullptr) return;
    if (!value->is_number_unsigned() || value->get<uint64_t>() > std::numeric_limits<T>::max()) {
      return Fail(BadShape(
          name, fmt::format("must be a whole number 0..{}", std::numeric_limits<T>::max())));
    }
    *out = static_cast<T>(value->get<uint64_t>());
  }

  void Text(const char* name, std::optional<std::string>* out) {
    const Json* value = Find(name);
    if (value == nullptr) return;
    if (!value->is_string()) return Fail(BadShape(name, "must be a text"));
    *out = value->get<std::string>();
  }

  void Flag(const char* name, std::optional<bool>* out) {
    const Json* value = Find(name);
    if (value == nullptr) return;
    if (!value->is_boolean()) return Fail(BadShape(name, "must be true or false"));
    *out = value->get<bool>();
  }

  void Real(const char* name, std::optional<double>* out) {
    const Json* value = Find(name);
    if (value == nullptr) return;
    if (!value->is_number()) return Fail(BadShape(name, "must be a number"));
    *out = value->get<double>();
  }

  void TextList(const char* name, std::optional<std::vector<std::string>>* out) {
    const Json* value = Find(name);
    if (value == nullptr) return;
    if (!value->is_array()) return Fail(BadShape(name, "must be a list of texts"));
    auto& texts = out->emplace();
    for (const Json& item : *value) {
      if (!item.is_string()) return Fail(BadShape(name, "must be a list of texts"));
      texts.push_back(item.get<std::string>());
    }
  }

  void TextMap(const char* name, std::optional<std::map<std::string, std::string>>* out) {
    const Json* value = Find(name);
    if (value == nullptr) return;
    if (!value->is_object()) return Fail(BadShape(name, "must be an object of texts"));
    auto& texts = out->emplace();
    for (const auto& [key, text] : value->items()) {
      if (!text.is_string()) return Fail(BadShape(name, "must be an object of texts"));
      texts[key] = text.get<std::string>();
    }
  }

  // {"0":"tcp://…"}: texts by rank.
  void ByRank(const char* name, std::optional<std::map<uint32_t, std::string>>* out) {
    const Json* value = Find(name);
    if (value == nullptr) return;
    if (!value->is_object()) return Fail(BadShape(name, "must be an object of texts by rank"));
    auto& by_rank = out->emplace();
    for (const auto& [key, text] : value->items()) {
      uint32_t rank = 0;
      const auto [end, error] = std::from_chars(key.data(), key.data() + key.size(), rank);
      if (error != std::errc() || end != key.data() + key.size() || !text.is_string())
        return Fail(BadShape(name, "must be an object of texts by rank"));
      by_rank[rank] = text.get<std::string>();
    }
  }

 private:
  const Json& object_;
  absl::Status status_;
};

// What the parts of a topology that are there make of the current one.
void ReadTopology(Members* members, const WorkerTopology& current,
                  std::optional<WorkerTopology>* out) {
  std::optional<std::map<std::string, std::string>> domains;
  std::optional<std::string> domain, enforcement;
  std::optional<double> weight;
  members->TextMap("topology_domains", &domains);
  members->Text("kv_transfer_domain", &domain);
  members->Text("kv_transfer_enforcement", &enforcement);
  members->Real("kv_transfer_preferred_weight", &weight);
  if (!domains && !domain && !enforcement && !weight) return;
  WorkerTopology& topology = out->emplace(current);
  if (domains) topology.topology_domains = *domains;
  if (domain) topology.kv_transfer_domain = *domain;
  if (enforcement) topology.kv_transfer_enforcement = *enforcement;
  if (weight) topology.kv_transfer_preferred_weight = weight;
}

// Fields that are kept and shown, and do not act yet.
void ReadTraits(Members* members, std::map<std::string, std::string>* traits) {
  constexpr size_t kMaxTraitBytes = 4096;
  struct Trait {
    const char* name;
    bool (*fits)(const Json&);
    const char* wanted;
  };
  static constexpr Trait kTraits[] = {
      {"stable_routing_id", [](const Json& v) { return v.is_string() || v.is_number_unsigned(); },
       "must be a text or a whole number"},
  };
  for (const Trait& trait : kTraits) {
    const Json* value = members->Find(trait.name);
    if (value == nullptr) continue;
    if (!trait.fits(*value)) return members->Fail(BadShape(trait.name, trait.wanted));
    std::string text = value->dump();
    if (text.size() > kMaxTraitBytes) {
      return members->Fail(Invalid(fmt::format("{} takes {} bytes of JSON, limit {}", trait.name,
                                               text.size(), kMaxTraitBytes)));
    }
    (*traits)[trait.name] = std::move(text);
  }
}

// The event fields together say one thing: endpoints by rank.
void ReadEvents(Members* members, uint32_t dp_start_rank, uint32_t dp_size,
                std::optional<std::map<uint32_t, EventEndpoints>>* out) {
  std::optional<std::string> one, one_replay;
  std::optional<std::map<uint32_t, std::string>> live, replay;
  members->Text("kv_events_endpoint", &one);
  members->Text("replay_endpoint", &one_replay);
  members->ByRank("kv_events_endpoints", &live);
  members->ByRank("replay_endpoints", &replay);
  if (!members->status().ok() || (!one && !one_replay && !live && !replay)) return;
  if (one && live)
    return members->Fail(Invalid("kv_events_endpoint is sent beside kv_events_endpoints"));
  if (one_replay && replay)
    return members->Fail(Invalid("replay_endpoint is sent beside replay_endpoints"));
  if ((one || one_replay) && dp_size > 1) {
    return members->Fail(
        Invalid(fmt::format("{} is for data_parallel_size 1, got {}: send {} by rank",
                            one ? "kv_events_endpoint" : "replay_endpoint", dp_size,
                            one ? "kv_events_endpoints" : "replay_endpoints")));
  }
  auto& events = out->emplace();
  if (one) events[dp_start_rank].live = *one;
  if (live) {
    for (const auto& [rank, endpoint] : *live) events[rank].live = endpoint;
  }
  if (one_replay) events[dp_start_rank].replay = *one_replay;
  if (replay) {
    for (const auto& [rank, endpoint] : *replay) events[rank].replay = endpoint;
  }
}

void ReadPatchFields(Members* members, const WorkerSpec& current, SelectionWorkerPatch* patch) {
  WorkerPatch& spec = patch->spec;
  std::optional<std::string> role;
  members->Text("endpoint", &spec.address);
  members->Number("block_size", &spec.block_size_tokens);
  members->Number("data_parallel_start_rank", &spec.dp_start_rank);
  members->Number("data_parallel_size", &spec.dp_size);
  members->Number("max_num_batched_tokens", &spec.max_num_batched_tokens);
  members->Number("total_kv_blocks", &spec.total_kv_blocks);
  members->Flag("draining", &spec.draining);
  members->Flag("is_eagle", &spec.is_eagle);
  members->Number("image_token_id", &spec.image_token_id);
  members->Text("role", &role);
  std::optional<std::string> kv_role;
  members->Text("kv_role", &kv_role);
  if (kv_role) {
    spec.kv_role = KvRoleOf(*kv_role);
    if (!spec.kv_role) {
      members->Fail(
          Invalid(fmt::format("kv_role must be {}, got \"{}\"", kKvRolesWanted, *kv_role)));
    }
  }
  members->Text("engine_version", &spec.engine_version);
  if (role) {
    spec.role = WorkerRoleOf(*role);
    if (!spec.role) {
      members->Fail(Invalid(fmt::format("role must be {}, got \"{}\"", kWorkerRolesWanted, *role)));
    }
  }
  ReadEvents(members, spec.dp_start_rank.value_or(current.dp_start_rank),
             spec.dp_size.value_or(current.dp_size), &spec.events);
  members->TextList("taints", &spec.taints);
  ReadTopology(members, current.topology, &spec.topology);
  members->TextList("lora_adapters", &spec.lora_adapters);
  ReadTraits(members, &patch->traits);
}

}  // namespace

absl::StatusOr<SelectionWorker> ReadWorkerBody(const std::string& body) {
  KVR_ASSIGN_OR_RETURN(const Json object, ReadSmallObject(body));
  Members members(object);
  SelectionWorker worker;
  std::optional<uint64_t> id;
  std::optional<std::string> model_name, routing_group;
  SelectionWorkerPatch patch;
  members.Number("worker_id", &id);
  members.Text("model_name", &model_name);
  members.Text("routing_group", &routing_group);
  if (!id) members.Fail(BadShape("worker_id", "missing field"));
  ReadPatchFields(&members, worker.spec, &patch);
  KVR_RETURN_IF_ERROR(members.status());
  WorkerSpec& spec = worker.spec;
  spec.id = WorkerId{*id};
  if (model_name) spec.model_name = *model_name;
  if (routing_group) spec.routing_group = *routing_group;
  spec.address = patch.spec.address.value_or("");
  spec.block_size_tokens = patch.spec.block_size_tokens.value_or(0);
  spec.dp_start_rank = patch.spec.dp_start_rank.value_or(0);
  spec.dp_size = patch.spec.dp_size.value_or(1);
  spec.role = patch.spec.role.value_or(WorkerRole::kAggregated);
  spec.draining = patch.spec.draining.value_or(false);
  spec.total_kv_blocks = patch.spec.total_kv_blocks.value_or(0);
  spec.max_num_batched_tokens = patch.spec.max_num_batched_tokens.value_or(0);
  spec.is_eagle = patch.spec.is_eagle.value_or(false);
  spec.image_token_id = patch.spec.image_token_id;
  if (patch.spec.events) spec.events = *patch.spec.events;
  spec.taints = patch.spec.taints.value_or(std::vector<std::string>());
  spec.topology = patch.spec.topology.value_or(WorkerTopology());
  spec.lora_adapters = patch.spec.lora_adapters;
  spec.kv_role = patch.spec.kv_role.value_or(KvRole::kNone);
  spec.engine_version = patch.spec.engine_version.value_or("");
  worker.traits = std::move(patch.traits);
  return worker;
}

absl::StatusOr<SelectionWorkerPatch> ReadWorkerPatch(const std::string& body,
                                                     const WorkerSpec& current) {
  KVR_ASSIGN_OR_RETURN(const Json object, ReadSmallObject(body));
  Members members(object);
  SelectionWorkerPatch patch;
  // Named, they must name what is there: a worker does not move by a patch.
  std::optional<uint64_t> id;
  std::optional<std::string> model_name, routing_group;
  members.Number("worker_id", &id);
  members.Text("model_name", &model_name);
  members.Text("routing_group", &routing_group);
  ReadPatchFields(&members, current, &patch);
  KVR_RETURN_IF_ERROR(members.status());
  if ((id && WorkerId{*id} != current.id) || (model_name && *model_name != current.model_name) ||
      (routing_group && *routing_group != current.routing_group))
    return Invalid("worker_id, model_name and routing_group cannot be changed; register it anew");
  return patch;
}

absl::StatusOr<std::optional<double>> ReadOutputBlockBody(const std::string& body) {
  if (body.empty()) return std::optional<double>();
  KVR_ASSIGN_OR_RETURN(const Json object, ReadSmallObject(body));
  const auto value = object.find("decay_fraction");
  if (value == object.end() || value->is_null()) return std::optional<double>();
  if (!value->is_number()) return BadShape("decay_fraction", "must be a number");
  const double fraction = value->get<double>();
  if (!(fraction >= 0 && fraction <= 1))
    return Invalid(fmt::format("decay_fraction must be 0..1, got {}", fraction));
  return std::optional<double>(fraction);
}

}  // namespace kvrouter
