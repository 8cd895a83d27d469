#include "sim/wire/fleet_admin.h"

#include <fmt/format.h>

#include <charconv>
#include <nlohmann/json.hpp>
#include <optional>
#include <utility>

#include "sim/wire/completion_reply.h"
#include "sim/wire/json_response.h"

namespace kvrouter::sim {
namespace {

HttpServerConfig OneThread(std::string listen) {
  HttpServerConfig config;
  config.listen = std::move(listen);
  config.threads = 1;  // ports are opened and closed one at a time
  return config;
}

std::string TextOf(const absl::Status& status) {
  return {status.message().data(), status.message().size()};
}

HttpResponse Refuse(int status, const std::string& message) {
  return JsonResponse(status, ErrorBody(message, "invalid_request_error", status));
}

std::optional<size_t> EngineOf(const HttpRequest& http, size_t engines) {
  const std::string& text = http.path_parameters.front();
  size_t engine = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), engine);
  if (error != std::errc() || end != text.data() + text.size() || engine >= engines) return {};
  return engine;
}

}  // namespace

FleetAdmin::FleetAdmin(std::string listen, Parts parts)
    : parts_(std::move(parts)), server_(OneThread(std::move(listen))) {
  const auto add = [this](const char* method, const char* path, auto answer) {
    server_.Route(method, path, [this, answer](const HttpRequest& http) {
      const std::optional<size_t> engine = EngineOf(http, parts_.engines.size());
      if (!engine) {
        return Refuse(404, fmt::format("engine '{}' is not one of {}", http.path_parameters.front(),
                                       parts_.engines.size()));
      }
      return answer(*engine, http);
    });
  };
  add("POST", "/engines/{}/faults",
      [this](size_t engine, const HttpRequest& http) { return AddFault(engine, http.body); });
  add("DELETE", "/engines/{}/faults", [this](size_t engine, const HttpRequest&) {
    parts_.engines[engine]->Clear();
    return SetListening(engine, true);
  });
  add("GET", "/engines/{}/faults", [this](size_t engine, const HttpRequest&) {
    const nlohmann::json answer = {{"taken", parts_.engines[engine]->taken()}};
    return JsonResponse(200, answer.dump());
  });
  add("POST", "/engines/{}/restart", [this](size_t engine, const HttpRequest&) {
    parts_.restart(engine);
    return JsonResponse(200, "{}");
  });
}

absl::Status FleetAdmin::Start() { return server_.Start(); }

HttpResponse FleetAdmin::AddFault(size_t engine, const std::string& body) {
  const auto json = nlohmann::ordered_json::parse(body, nullptr, /*allow_exceptions=*/false);
  if (json.is_object() && json.contains("kind") && json["kind"] == "refuse") {
    return SetListening(engine, false);
  }
  absl::StatusOr<FaultRule> rule = ParseFaultRule(json);
  if (!rule.ok()) return Refuse(400, TextOf(rule.status()));
  if (!parts_.engines[engine]->Add(*std::move(rule))) {
    return Refuse(429, fmt::format("{} rules are there already", Faults::kMaxRules));
  }
  return JsonResponse(200, "{}");
}

HttpResponse FleetAdmin::SetListening(size_t engine, bool listen) {
  const absl::Status status = parts_.set_listening(engine, listen);
  return status.ok() ? JsonResponse(200, "{}") : Refuse(500, TextOf(status));
}

}  // namespace kvrouter::sim
