#include "daemon/event_plane.h"

#include <fmt/format.h>

#include <random>
#include <string_view>
#include <utility>

#include "base/status_macros.h"

namespace kvrouter {
namespace {

std::string_view Trimmed(std::string_view text) {
  const size_t begin = text.find_first_not_of(" \t");
  if (begin == std::string_view::npos) return {};
  return text.substr(begin, text.find_last_not_of(" \t") - begin + 1);
}

// Both sources' settings completed by what is derived from others.
absl::StatusOr<EventPlaneConfig> Complete(EventPlaneConfig config,
                                          const std::string& dynamo_namespace) {
  const PlaneScope scope{dynamo_namespace, config.component, config.endpoint};
  if (!config.endpoint.empty() && config.component.empty()) {
    return absl::InvalidArgumentError(
        fmt::format("event_plane_endpoint '{}': of which event_plane_component?", config.endpoint));
  }
  config.nats.subjects = PlaneSubjects(scope, config.kv_events);
  config.zmq.scope = scope;
  config.zmq.kv_events = config.kv_events;
  KVR_ASSIGN_OR_RETURN(config.zmq.brokers, BrokerEndpoints(config.zmq_broker_url));
  const bool many_paths = config.transport == "zmq" && config.zmq.brokers.size() > 1;
  config.intake.feed.rank.gap_wait = many_paths ? config.gap_wait : MonotonicTime{};
  config.intake.feed.rank.repair_patience = config.repair_patience;
  config.intake.feed.rank.doubt_grace = config.doubt_grace;
  config.intake.feed.rank.jitter_seed = std::random_device()();
  return config;
}

}  // namespace

absl::StatusOr<std::vector<std::string>> BrokerEndpoints(const std::string& broker_url) {
  constexpr std::string_view kPublishersEnd = "xsub=";
  constexpr std::string_view kSubscribersEnd = "xpub=";
  const absl::Status malformed = absl::InvalidArgumentError(
      fmt::format("zmq_broker_url '{}': want xsub=ENDPOINT[;...],xpub=ENDPOINT[;...]", broker_url));
  std::vector<std::string> endpoints;
  std::string_view rest = broker_url;
  while (!Trimmed(rest).empty()) {
    const size_t comma = rest.find(',');
    std::string_view part = Trimmed(rest.substr(0, comma));
    rest = comma == std::string_view::npos ? std::string_view() : rest.substr(comma + 1);
    if (part.starts_with(kPublishersEnd)) continue;
    if (!part.starts_with(kSubscribersEnd)) return malformed;
    part.remove_prefix(kSubscribersEnd.size());
    while (!part.empty()) {
      const size_t end = part.find(';');
      const std::string_view endpoint = Trimmed(part.substr(0, end));
      if (!endpoint.empty()) endpoints.emplace_back(endpoint);
      part = end == std::string_view::npos ? std::string_view() : part.substr(end + 1);
    }
  }
  if (endpoints.empty() && !Trimmed(broker_url).empty()) return malformed;
  return endpoints;
}

std::vector<std::string> PlaneSubjects(const PlaneScope& scope, bool kv_events) {
  std::vector<std::string> subjects;
  for (const std::string_view topic : {kKvEventsTopic, kKvMetricsTopic}) {
    if (topic == kKvEventsTopic && !kv_events) continue;
    const std::string component = scope.component.empty() ? "*" : scope.component;
    const std::string endpoint = scope.endpoint.empty() ? "*" : scope.endpoint;
    subjects.push_back(PlaneSubject({scope.dynamo_namespace, component, endpoint}, topic));
    if (!scope.endpoint.empty()) continue;
    // Older workers publish for their component as a whole.
    subjects.push_back(PlaneSubject({scope.dynamo_namespace, component, ""}, topic));
  }
  return subjects;
}

absl::Status Validate(const EventPlaneConfig& config, const std::string& dynamo_namespace) {
  KVR_ASSIGN_OR_RETURN(const EventPlaneConfig complete, Complete(config, dynamo_namespace));
  if (config.transport == "nats") return Validate(complete.nats);
  if (config.transport == "zmq") return Validate(complete.zmq);
  return absl::OkStatus();
}

EventPlane::EventPlane(const EventPlaneConfig& config, const std::string& dynamo_namespace,
                       const EngineReplayHistoryConfig& replay, ReplayTurns* turns,
                       PeerBlockSource* peers, Router* router, FeedMonitor* monitor,
                       ReportedLoads* loads, const Clock* clock)
    : engine_replay_(replay, turns), peer_history_({}, peers, clock) {
  // Settings were validated before; Start says it again.
  const auto complete = Complete(config, dynamo_namespace);
  if (!complete.ok() || config.transport == "none") return;
  intake_ = std::make_unique<PlaneIntake>(
      complete->intake, router, monitor, loads, clock,
      std::vector<const RankHistory*>{&engine_replay_, &peer_history_});
  if (config.transport == "nats")
    nats_ = std::make_unique<NatsEventSource>(complete->nats, intake_.get());
  if (config.transport == "zmq")
    zmq_ = std::make_unique<PlaneEventSource>(complete->zmq, intake_.get());
}

absl::Status EventPlane::Start() {
  if (intake_) KVR_RETURN_IF_ERROR(intake_->Start());
  if (nats_) KVR_RETURN_IF_ERROR(nats_->Start());
  if (zmq_) KVR_RETURN_IF_ERROR(zmq_->Start());
  return absl::OkStatus();
}

void EventPlane::Stop() {
  if (nats_) nats_->Stop();
  if (zmq_) zmq_->Stop();
  if (intake_) intake_->Stop();
}

}  // namespace kvrouter
