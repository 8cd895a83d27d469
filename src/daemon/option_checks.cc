#include "daemon/option_checks.h"

#include <fmt/format.h>

#include <chrono>
#include <cstdint>
#include <string_view>
#include <vector>

#include "adapters/discovery/worker_sources.h"
#include "base/status_macros.h"
#include "daemon/config_file.h"
#include "daemon/option_table.h"
#include "kvrouter/decision_record.h"
#include "kvrouter/router.h"
#include "service/worker_registry.h"

namespace kvrouter {
namespace {

constexpr std::string_view kNamespace = "kubernetes-namespace";

// A worker that is listed before is the stronger file's; one that waits for its engine's word
// (may_be_learned) is no record yet.
absl::Status CheckWorkers(const std::vector<WorkerSpec>& workers, std::string_view origin,
                          bool may_be_learned, WorkerRegistry* registry) {
  for (const WorkerSpec& spec : workers) {
    if (registry->Find(spec.id)) continue;
    const bool is_open = spec.block_size_tokens == 0 || spec.model_name.empty();
    if (may_be_learned && is_open && ValidateDeclared(spec, may_be_learned).ok()) continue;
    if (const auto stored = registry->Register(spec); !stored.ok()) {
      return absl::InvalidArgumentError(fmt::format("worker {} of the {}: {}",
                                                    static_cast<uint64_t>(spec.id), origin,
                                                    std::string(stored.status().message())));
    }
  }
  return absl::OkStatus();
}

absl::Status CheckDispatch(const DaemonConfig& config) {
  KVR_RETURN_IF_ERROR(Validate(config.dispatch));
  const std::chrono::duration<double> sign = config.dispatch.dispatch.keep_alive_period;
  const std::chrono::duration<double> expiry = config.router.scheduler.active_request_expiry;
  if (config.dispatch.NeedsDispatcher() && sign >= expiry) {
    return absl::InvalidArgumentError(
        fmt::format("dispatch_keep_alive_secs ({}) must be below "
                    "router_active_request_expiry_secs ({})",
                    sign.count(), expiry.count()));
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status FindCluster(const std::map<std::string, std::string>& environment, DaemonAction action,
                         KubernetesConfig* config) {
  if (!config->Enabled()) return absl::OkStatus();
  const auto name_space = environment.find("POD_NAMESPACE");
  if (config->pod_namespace.empty() && name_space != environment.end()) {
    DaemonConfig checked;
    if (!FindOption(kNamespace)->set(name_space->second, &checked).ok()) {
      return absl::InvalidArgumentError(fmt::format(
          "bad value '{}' from environment POD_NAMESPACE: want a namespace", name_space->second));
    }
    config->pod_namespace = checked.kubernetes.pod_namespace;
  }
  if (!config->api_server.empty()) return absl::OkStatus();
  const auto host = environment.find("KUBERNETES_SERVICE_HOST");
  const auto port = environment.find("KUBERNETES_SERVICE_PORT");
  if (host == environment.end() || host->second.empty()) {
    if (action != DaemonAction::kRun) return absl::OkStatus();  // checked on somebody's desk
    return absl::InvalidArgumentError(
        "discovery_backend is kubernetes, but kubernetes_api_server is empty and the process runs "
        "in no cluster (KUBERNETES_SERVICE_HOST is not set)");
  }
  const bool v6 = host->second.find(':') != std::string::npos;
  config->api_server = fmt::format("https://{}{}{}:{}", v6 ? "[" : "", host->second, v6 ? "]" : "",
                                   port == environment.end() ? "443" : port->second);
  return absl::OkStatus();
}

absl::Status ResolveShadow(DaemonConfig* config) {
  KVR_ASSIGN_OR_RETURN(const PolicyChange change,
                       ParsePolicyChange(std::string_view(config->shadow_policy)));
  if (config->shadow_policy.empty()) return absl::OkStatus();
  const SchedulerConfig& scheduler = config->router.scheduler;
  config->router.shadow =
      ApplyPolicyChange(change, scheduler.weights, scheduler.router_temperature);
  return absl::OkStatus();
}

absl::Status CheckTogether(const DaemonConfig& config) {
  KVR_RETURN_IF_ERROR(Validate(config.router));
  KVR_RETURN_IF_ERROR(Validate(config.peers));
  KVR_RETURN_IF_ERROR(CheckDispatch(config));
  KVR_RETURN_IF_ERROR(Validate(config.event_plane, config.metrics.dynamo_namespace));
  if (config.zmq.reconnect_min > config.zmq.reconnect_max) {
    return absl::InvalidArgumentError(
        fmt::format("zmq_reconnect_min_ms ({}) is over zmq_reconnect_max_ms ({})",
                    config.zmq.reconnect_min.count(), config.zmq.reconnect_max.count()));
  }
  Router router(config.router, nullptr);
  WorkerRegistry registry(&router);
  if (config.event_plane.transport != "none") registry.AllowReplayAlone();
  const bool may_be_learned = config.introspection.enabled;
  KVR_RETURN_IF_ERROR(CheckWorkers(config.workers, "config file", may_be_learned, &registry));
  if (config.workers_file.path.empty()) return absl::OkStatus();
  KVR_ASSIGN_OR_RETURN(const std::vector<WorkerSpec> workers,
                       ReadWorkersFile(config.workers_file.path));
  return CheckWorkers(workers, "workers file", may_be_learned, &registry);
}

}  // namespace kvrouter
