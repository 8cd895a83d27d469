#include "dispatch/request_headers.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <limits>
#include <span>
#include <string>
#include <vector>

#include "base/status_macros.h"
#include "kvrouter/error.h"
#include "kvrouter/session.h"
#include "service/request_limits.h"

namespace kvrouter {
namespace {

// Of one meaning: the first that is there counts.
using Names = std::initializer_list<std::string_view>;

absl::Status Invalid(std::string_view message) {
  return MakeError(absl::StatusCode::kInvalidArgument, ErrorReason::kInvalidRequest, message);
}

absl::StatusOr<std::string_view> FindOnce(const HeaderList& headers, std::string_view name) {
  std::string_view value;
  int count = 0;
  for (const auto& [key, text] : headers) {
    if (key != name) continue;
    value = text;
    ++count;
  }
  // Which of two counts would be anybody's guess.
  if (count > 1) return Invalid(fmt::format("header {} is sent {} times", name, count));
  const size_t begin = value.find_first_not_of(" \t");
  if (begin == std::string_view::npos) return std::string_view();
  return value.substr(begin, value.find_last_not_of(" \t") - begin + 1);
}

template <typename Number>
absl::StatusOr<std::optional<Number>> ReadNumber(const HeaderList& headers, Names names) {
  for (const std::string_view name : names) {
    KVR_ASSIGN_OR_RETURN(const std::string_view text, FindOnce(headers, name));
    if (text.empty()) continue;
    Number number = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
    if (error != std::errc() || end != text.data() + text.size()) {
      return Invalid(fmt::format("header {} must be a whole number {}..{}, got \"{}\"", name,
                                 std::numeric_limits<Number>::min(),
                                 std::numeric_limits<Number>::max(), text.substr(0, 64)));
    }
    return std::optional<Number>(number);
  }
  return std::optional<Number>();
}

std::optional<TargetSelector> Pin(std::optional<uint64_t> worker, std::optional<uint32_t> rank) {
  if (!worker) return std::nullopt;
  if (rank == std::numeric_limits<uint32_t>::max()) rank.reset();  // Dynamo's way to say unset
  return TargetSelector{.worker = WorkerId{*worker}, .dp_rank = rank};
}

absl::Status ReadPins(const HeaderList& headers, const NvExt& nvext, RequestHeaders* read) {
  KVR_ASSIGN_OR_RETURN(auto worker, ReadNumber<uint64_t>(headers, {"x-dynamo-worker-instance-id",
                                                                   "x-worker-instance-id"}));
  KVR_ASSIGN_OR_RETURN(auto rank, ReadNumber<uint32_t>(headers, {"x-dynamo-dp-rank", "x-dp-rank",
                                                                 "x-data-parallel-rank"}));
  KVR_ASSIGN_OR_RETURN(auto prefill, ReadNumber<uint64_t>(headers, {"x-dynamo-prefill-instance-id",
                                                                    "x-prefill-instance-id"}));
  KVR_ASSIGN_OR_RETURN(auto prefill_rank, ReadNumber<uint32_t>(headers, {"x-dynamo-prefill-dp-rank",
                                                                         "x-prefill-dp-rank"}));
  read->pinned = Pin(worker ? worker : nvext.decode_worker_id, rank ? rank : nvext.dp_rank);
  read->pinned_prefill = Pin(prefill ? prefill : nvext.prefill_worker_id,
                             prefill_rank ? prefill_rank : nvext.prefill_dp_rank);
  return absl::OkStatus();
}

absl::Status ReadPriorities(const HeaderList& headers, const NvExt& nvext, RequestHeaders* read) {
  KVR_ASSIGN_OR_RETURN(read->priority, ReadNumber<int32_t>(headers, {"x-dynamo-request-priority"}));
  KVR_ASSIGN_OR_RETURN(read->strict_priority,
                       ReadNumber<uint32_t>(headers, {"x-dynamo-request-strict-priority"}));
  if (!read->priority && nvext.priority) {
    read->priority = static_cast<int32_t>(std::clamp<int64_t>(
        *nvext.priority, std::numeric_limits<int32_t>::min(), std::numeric_limits<int32_t>::max()));
  }
  if (!read->strict_priority) read->strict_priority = nvext.strict_priority;
  KVR_ASSIGN_OR_RETURN(const std::string_view policy,
                       FindOnce(headers, "x-dynamo-meta-policy-class"));
  if (policy.size() > kMaxPolicyClassBytes) {
    return Invalid(fmt::format("header x-dynamo-meta-policy-class has {} bytes, limit {}",
                               policy.size(), kMaxPolicyClassBytes));
  }
  const auto is_word = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' ||
           c == '.' || c == '-';
  };
  if (!std::all_of(policy.begin(), policy.end(), is_word))
    return Invalid("header x-dynamo-meta-policy-class may hold letters, digits, '_', '.' and '-'");
  read->policy_class = policy;
  return absl::OkStatus();
}

absl::Status ReadSession(const HeaderList& headers, RequestHeaders* read) {
  SessionIdSources sources;
  KVR_ASSIGN_OR_RETURN(sources.dynamo_session_id, FindOnce(headers, "x-dynamo-session-id"));
  KVR_ASSIGN_OR_RETURN(sources.claude_code_agent_id, FindOnce(headers, "x-claude-code-agent-id"));
  KVR_ASSIGN_OR_RETURN(sources.claude_code_session_id,
                       FindOnce(headers, "x-claude-code-session-id"));
  KVR_ASSIGN_OR_RETURN(sources.thread_id, FindOnce(headers, "thread-id"));
  KVR_ASSIGN_OR_RETURN(sources.session_id, FindOnce(headers, "x-session-id"));
  KVR_ASSIGN_OR_RETURN(read->session_id, CallerSessionId(sources));
  return absl::OkStatus();
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
  for (std::string& option : options) {
    for (char& c : option) {
      if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
    }
  }
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
  KVR_RETURN_IF_ERROR(ReadSession(headers, &read));
  KVR_RETURN_IF_ERROR(ReadPins(headers, nvext, &read));
  KVR_RETURN_IF_ERROR(ReadPriorities(headers, nvext, &read));
  KVR_ASSIGN_OR_RETURN(read.tenant, FindOnce(headers, "x-tenant-id"));
  KVR_ASSIGN_OR_RETURN(read.routing_group, FindOnce(headers, "x-kvrouter-routing-group"));
  KVR_ASSIGN_OR_RETURN(const std::string_view mode, FindOnce(headers, "x-dynamo-routing-mode"));
  read.aggregated = mode == "aggregated";
  KVR_ASSIGN_OR_RETURN(const std::string_view explain, FindOnce(headers, "x-route-explain"));
  if (!explain.empty() && explain != "0" && explain != "1")
    return Invalid("header x-route-explain must be 0 or 1");
  read.explain = explain == "1";
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

HeaderList ClientHeaders(HeaderList headers) {
  std::erase_if(headers, [](const auto& header) { return IsIn(kNotForClients, header.first); });
  return headers;
}

}  // namespace kvrouter
