#include "daemon/process.h"

#include <fmt/format.h>
#include <spdlog/sinks/stdout_sinks.h>
#include <spdlog/spdlog.h>

#include <cstdio>
#include <utility>

#include "adapters/metrics/metric_catalogue.h"
#include "daemon/config_reload.h"
#include "daemon/daemon.h"
#include "daemon/open_files.h"
#include "daemon/option_text.h"
#include "daemon/options.h"

namespace kvrouter {
namespace {

int Fail(const absl::Status& status) {
  fmt::print(stderr, "kvrouterd: {}\n", std::string(status.message()));
  return 1;
}

void SetUpLog(const std::string& level) {
  auto logger = std::make_shared<spdlog::logger>("kvrouterd",
                                                 std::make_shared<spdlog::sinks::stderr_sink_mt>());
  logger->set_pattern("ts=%Y-%m-%dT%H:%M:%S.%eZ level=%l %v", spdlog::pattern_time_type::utc);
  logger->set_level(spdlog::level::from_str(level));
  spdlog::set_default_logger(std::move(logger));
}

absl::Status SetUpOpenFiles(const DaemonConfig& config) {
  return CheckSocketsFit(EventRanks(config.workers),
                         {.open_files = RaiseOpenFileLimit(),
                          .zmq_sockets = ZmqEventSource::MaxSockets(),
                          .replays_at_once = config.replay_turns.max_at_once});
}

int Serve(LoadedOptions options, ConfigReloader* reloader, const sigset_t& signals) {
  SetUpLog(options.config.log_level);
  if (const absl::Status status = SetUpOpenFiles(options.config); !status.ok()) return Fail(status);
  // Before the ports open: whoever sees the daemon answer can rely on its log to name what it
  // ignores.
  for (const std::string& name : options.ignored_variables)
    spdlog::warn("event=variable_ignored name={}", name);
  for (const std::string& flag : options.ignored_flags)
    spdlog::warn("event=flag_ignored name={}", flag);
  if (!options.without_effect.empty()) {
    spdlog::warn(
        "event=setting_without_effect names={} reason=\"other settings leave it nothing to do\"",
        fmt::join(options.without_effect, ","));
  }
  Daemon daemon(std::move(options.config), reloader);
  if (const absl::Status status = daemon.Start(); !status.ok()) return Fail(status);
  int signal = 0;
  while (sigwait(&signals, &signal) != 0 || signal == SIGHUP) {
    if (signal == SIGHUP) reloader->Request();
    signal = 0;
  }
  spdlog::info("event=signal number={}", signal);
  daemon.Stop();
  return 0;
}

}  // namespace

std::map<std::string, std::string> ReadEnvironment(char** environ) {
  std::map<std::string, std::string> out;
  for (char** entry = environ; *entry != nullptr; ++entry) {
    const std::string text = *entry;
    const size_t equals = text.find('=');
    if (equals != std::string::npos) out.emplace(text.substr(0, equals), text.substr(equals + 1));
  }
  return out;
}

int RunProcess(const std::vector<std::string>& arguments,
               const std::map<std::string, std::string>& environment, const sigset_t& signals) {
  absl::StatusOr<LoadedOptions> options = LoadOptions(arguments, environment);
  if (!options.ok()) return Fail(options.status());
  options->config.metrics.version = KVR_VERSION;
  switch (options->action) {
    case DaemonAction::kRun: {
      ConfigReloader reloader(*options, arguments, environment);
      return Serve(*std::move(options), &reloader, signals);
    }
    case DaemonAction::kCheckConfig:
      fmt::print("configuration is good\n");
      break;
    case DaemonAction::kPrintEffectiveConfig:
      fmt::print("{}", EffectiveConfigText(*options));
      break;
    case DaemonAction::kPrintOptionsMarkdown:
      fmt::print("{}", OptionsMarkdown());
      break;
    case DaemonAction::kPrintMetricsMarkdown:
      fmt::print("{}", MetricCatalogueMarkdown());
      break;
    case DaemonAction::kVersion:
      fmt::print("kvrouterd {}\n", KVR_VERSION);
      break;
    case DaemonAction::kHelp:
      fmt::print("{}", OptionsHelp());
      break;
  }
  return 0;
}

}  // namespace kvrouter
