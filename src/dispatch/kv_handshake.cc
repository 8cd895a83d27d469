#include "dispatch/kv_handshake.h"

#include <fmt/format.h>

#include <charconv>

#include "base/ascii.h"
#include "base/status_macros.h"
#include "dispatch/body_edit.h"
#include "dispatch/json_cursor.h"

namespace kvrouter {
namespace {

struct Fields {
  bool remote_prefill = false;
  std::string engine_id;
  std::string request_id;
  std::string host;
  uint64_t port = 0;
  uint64_t blocks = 0;
};

// Older engines list block ids, newer ones a list for each group.
absl::Status CountBlocks(JsonValue value, uint64_t* blocks) {
  return VisitIfArray(value, [blocks](JsonValue element) -> absl::Status {
    if (UnsignedOf(element)) {
      ++*blocks;
      return absl::OkStatus();
    }
    return VisitIfArray(element, [blocks](JsonValue id) {
      if (UnsignedOf(id)) ++*blocks;
      return absl::OkStatus();
    });
  });
}

// Ids are texts; some engines number them.
std::string TextOf(JsonValue value) {
  if (auto text = StringOf(value)) return *std::move(text);
  const auto number = UnsignedOf(value);
  return number ? fmt::format("{}", *number) : "";
}

uint64_t PortOf(JsonValue value) {
  if (const auto number = UnsignedOf(value)) return *number;
  const std::string text = StringOf(value).value_or("");
  uint64_t port = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), port);
  return error == std::errc() && end == text.data() + text.size() ? port : 0;
}

absl::StatusOr<Fields> ReadFields(const std::string& params) {
  Fields fields;
  KVR_RETURN_IF_ERROR(
      VisitObject(params, [&fields](std::string_view key, JsonValue value) -> absl::Status {
        if (key == "do_remote_prefill") fields.remote_prefill = BoolOf(value).value_or(false);
        if (key == "remote_engine_id") fields.engine_id = TextOf(value);
        if (key == "remote_request_id") fields.request_id = TextOf(value);
        if (key == "remote_host") fields.host = StringOf(value).value_or("");
        if (key == "remote_port") fields.port = PortOf(value);
        if (key != "remote_block_ids") return absl::OkStatus();
        fields.blocks = 0;
        return CountBlocks(value, &fields.blocks);
      }));
  return fields;
}

// Empty: nothing is.
std::string WhatIsMissing(const Fields& fields) {
  if (!fields.remote_prefill) return "do_remote_prefill is not true";
  if (fields.engine_id.empty()) return "remote_engine_id is missing";
  if (fields.request_id.empty()) return "remote_request_id is missing";
  if (fields.host.empty()) return "remote_host is missing";
  if (fields.port == 0 || fields.port > 65535)
    return fmt::format("remote_port must be 1..65535, got {}", fields.port);
  if (fields.blocks == 0) return "remote_block_ids names no block";
  return "";
}

HandshakeReading Problem(HandshakeProblem problem, std::string detail) {
  return {.handshake = {}, .problem = problem, .detail = std::move(detail)};
}

}  // namespace

HandshakeReading ReadHandshake(const std::string& answer, std::string_view producer_url) {
  const auto object = JsonObject::Of(answer);
  if (!object) return Problem(HandshakeProblem::kInvalid, "the answer is not a JSON object");
  const auto params = object->Find("kv_transfer_params");
  if (!params || *params == "null" || *params == "{}")
    return Problem(HandshakeProblem::kMissing, "the answer has no kv_transfer_params");
  HandshakeReading reading;
  reading.handshake.params.reserve(params->size() + kJsonPaddingBytes);
  reading.handshake.params = *params;
  const auto fields = ReadFields(reading.handshake.params);
  if (!fields.ok()) {
    const auto message = fields.status().message();
    return Problem(HandshakeProblem::kInvalid, std::string(message.data(), message.size()));
  }
  if (std::string missing = WhatIsMissing(*fields); !missing.empty())
    return Problem(HandshakeProblem::kInvalid, std::move(missing));
  if (IsLocalHost(fields->host) && !IsLocalHost(HostOfUrl(producer_url))) {
    return Problem(HandshakeProblem::kLocal,
                   fmt::format("remote_host {} is not the producer's, whose address is {}",
                               fields->host, producer_url));
  }
  reading.handshake.blocks = fields->blocks;
  return reading;
}

std::string_view HostOfUrl(std::string_view url) {
  if (const size_t scheme = url.find("://"); scheme != std::string_view::npos)
    url.remove_prefix(scheme + 3);
  url = url.substr(0, url.find_first_of("/?#"));
  if (const size_t user = url.rfind('@'); user != std::string_view::npos)
    url.remove_prefix(user + 1);
  if (url.starts_with('[')) {
    url.remove_prefix(1);
    return url.substr(0, url.find(']'));
  }
  return url.substr(0, url.find(':'));
}

bool IsLocalHost(std::string_view host) {
  std::string lower = AsciiLower(host);
  if (lower.starts_with('[') && lower.ends_with(']')) lower = lower.substr(1, lower.size() - 2);
  return lower == "localhost" || lower.starts_with("127.") || lower == "::1" ||
         lower == "0.0.0.0" || lower == "::";
}

}  // namespace kvrouter
