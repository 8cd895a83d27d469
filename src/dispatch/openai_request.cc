#include "dispatch/openai_request.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "base/status_macros.h"
#include "dispatch/json_cursor.h"
#include "kvrouter/error.h"
#include "service/request_limits.h"

namespace kvrouter {
namespace {

struct Reader {
  OpenAiEndpoint endpoint;
  const OpenAiLimits& limits;
  std::string_view text;  // what is parsed
  OpenAiRequest request = {};
  std::optional<std::vector<TokenId>> token_data = {};
};

void MarkPlain(Reader* reader, PlainReason reason) {
  if (reader->request.plain == PlainReason::kNone) reader->request.plain = reason;
}

absl::Status ReadTokenIds(JsonValue value, std::string_view field, const OpenAiLimits& limits,
                          std::vector<TokenId>* ids) {
  ids->clear();
  return VisitIfArray(value, [&](JsonValue element) {
    uint64_t id = 0;
    if (element.get_uint64().get(id) != simdjson::SUCCESS ||
        id > std::numeric_limits<TokenId>::max()) {
      const std::string_view text = ScalarText(element).substr(0, 32);
      return BadJsonField(field,
                          fmt::format("must hold token ids 0..{}, got {} at position {}",
                                      std::numeric_limits<TokenId>::max(), text, ids->size()));
    }
    if (ids->size() >= limits.max_prompt_tokens) {
      return MakeError(absl::StatusCode::kResourceExhausted, ErrorReason::kTooLarge,
                       fmt::format("{} has more than {} tokens", field, limits.max_prompt_tokens));
    }
    ids->push_back(static_cast<TokenId>(id));
    return absl::OkStatus();
  });
}

void NoteText(JsonValue value, Reader* reader) {
  const std::string_view text = ScalarText(value);
  reader->request.text_begin = static_cast<size_t>(text.data() - reader->text.data());
  reader->request.text_bytes = text.size();
}

// An array of one or more prompts.
absl::Status ReadPromptArray(JsonValue value, Reader* reader) {
  OpenAiRequest& request = reader->request;
  size_t prompts = 0;
  KVR_RETURN_IF_ERROR(VisitIfArray(value, [&](JsonValue element) -> absl::Status {
    KVR_ASSIGN_OR_RETURN(const JsonType type, TypeOfJson(element));
    if (++prompts > 1) return absl::OkStatus();
    if (type == JsonType::string) NoteText(element, reader);
    if (type != JsonType::array) return absl::OkStatus();
    request.token_ids_are_prompt = true;
    return ReadTokenIds(element, "prompt", reader->limits, &request.token_ids.emplace());
  }));
  if (prompts > 1) {
    MarkPlain(reader, PlainReason::kSeveralPrompts);
    request.text_bytes = 0;
  }
  return absl::OkStatus();
}

absl::Status ReadPrompt(JsonValue value, Reader* reader) {
  OpenAiRequest& request = reader->request;
  request.token_ids.reset();
  request.token_ids_are_prompt = false;
  request.text_bytes = 0;
  KVR_ASSIGN_OR_RETURN(const JsonType type, TypeOfJson(value));
  if (type == JsonType::string) {
    NoteText(value, reader);
    return absl::OkStatus();
  }
  if (type != JsonType::array) return absl::OkStatus();
  // Long arrays are nearly always of ids: tried first, so that they are read once.
  const std::string_view raw =
      reader->text.substr(static_cast<size_t>(value.raw_json_token().data() - reader->text.data()));
  const size_t first = raw.find_first_not_of(" \t\r\n", 1);
  const bool begins_with_number = first != std::string_view::npos &&
                                  (raw[first] == '-' || (raw[first] >= '0' && raw[first] <= '9'));
  if (!begins_with_number) return ReadPromptArray(value, reader);
  request.token_ids_are_prompt = true;
  return ReadTokenIds(value, "prompt", reader->limits, &request.token_ids.emplace());
}

absl::Status ReadRank(JsonValue value, std::string_view field, std::optional<uint32_t>* rank) {
  if (IsNull(value)) return absl::OkStatus();
  const auto number = UnsignedOf(value);
  if (!number || *number > std::numeric_limits<uint32_t>::max()) {
    return BadJsonField(
        field, fmt::format("must be a whole number 0..{}", std::numeric_limits<uint32_t>::max()));
  }
  *rank = static_cast<uint32_t>(*number);
  return absl::OkStatus();
}

absl::Status ReadWorkerIdField(JsonValue value, std::string_view field,
                               std::optional<uint64_t>* id) {
  if (IsNull(value)) return absl::OkStatus();
  *id = UnsignedOf(value);
  return *id ? absl::OkStatus() : BadJsonField(field, "must be a whole number");
}

// The router refuses as many; read whole they would take many times what they do in the body.
absl::Status CheckTaints(std::string_view field, size_t taints) {
  if (taints <= kMaxTaintsPerRequest) return absl::OkStatus();
  return MakeError(absl::StatusCode::kResourceExhausted, ErrorReason::kTooLarge,
                   fmt::format("{} has more than {} entries", field, kMaxTaintsPerRequest));
}

absl::Status ReadConstraints(JsonValue value, RoutingConstraints* constraints) {
  return VisitIfObject(value, [&](std::string_view key, JsonValue member) -> absl::Status {
    if (key == "required_taints") {
      return VisitIfArray(member, [&](JsonValue element) {
        if (auto taint = StringOf(element))
          constraints->required_taints.push_back(*std::move(taint));
        return CheckTaints(key, constraints->required_taints.size());
      });
    }
    if (key != "preferred_taints") return absl::OkStatus();
    return VisitIfObject(member, [&](std::string_view taint, JsonValue weight) {
      const std::string name(taint);
      if (const auto number = DoubleOf(weight)) constraints->preferred_taints[name] = *number;
      return CheckTaints(key, constraints->preferred_taints.size());
    });
  });
}

absl::Status ReadAgentHints(JsonValue value, NvExt* nvext) {
  std::optional<int64_t> latency_sensitivity;
  KVR_RETURN_IF_ERROR(VisitIfObject(value, [&](std::string_view key, JsonValue member) {
    if (key == "priority") nvext->priority = SignedOf(member);
    if (key == "latency_sensitivity") {
      // Clients write it as a fraction, too.
      if (const auto number = DoubleOf(member); number && std::abs(*number) < 1e9)
        latency_sensitivity = static_cast<int64_t>(*number);
    }
    if (key == "strict_priority") {
      return ReadRank(member, "nvext.agent_hints.strict_priority", &nvext->strict_priority);
    }
    if (key == "osl") nvext->expected_output_tokens = UnsignedOf(member);
    return absl::OkStatus();
  }));
  if (!nvext->priority) nvext->priority = latency_sensitivity;
  return absl::OkStatus();
}

absl::Status ReadNvExt(JsonValue value, Reader* reader) {
  NvExt& nvext = reader->request.nvext;
  std::optional<uint64_t> backend;
  KVR_RETURN_IF_ERROR(
      VisitIfObject(value, [&](std::string_view key, JsonValue member) -> absl::Status {
        if (key == "backend_instance_id")
          return ReadWorkerIdField(member, "nvext.backend_instance_id", &backend);
        if (key == "decode_worker_id")
          return ReadWorkerIdField(member, "nvext.decode_worker_id", &nvext.decode_worker_id);
        if (key == "prefill_worker_id")
          return ReadWorkerIdField(member, "nvext.prefill_worker_id", &nvext.prefill_worker_id);
        if (key == "dp_rank") return ReadRank(member, "nvext.dp_rank", &nvext.dp_rank);
        if (key == "prefill_dp_rank")
          return ReadRank(member, "nvext.prefill_dp_rank", &nvext.prefill_dp_rank);
        if (key == "agent_hints") return ReadAgentHints(member, &nvext);
        if (key == "routing_constraints") return ReadConstraints(member, &nvext.constraints);
        if (key == "token_data" && !IsNull(member)) {
          return ReadTokenIds(member, "nvext.token_data", reader->limits,
                              &reader->token_data.emplace());
        }
        if (key == "cache_salt" && reader->request.cache_salt.empty())
          reader->request.cache_salt = StringOf(member).value_or("");
        return absl::OkStatus();
      }));
  if (!nvext.decode_worker_id) nvext.decode_worker_id = backend;
  return absl::OkStatus();
}

// Engines take "2" and 2.0 for 2, and 1 for true: what may mean it is treated as if it did.
void ReadSequences(JsonValue value, Reader* reader) {
  if (!IsNull(value) && UnsignedOf(value) != uint64_t{1})
    MarkPlain(reader, PlainReason::kSeveralChoices);
}

bool MayBeTrue(JsonValue value) { return !IsNull(value) && BoolOf(value).value_or(true); }

absl::Status ReadMember(std::string_view key, JsonValue value, Reader* reader) {
  OpenAiRequest& request = reader->request;
  const bool is_chat = reader->endpoint == OpenAiEndpoint::kChatCompletions;
  if (key == "prompt" && !is_chat) return ReadPrompt(value, reader);
  if (key == "messages") {
    request.has_messages = is_chat;
  } else if (key == "model") {
    if (IsNull(value)) return absl::OkStatus();
    auto model = StringOf(value);
    if (!model) return BadJsonField("model", "must be a string");
    request.model = *std::move(model);
  } else if (key == "stream") {
    request.stream = BoolOf(value).value_or(false);
  } else if (key == "stream_options") {
    request.has_stream_options = request.has_stream_options || !IsNull(value);
  } else if (key == "n" || key == "best_of") {
    ReadSequences(value, reader);
  } else if (key == "use_beam_search") {
    if (MayBeTrue(value)) MarkPlain(reader, PlainReason::kSeveralChoices);
  } else if (key == "echo") {
    if (MayBeTrue(value)) MarkPlain(reader, PlainReason::kWholePrompt);
  } else if (key == "suffix" || key == "prompt_logprobs" || key == "truncate_prompt_tokens" ||
             key == "prompt_embeds") {
    if (!IsNull(value)) MarkPlain(reader, PlainReason::kWholePrompt);
  } else if (key == "kv_transfer_params") {
    if (!IsNull(value)) MarkPlain(reader, PlainReason::kCallersParameters);
  } else if (key == "cache_salt") {
    if (auto salt = StringOf(value)) {
      request.cache_salt = *std::move(salt);
      request.has_cache_salt = true;
    }
  } else if (key == "nvext") {
    return ReadNvExt(value, reader);
  }
  return absl::OkStatus();
}

OpenAiRequest Finished(Reader reader) {
  OpenAiRequest& request = reader.request;
  request.endpoint = reader.endpoint;
  if (reader.token_data && !request.token_ids && !reader.token_data->empty())
    request.token_ids = std::move(reader.token_data);
  return std::move(request);
}

template <typename Visit>
absl::Status VisitBody(const std::string& body, std::string_view* parsed, Visit visit) {
  if (body.capacity() - body.size() < kJsonPaddingBytes) {
    const simdjson::padded_string copy(body);
    *parsed = std::string_view(copy.data(), copy.size());
    return VisitPaddedObject(copy, visit);
  }
  *parsed = body;
  return VisitPaddedObject(simdjson::padded_string_view(body.data(), body.size(), body.capacity()),
                           visit);
}

}  // namespace

std::optional<OpenAiEndpoint> OpenAiEndpointOf(std::string_view path) {
  if (path == "/v1/completions") return OpenAiEndpoint::kCompletions;
  if (path == "/v1/chat/completions") return OpenAiEndpoint::kChatCompletions;
  return std::nullopt;
}

absl::StatusOr<OpenAiRequest> ReadOpenAiRequest(OpenAiEndpoint endpoint, const std::string& body,
                                                const OpenAiLimits& limits) {
  Reader reader{.endpoint = endpoint, .limits = limits, .text = {}};
  KVR_RETURN_IF_ERROR(VisitBody(
      body, &reader.text,
      [&, members = uint64_t{0}](std::string_view key, JsonValue value) mutable {
        if (++members > limits.max_members) {
          return BadJsonField("body", fmt::format("has more than {} fields", limits.max_members));
        }
        return ReadMember(key, value, &reader);
      }));
  return Finished(std::move(reader));
}

absl::StatusOr<std::string> ReadModel(const std::string& body) {
  std::string model;
  std::string_view parsed;
  KVR_RETURN_IF_ERROR(VisitBody(body, &parsed, [&model](std::string_view key, JsonValue value) {
    if (key == "model") model = StringOf(value).value_or("");
    return absl::OkStatus();
  }));
  return model;
}

}  // namespace kvrouter
