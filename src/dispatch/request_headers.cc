#include "dispatch/request_headers.h"

#include <algorithm>
#include <array>
#include <limits>
#include <span>
#include <string>
#include <vector>

#include "base/ascii.h"
#include "base/status_macros.h"
#include "kvrouter/session.h"

namespace kvrouter {
namespace {

// Of one meaning: the first that is there counts.
using Names = std::initializer_list<std::string_view>;

template <typename Number>
absl::StatusOr<std::optional<Number>> ReadFirstNumber(const HeaderList& headers, Names names) {
  std::optional<Number> number;
  for (const std::string_view name : names) {
    KVR_ASSIGN_OR_RETURN(number, ReadNumberHeader<Number>(headers, name));
    if (number) break;
  }
  return number;
}

std::optional<TargetSelector> Pin(std::optional<uint64_t> worker, std::optional<uint32_t> rank) {
  if (!worker) return std::nullopt;
  if (rank == std::numeric_limits<uint32_t>::max()) rank.reset();  // Dynamo's way to say unset
  return TargetSelector{.worker = WorkerId{*worker}, .dp_rank = rank};
}

absl::Status ReadPins(const HeaderList& headers, const NvExt& nvext, RequestHeaders* read) {
  KVR_ASSIGN_OR_RETURN(
      auto worker,
      ReadFirstNumber<uint64_t>(headers, {"x-dynamo-worker-instance-id", "x-worker-instance-id"}));
  KVR_ASSIGN_OR_RETURN(auto rank,
                       ReadFirstNumber<uint32_t>(
                           headers, {"x-dynamo-dp-rank", "x-dp-rank", "x-data-parallel-rank"}));
  KVR_ASSIGN_OR_RETURN(auto prefill,
                       ReadFirstNumber<uint64_t>(
                           headers, {"x-dynamo-prefill-instance-id", "x-prefill-instance-id"}));
  KVR_ASSIGN_OR_RETURN(
      auto prefill_rank,
      ReadFirstNumber<uint32_t>(headers, {"x-dynamo-prefill-dp-rank", "x-prefill-dp-rank"}));
  read->pinned = Pin(worker ? worker : nvext.decode_worker_id, rank ? rank : nvext.dp_rank);
  read->pinned_prefill = Pin(prefill ? prefill : nvext.prefill_worker_id,
                             prefill_rank ? prefill_rank : nvext.prefill_dp_rank);
  return absl::OkStatus();
}

void FillPriorities(const NvExt& nvext, RequestHeaders* read) {
  if (!read->priority && nvext.priority) {
    read->priority = static_cast<int32_t>(std::clamp<int64_t>(
        *nvext.priority, std::numeric_limits<int32_t>::min(), std::numeric_limits<int32_t>::max()));
  }
  if (!read->strict_priority) read->strict_priority = nvext.strict_priority;
}

// Headers of a connection, and those that speak to the router or that it sets itself.
constexpr std::array kNotForEngines = {
    std::string_view("host"),
    std::string_view("content-length"),
    std::string_view("connection"),
    std::string_view("keep-alive"),
    std::string_view("proxy-connection"),
    std::string_view("transfer-encoding"),
    std::string_view("te"),
    std::string_view("trailer"),
    std::string_view("upgrade"),
    std::string_view("expect"),
    std::string_view("accept-encoding"),
    std::string_view("x-request-id"),
    std::string_view("x-data-parallel-rank"),
    std::string_view("x-route-explain"),
};
constexpr std::array kNotForClients = {
    std::string_view("content-length"),    std::string_view("connection"),
    std::string_view("keep-alive"),        std::string_view("proxy-connection"),
    std::string_view("transfer-encoding"), std::string_view("trailer"),
    std::string_view("upgrade"),
};

bool IsIn(std::span<const std::string_view> names, std::string_view name) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

// What the client's Connection header names ends here, too: with it one may say what only the next
// hop shall know.
std::vector<std::string> ConnectionOptions(const HeaderList& headers) {
  std::vector<std::string> options;
  for (const auto& [name, value] : headers) {
    if (name != "connection") continue;
    size_t begin = 0;
    while (begin < value.size()) {
      const size_t end = std::min(value.find_first_of(", \t", begin), value.size());
      if (end > begin) options.push_back(value.substr(begin, end - begin));
      begin = end + 1;
    }
  }
  for (std::string& option : options) option = AsciiLower(option);
  return options;
}

}  // namespace

std::string_view FindHeader(const HeaderList& headers, std::string_view name) {
  for (const auto& [key, value] : headers) {
    if (key == name) return value;
  }
  return {};
}

absl::StatusOr<RequestHeaders> ReadRequestHeaders(const HeaderList& headers, const NvExt& nvext) {
  RequestHeaders read;
  read.request_id = FindHeader(headers, "x-request-id");
  if (read.request_id.empty()) read.request_id = FindHeader(headers, "x-dynamo-request-id");
  KVR_ASSIGN_OR_RETURN(const SessionIdSources session, ReadSessionHeaders(headers));
  KVR_ASSIGN_OR_RETURN(read.session_id, CallerSessionId(session));
  KVR_RETURN_IF_ERROR(ReadPins(headers, nvext, &read));
  KVR_ASSIGN_OR_RETURN(static_cast<SteeringHeaders&>(read), ReadSteeringHeaders(headers));
  FillPriorities(nvext, &read);
  KVR_ASSIGN_OR_RETURN(read.tenant, ReadHeader(headers, "x-tenant-id"));
  KVR_ASSIGN_OR_RETURN(read.routing_group, ReadHeader(headers, "x-kvrouter-routing-group"));
  KVR_ASSIGN_OR_RETURN(const std::string_view mode, ReadHeader(headers, "x-dynamo-routing-mode"));
  read.aggregated = mode == "aggregated";
  return read;
}

HeaderList EngineHeaders(const HeaderList& headers) {
  const std::vector<std::string> options = ConnectionOptions(headers);
  HeaderList kept;
  for (const auto& header : headers) {
    if (IsIn(kNotForEngines, header.first)) continue;
    if (std::find(options.begin(), options.end(), header.first) != options.end()) continue;
    kept.push_back(header);
  }
  return kept;
}

HeaderList HeadersOfOwnCall(HeaderList engine_headers) {
  std::erase_if(engine_headers, [](const auto& header) { return header.first == "content-type"; });
  engine_headers.emplace_back("content-type", "application/json");
  return engine_headers;
}

HeaderList ClientHeaders(HeaderList headers) {
  std::erase_if(headers, [](const auto& header) { return IsIn(kNotForClients, header.first); });
  return headers;
}

}  // namespace kvrouter
