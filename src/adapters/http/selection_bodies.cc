#include "adapters/http/selection_bodies.h"

#include <algorithm>
#include <limits>
#include <set>
#include <utility>

#include "adapters/http/selection_json.h"
#include "kvrouter/error.h"
#include "kvrouter/limits.h"

namespace kvrouter {
namespace {

constexpr uint64_t kAny64 = std::numeric_limits<uint64_t>::max();
constexpr uint64_t kAny32 = std::numeric_limits<uint32_t>::max();

absl::Status Invalid(std::string_view message) {
  return MakeError(absl::StatusCode::kInvalidArgument, ErrorReason::kInvalidRequest, message);
}

using Field = JsonField<SelectionBody>;

// Readers of members, named by pointer, so that the tables below say only names and types.
template <auto Member>
absl::Status Text(JsonValue value, std::string_view name, SelectionBody* out) {
  return ReadText(value, name, &(out->*Member));
}
template <auto Member, uint64_t kMax>
absl::Status Number(JsonValue value, std::string_view name, SelectionBody* out) {
  uint64_t number = 0;
  KVR_RETURN_IF_ERROR(ReadUnsigned(value, name, kMax, &number));
  using Optional = std::remove_reference_t<decltype(out->*Member)>;
  out->*Member = static_cast<typename Optional::value_type>(number);
  return absl::OkStatus();
}
template <auto Member>
absl::Status Flag(JsonValue value, std::string_view name, SelectionBody* out) {
  return ReadBool(value, name, &(out->*Member).emplace());
}
template <auto Member>
absl::Status Hashes(JsonValue value, std::string_view name, SelectionBody* out) {
  return ReadSignedArray(value, name, &(out->*Member).emplace());
}

template <typename T>
absl::Status Tokens(JsonValue value, std::string_view name, T* out) {
  return ReadUnsignedArray(value, name, kAny32, &out->token_ids.emplace());
}

// {"mm_hash":5,"offsets":[[0,3]]}. Offsets are checked and play no part: a block's name depends on
// which items touch it, and its tokens say where.
struct MultimodalObject {
  std::optional<uint64_t> mm_hash;
};
absl::Status ObjectHash(JsonValue value, std::string_view name, MultimodalObject* out) {
  return ReadUnsigned(value, name, kAny64, &out->mm_hash.emplace());
}
absl::Status ObjectOffsets(JsonValue value, std::string_view name, MultimodalObject*) {
  std::vector<int> nothing;
  return ReadArray(
      value, name,
      [&](JsonValue range, int*) -> absl::Status {
        std::vector<uint64_t> ends;
        const auto read_end = [&](JsonValue end, uint64_t* token) {
          return ReadUnsigned(end, name, kAny64, token);
        };
        KVR_RETURN_IF_ERROR(ReadArray(range, name, read_end, &ends));
        return ends.size() == 2 ? absl::OkStatus() : BadField(name, "must be pairs of numbers");
      },
      &nothing);
}
absl::Status BlockObjects(JsonValue value, std::string_view name,
                          std::optional<std::vector<MultimodalHash>>* out) {
  static constexpr JsonField<MultimodalObject> kFields[] = {{"mm_hash", ObjectHash},
                                                            {"offsets", ObjectOffsets}};
  return ReadArray(
      value, name,
      [&](JsonValue item, MultimodalHash* hash) -> absl::Status {
        MultimodalObject object;
        KVR_RETURN_IF_ERROR(ReadObject<MultimodalObject>(item, name, kFields, &object, 1));
        if (!object.mm_hash) return BadField(name, "missing field mm_hash");
        *hash = MultimodalHash{*object.mm_hash};
        return absl::OkStatus();
      },
      &out->emplace());
}

// A list with an entry per block: null, or {"mm_objects":[object, …]}.
template <typename T>
absl::Status BlockMmInfos(JsonValue value, std::string_view name, T* out) {
  using Items = std::optional<std::vector<MultimodalHash>>;
  static constexpr JsonField<Items> kFields[] = {{"mm_objects", BlockObjects}};
  auto& blocks = out->block_mm_infos;
  size_t count = 0;
  std::vector<int> nothing;
  return ReadArray(
      value, name,
      [&](JsonValue item, int*) -> absl::Status {
        if (++count > kMaxItemBlocks) {
          return MakeError(absl::StatusCode::kResourceExhausted, ErrorReason::kTooLarge,
                           fmt::format("{} has over {} entries", name, kMaxItemBlocks));
        }
        simdjson::ondemand::json_type type{};
        if (item.type().get(type) != simdjson::SUCCESS ||
            type == simdjson::ondemand::json_type::null)
          return SkipChecked(item, 2);
        Items items;
        KVR_RETURN_IF_ERROR(ReadObject<Items>(item, name, kFields, &items, 1));
        if (!items) return BadField(name, "missing field mm_objects");
        if (items->empty()) return absl::OkStatus();
        blocks.resize(count);
        blocks.back() = *std::move(items);
        return absl::OkStatus();
      },
      &nothing);
}

absl::Status ReadMmRoutingInfo(JsonValue value, std::string_view name, SelectionBody* out) {
  using Routing = SelectionBody::MultimodalRouting;
  static constexpr JsonField<Routing> kFields[] = {{"routing_token_ids", Tokens<Routing>},
                                                   {"block_mm_infos", BlockMmInfos<Routing>}};
  Routing& routing = out->mm_routing.emplace();
  KVR_RETURN_IF_ERROR(ReadObject<Routing>(value, name, kFields, &routing, 1));
  return routing.token_ids ? absl::OkStatus() : BadField(name, "missing field routing_token_ids");
}

template <auto Member>
absl::Status OverrideNumber(JsonValue value, std::string_view name, ConfigOverride* out) {
  return ReadDouble(value, name, &(out->*Member).emplace());
}
template <auto Member>
absl::Status OverrideFlag(JsonValue value, std::string_view name, ConfigOverride* out) {
  return ReadBool(value, name, &(out->*Member).emplace());
}

// Parity: the deprecated name of two newer ones.
absl::Status OverlapScoreWeight(JsonValue value, std::string_view name, ConfigOverride* out) {
  double weight = 0;
  KVR_RETURN_IF_ERROR(ReadDouble(value, name, &weight));
  out->prefill_load_scale = weight;
  if (weight == 0) out->overlap_score_credit = 0.0;
  return absl::OkStatus();
}

absl::Status Overrides(JsonValue value, std::string_view name, SelectionBody* out) {
  static constexpr JsonField<ConfigOverride> kFields[] = {
      {"overlap_score_credit", OverrideNumber<&ConfigOverride::overlap_score_credit>},
      {"prefill_load_scale", OverrideNumber<&ConfigOverride::prefill_load_scale>},
      {"router_temperature", OverrideNumber<&ConfigOverride::router_temperature>},
      {"assume_kv_reuse", OverrideFlag<&ConfigOverride::assume_kv_reuse>},
      {"track_prefill_tokens", OverrideFlag<&ConfigOverride::track_prefill_tokens>},
      {"shared_cache_multiplier", OverrideNumber<&ConfigOverride::shared_cache_multiplier>},
      {"overlap_score_weight", OverlapScoreWeight}};
  return ReadObject<ConfigOverride>(value, name, kFields, &out->overrides, 1);
}

struct Pin {
  std::optional<uint64_t> worker_id;
  std::optional<uint32_t> dp_rank;
};
absl::Status PinWorker(JsonValue value, std::string_view name, Pin* out) {
  return ReadUnsigned(value, name, kAny64, &out->worker_id.emplace());
}
absl::Status PinRank(JsonValue value, std::string_view name, Pin* out) {
  uint64_t rank = 0;
  KVR_RETURN_IF_ERROR(ReadUnsigned(value, name, kAny32, &rank));
  out->dp_rank = static_cast<uint32_t>(rank);
  return absl::OkStatus();
}
absl::StatusOr<TargetSelector> ReadPin(JsonValue value, std::string_view name) {
  static constexpr JsonField<Pin> kFields[] = {{"worker_id", PinWorker}, {"dp_rank", PinRank}};
  Pin pin;
  KVR_RETURN_IF_ERROR(ReadObject<Pin>(value, name, kFields, &pin, 1));
  if (!pin.worker_id) return BadField(name, "missing field worker_id");
  return TargetSelector{.worker = WorkerId{*pin.worker_id}, .dp_rank = pin.dp_rank};
}
absl::Status PinnedWorker(JsonValue value, std::string_view name, SelectionBody* out) {
  KVR_ASSIGN_OR_RETURN(out->pinned, ReadPin(value, name));
  return absl::OkStatus();
}

template <auto Member>
absl::Status Selector(JsonValue value, std::string_view name, SelectionBody* out) {
  KVR_ASSIGN_OR_RETURN(out->*Member, ReadPin(value, name));
  return absl::OkStatus();
}
absl::Status Phase(JsonValue value, std::string_view name, SelectionBody* out) {
  std::string text;
  KVR_RETURN_IF_ERROR(ReadText(value, name, &text));
  for (const RequestPhase phase :
       {RequestPhase::kWhole, RequestPhase::kPrefill, RequestPhase::kDecode}) {
    if (RequestPhaseName(phase) == text) out->phase = phase;
  }
  return out->phase ? absl::OkStatus()
                    : Invalid(fmt::format("{} must be whole, prefill or decode", name));
}

absl::Status AllowedWorkers(JsonValue value, std::string_view name, SelectionBody* out) {
  return ReadArray(
      value, name,
      [&](JsonValue item, WorkerId* id) -> absl::Status {
        uint64_t number = 0;
        KVR_RETURN_IF_ERROR(ReadUnsigned(item, name, kAny64, &number));
        *id = WorkerId{number};
        return absl::OkStatus();
      },
      &out->allowed_workers.emplace());
}

absl::Status PriorityJump(JsonValue value, std::string_view name, SelectionBody* out) {
  return ReadDouble(value, name, &out->priority_jump);
}
absl::Status StrictPriority(JsonValue value, std::string_view name, SelectionBody* out) {
  uint64_t number = 0;
  KVR_RETURN_IF_ERROR(ReadUnsigned(value, name, kAny32, &number));
  out->strict_priority = static_cast<uint32_t>(number);
  return absl::OkStatus();
}
absl::Status Advisory(JsonValue value, std::string_view name, SelectionBody* out) {
  return ReadBool(value, name, &out->advisory);
}
absl::Status RequiredTaints(JsonValue value, std::string_view name, RoutingConstraints* out) {
  return ReadArray(
      value, name, [&](JsonValue item, std::string* taint) { return ReadText(item, name, taint); },
      &out->required_taints);
}
absl::Status PreferredTaints(JsonValue value, std::string_view name, RoutingConstraints* out) {
  simdjson::ondemand::object object;
  if (const auto error = value.get_object().get(object); error != simdjson::SUCCESS)
    return ValueError(error, value, name, "an object of numbers");
  for (auto member : object) {
    std::string_view key;
    JsonValue weight;
    if (const auto error = member.unescaped_key().get(key); error != simdjson::SUCCESS)
      return BadJson(simdjson::error_message(error));
    if (const auto error = member.value().get(weight); error != simdjson::SUCCESS)
      return BadJson(simdjson::error_message(error));
    KVR_RETURN_IF_ERROR(ReadDouble(weight, name, &out->preferred_taints[std::string(key)]));
  }
  return absl::OkStatus();
}
absl::Status Constraints(JsonValue value, std::string_view name, SelectionBody* out) {
  static constexpr JsonField<RoutingConstraints> kFields[] = {
      {"required_taints", RequiredTaints}, {"preferred_taints", PreferredTaints}};
  return ReadObject<RoutingConstraints>(value, name, kFields, &out->constraints, 1);
}

// ---- Fields that are checked and do not act yet (docs/parity.md) ----

absl::Status CheckedText(JsonValue value, std::string_view name, SelectionBody*) {
  std::string text;
  return ReadText(value, name, &text);
}
absl::Status CheckedTarget(JsonValue value, std::string_view name, SelectionBody*) {
  return ReadPin(value, name).status();
}
absl::Status CheckedFlag(JsonValue value, std::string_view name, SelectionBody*) {
  bool flag = false;
  return ReadBool(value, name, &flag);
}
absl::Status ReadSession(JsonValue value, std::string_view name, SelectionBody* out) {
  static constexpr Field kFields[] = {{"session_id", Text<&SelectionBody::context_session_id>},
                                      {"parent_session_id", CheckedText},
                                      {"session_final", CheckedFlag},
                                      {"input_trigger", CheckedText}};
  return ReadObject<SelectionBody>(value, name, kFields, out, 1);
}

// ---- The tables ----

constexpr Field kPromptFields[] = {
    {"model_name", Text<&SelectionBody::model_name>},
    {"routing_group", Text<&SelectionBody::routing_group>},
    {"token_ids", Tokens<SelectionBody>},
    {"mm_routing_info", ReadMmRoutingInfo},
    {"block_mm_infos", BlockMmInfos<SelectionBody>},
    {"block_hashes", Hashes<&SelectionBody::block_hashes>},
    {"sequence_hashes", Hashes<&SelectionBody::sequence_hashes>},
    {"isl_tokens", Number<&SelectionBody::isl_tokens, kAny64>},
    {"lora_name", Text<&SelectionBody::lora_name>},
    {"cache_salt", Text<&SelectionBody::cache_salt>},
    {"is_eagle", Flag<&SelectionBody::is_eagle>},
    {"router_config_override", Overrides},
};
constexpr Field kBookingFields[] = {
    {"selection_id", Text<&SelectionBody::selection_id>},
    {"expected_output_tokens", Number<&SelectionBody::expected_output_tokens, kAny64>},
    {"priority_jump", PriorityJump},
    {"strict_priority", StrictPriority},
    {"session_id", Text<&SelectionBody::session_id>},
    {"session_context", ReadSession},
};
constexpr Field kSelectFields[] = {
    {"pinned_worker", PinnedWorker},
    {"allowed_worker_ids", AllowedWorkers},
    {"routing_constraints", Constraints},
    {"affinity_target", CheckedTarget},
    {"advisory", Advisory},
    {"phase", Phase},
    {"fixed_plan", Flag<&SelectionBody::fixed_plan>},
    {"pinned_prefill", Selector<&SelectionBody::pinned_prefill>},
    {"prefilled_by", Selector<&SelectionBody::prefilled_by>},
    {"has_prefill_result", Flag<&SelectionBody::has_prefill_result>},
    {"prefill_here", Flag<&SelectionBody::prefill_here>},
};
constexpr Field kReserveFields[] = {
    {"worker_id", Number<&SelectionBody::worker_id, kAny64>},
    {"dp_rank", Number<&SelectionBody::dp_rank, kAny32>},
    {"effective_prefill_tokens", Number<&SelectionBody::effective_prefill_tokens, kAny64>},
    {"track_prefill_tokens", Flag<&SelectionBody::track_prefill_tokens>},
};

std::vector<Field> FieldsOf(BodyKind kind) {
  std::vector<Field> fields(std::begin(kPromptFields), std::end(kPromptFields));
  const auto add = [&](std::span<const Field> more) {
    fields.insert(fields.end(), more.begin(), more.end());
  };
  if (kind != BodyKind::kPrompt) add(kBookingFields);
  if (kind == BodyKind::kSelect) add(kSelectFields);
  if (kind == BodyKind::kReserve) add(kReserveFields);
  return fields;
}

}  // namespace

static_assert(simdjson::SIMDJSON_PADDING <= 64, "selection_bodies.h promises 64 to be enough");

absl::StatusOr<SelectionBody> ReadSelectionBody(const std::string& body, BodyKind kind) {
  static const std::vector<Field> kFields[] = {
      FieldsOf(BodyKind::kSelect), FieldsOf(BodyKind::kReserve), FieldsOf(BodyKind::kPrompt)};
  SelectionBody read;
  KVR_RETURN_IF_ERROR(ReadJsonBody<SelectionBody>(body, kFields[static_cast<size_t>(kind)], &read));
  return read;
}

absl::StatusOr<RouteRequest> ToRouteRequest(const SelectionBody& body) {
  RouteRequest request;
  request.request_id = body.selection_id;
  request.model_name = body.model_name;
  request.routing_group = body.routing_group;
  request.lora_name = body.lora_name;
  request.cache_salt = body.cache_salt;
  request.is_eagle = body.is_eagle;
  request.overrides = body.overrides;
  request.expected_output_tokens = body.expected_output_tokens;
  request.pinned = body.pinned;
  request.allowed_workers = body.allowed_workers;
  request.constraints = body.constraints;
  request.priority_jump = body.priority_jump;
  request.strict_priority = body.strict_priority;
  request.phase = body.phase.value_or(RequestPhase::kWhole);
  request.fixed_plan = body.fixed_plan.value_or(false);
  request.pinned_prefill = body.pinned_prefill;
  if (body.prefilled_by) {
    request.prefilled_by = Target{.worker = body.prefilled_by->worker,
                                  .dp_rank = body.prefilled_by->dp_rank.value_or(0)};
  }
  request.has_prefill_result = body.has_prefill_result.value_or(false);
  request.prefill_here = body.prefill_here.value_or(false);
  const bool hashes = body.block_hashes || body.sequence_hashes || body.isl_tokens;
  const bool routing_tokens = body.mm_routing && !body.mm_routing->token_ids->empty();
  if ((body.token_ids || routing_tokens) && hashes)
    return Invalid("the prompt is given as tokens and as hashes");
  if (routing_tokens) {
    request.prompt = TokenPrompt{.token_ids = *body.mm_routing->token_ids,
                                 .multimodal = body.mm_routing->block_mm_infos};
    return request;
  }
  if (body.token_ids) {
    request.prompt = TokenPrompt{.token_ids = *body.token_ids, .multimodal = body.block_mm_infos};
    return request;
  }
  if (!hashes) return Invalid("no prompt: send token_ids, mm_routing_info or block_hashes");
  if (!body.block_hashes || !body.sequence_hashes || !body.isl_tokens)
    return Invalid("a prompt as hashes needs block_hashes, sequence_hashes and isl_tokens");
  if (body.block_hashes->size() != body.sequence_hashes->size()) {
    return Invalid(fmt::format("block_hashes has {} entries and sequence_hashes {}: must be equal",
                               body.block_hashes->size(), body.sequence_hashes->size()));
  }
  if (*body.isl_tokens == 0) return Invalid("isl_tokens must be > 0, got 0");
  request.prompt = HashPrompt{.local_hashes = *body.block_hashes,
                              .sequence_hashes = *body.sequence_hashes,
                              .isl_tokens = *body.isl_tokens};
  return request;
}

}  // namespace kvrouter
