#include "adapters/http/indexer_bodies.h"

#include <cstdint>
#include <limits>
#include <optional>
#include <type_traits>
#include <utility>

#include "adapters/http/selection_json.h"
#include "base/status_macros.h"
#include "kvrouter/error.h"

namespace kvrouter {
namespace {

constexpr uint64_t kAny64 = std::numeric_limits<uint64_t>::max();
constexpr uint64_t kAny32 = std::numeric_limits<uint32_t>::max();

// Every field that a body of this API can have; a table per route says which of them it reads.
struct IndexerBody {
  std::optional<uint64_t> instance_id;
  std::optional<std::string> endpoint;
  std::optional<std::string> replay_endpoint;
  std::optional<std::string> model_name;
  std::optional<std::string> routing_group;
  std::optional<uint32_t> block_size;
  std::optional<uint32_t> dp_rank;
  std::optional<std::vector<TokenId>> token_ids;
  std::optional<std::vector<LocalBlockHash>> block_hashes;
  std::optional<std::string> lora_name;
  std::optional<std::string> cache_salt;
  std::optional<std::string> url;
};
using Field = JsonField<IndexerBody>;

template <auto Member>
absl::Status Text(JsonValue value, std::string_view name, IndexerBody* out) {
  return ReadText(value, name, &(out->*Member).emplace());
}
template <auto Member, uint64_t kMax>
absl::Status Number(JsonValue value, std::string_view name, IndexerBody* out) {
  uint64_t number = 0;
  KVR_RETURN_IF_ERROR(ReadUnsigned(value, name, kMax, &number));
  using Optional = std::remove_reference_t<decltype(out->*Member)>;
  out->*Member = static_cast<typename Optional::value_type>(number);
  return absl::OkStatus();
}
absl::Status Tokens(JsonValue value, std::string_view name, IndexerBody* out) {
  return ReadUnsignedArray(value, name, kAny32, &out->token_ids.emplace());
}
absl::Status Hashes(JsonValue value, std::string_view name, IndexerBody* out) {
  return ReadSignedArray(value, name, &out->block_hashes.emplace());
}
// Accepted and without effect, as upstream (docs/parity.md).
absl::Status IgnoredText(JsonValue value, std::string_view name, IndexerBody*) {
  std::string text;
  return ReadText(value, name, &text);
}

constexpr Field kModel = {"model_name", Text<&IndexerBody::model_name>};
constexpr Field kGroup = {"routing_group", Text<&IndexerBody::routing_group>};
constexpr Field kTenant = {"tenant_id", IgnoredText};
constexpr Field kInstance = {"instance_id", Number<&IndexerBody::instance_id, kAny64>};
constexpr Field kRank = {"dp_rank", Number<&IndexerBody::dp_rank, kAny32>};
constexpr Field kSalt = {"cache_salt", Text<&IndexerBody::cache_salt>};

absl::StatusOr<IndexerBody> Read(const std::string& body, std::span<const Field> fields) {
  IndexerBody read;
  KVR_RETURN_IF_ERROR(ReadJsonBody(body, fields, &read));
  return read;
}

template <typename T>
absl::Status Require(std::string_view name, const std::optional<T>& value) {
  return value ? absl::OkStatus() : BadField(name, "missing field");
}

}  // namespace

absl::StatusOr<InstanceRank> ReadRegisterBody(const std::string& body) {
  static constexpr Field kFields[] = {kInstance,
                                      {"endpoint", Text<&IndexerBody::endpoint>},
                                      kModel,
                                      kGroup,
                                      kTenant,
                                      {"block_size", Number<&IndexerBody::block_size, kAny32>},
                                      kRank,
                                      {"replay_endpoint", Text<&IndexerBody::replay_endpoint>},
                                      {"additional_salt", IgnoredText},
                                      {"additionalsalt", IgnoredText}};
  KVR_ASSIGN_OR_RETURN(IndexerBody read, Read(body, kFields));
  KVR_RETURN_IF_ERROR(Require("instance_id", read.instance_id));
  KVR_RETURN_IF_ERROR(Require("endpoint", read.endpoint));
  KVR_RETURN_IF_ERROR(Require("model_name", read.model_name));
  KVR_RETURN_IF_ERROR(Require("block_size", read.block_size));
  return InstanceRank{.instance = WorkerId{*read.instance_id},
                      .dp_rank = read.dp_rank.value_or(0),
                      .model_name = *std::move(read.model_name),
                      .routing_group = read.routing_group.value_or("default"),
                      .block_size_tokens = *read.block_size,
                      .endpoints = {.live = *std::move(read.endpoint),
                                    .replay = read.replay_endpoint.value_or("")}};
}

absl::StatusOr<InstanceSelector> ReadUnregisterBody(const std::string& body) {
  static constexpr Field kFields[] = {kInstance, kModel, kGroup, kTenant, kRank};
  KVR_ASSIGN_OR_RETURN(IndexerBody read, Read(body, kFields));
  KVR_RETURN_IF_ERROR(Require("instance_id", read.instance_id));
  KVR_RETURN_IF_ERROR(Require("model_name", read.model_name));
  return InstanceSelector{.instance = WorkerId{*read.instance_id},
                          .model_name = *std::move(read.model_name),
                          .routing_group = std::move(read.routing_group),
                          .dp_rank = read.dp_rank};
}

absl::StatusOr<IndexerQuery> ReadQueryBody(const std::string& body) {
  static constexpr Field kFields[] = {{"token_ids", Tokens},
                                      kModel,
                                      kGroup,
                                      kTenant,
                                      {"lora_name", Text<&IndexerBody::lora_name>},
                                      kSalt};
  KVR_ASSIGN_OR_RETURN(IndexerBody read, Read(body, kFields));
  KVR_RETURN_IF_ERROR(Require("token_ids", read.token_ids));
  KVR_RETURN_IF_ERROR(Require("model_name", read.model_name));
  return IndexerQuery{.model_name = *std::move(read.model_name),
                      .routing_group = read.routing_group.value_or("default"),
                      .token_ids = *std::move(read.token_ids),
                      .block_hashes = {},
                      .lora_name = read.lora_name.value_or(""),
                      .cache_salt = read.cache_salt.value_or("")};
}

absl::StatusOr<IndexerQuery> ReadQueryByHashBody(const std::string& body) {
  static constexpr Field kFields[] = {{"block_hashes", Hashes}, kModel, kGroup, kTenant, kSalt};
  KVR_ASSIGN_OR_RETURN(IndexerBody read, Read(body, kFields));
  KVR_RETURN_IF_ERROR(Require("block_hashes", read.block_hashes));
  KVR_RETURN_IF_ERROR(Require("model_name", read.model_name));
  if (read.cache_salt) {
    return MakeError(absl::StatusCode::kInvalidArgument, ErrorReason::kInvalidRequest,
                     "cache_salt has no place beside block_hashes: hash the blocks with it");
  }
  return IndexerQuery{.model_name = *std::move(read.model_name),
                      .routing_group = read.routing_group.value_or("default"),
                      .token_ids = {},
                      .block_hashes = *std::move(read.block_hashes),
                      .lora_name = "",
                      .cache_salt = ""};
}

absl::StatusOr<std::string> ReadPeerBody(const std::string& body) {
  static constexpr Field kFields[] = {{"url", Text<&IndexerBody::url>}};
  KVR_ASSIGN_OR_RETURN(IndexerBody read, Read(body, kFields));
  KVR_RETURN_IF_ERROR(Require("url", read.url));
  return *std::move(read.url);
}

}  // namespace kvrouter
