#include "daemon/config_reload.h"

#include <fmt/format.h>
#include <pthread.h>
#include <spdlog/spdlog.h>

#include <optional>
#include <utility>

#include "daemon/option_table.h"
#include "daemon/policy_changes.h"
#include "daemon/state_log.h"

namespace kvrouter {
namespace {

constexpr std::string_view kCreditKey = "router_kv_overlap_score_credit";

std::string Text(const absl::Status& status) {
  return std::string(status.message().data(), status.message().size());
}

// Without credit no overlap is looked for: that is another index.
bool CrossesZero(const SettingChange& change) {
  return change.key == kCreditKey && (change.from == "0") != (change.to == "0");
}

}  // namespace

std::string_view ReloadResultName(ReloadResult result) {
  switch (result) {
    case ReloadResult::kApplied:
      break;
    case ReloadResult::kUnchanged:
      return "unchanged";
    case ReloadResult::kRefused:
      return "refused";
    case ReloadResult::kInvalid:
      return "invalid";
  }
  return "applied";
}

absl::StatusOr<std::vector<SettingChange>> PlanReload(const LoadedOptions& running,
                                                      const LoadedOptions& next) {
  std::vector<SettingChange> changes;
  std::vector<std::string> refused;
  for (size_t i = 0; i < running.settings.size(); ++i) {
    const EffectiveSetting& before = running.settings[i];
    const EffectiveSetting& after = next.settings[i];
    if (before.value == after.value) continue;
    const SettingChange change{before.key, before.value, after.value, after.source};
    if (CrossesZero(change)) {
      refused.push_back(fmt::format("{} to or from 0 ({})", change.key, change.source));
    } else if (!OptionTable()[i].reloadable) {
      refused.push_back(fmt::format("{} ({})", change.key, change.source));
    } else {
      changes.push_back(change);
    }
  }
  if (running.config.workers != next.config.workers)
    refused.push_back(fmt::format("workers ({})", next.workers_source));
  // Read with the settings, but no setting's value.
  for (const ClassChange& change :
       ClassChanges(running.config.router.scheduler.queue, next.config.router.scheduler.queue)) {
    changes.push_back(
        {change.key, change.from, change.to,
         fmt::format("file {}", next.config.policy_file.empty() ? running.config.policy_file
                                                                : next.config.policy_file)});
  }
  if (refused.empty()) return changes;
  return absl::FailedPreconditionError(
      fmt::format("nothing was taken over: a restart is needed for {}", fmt::join(refused, ", ")));
}

ConfigReloader::ConfigReloader(LoadedOptions running, std::vector<std::string> arguments,
                               std::map<std::string, std::string> environment)
    : running_(std::move(running)),
      arguments_(std::move(arguments)),
      environment_(std::move(environment)) {
  config_file_.path = running_.config_path;
  if (running_.config_signature) config_file_.change.Read(*running_.config_signature);
  FollowPolicyFile();
}

ConfigReloader::~ConfigReloader() { Stop(); }

void ConfigReloader::Start(Apply apply) {
  apply_ = std::move(apply);
  thread_ = std::jthread([this](const std::stop_token& stop) { Run(stop); });
}

void ConfigReloader::Stop() {
  thread_.request_stop();
  if (thread_.joinable()) thread_.join();
}

void ConfigReloader::Request() {
  {
    MutexLock lock(mu_);
    requested_ = true;
  }
  wake_.NotifyAll();
}

ConfigReloader::Figures ConfigReloader::Read() const {
  MutexLock lock(mu_);
  return figures_;
}

void ConfigReloader::Run(const std::stop_token& stop) {
  pthread_setname_np(pthread_self(), "kvr-reload");
  const std::stop_callback wake(stop, [this] {
    MutexLock lock(mu_);  // not between the test of the loop and its wait
    wake_.NotifyAll();
  });
  while (!stop.stop_requested()) {
    if (WaitForRequest(stop)) {
      Reload(std::nullopt);
    } else if (!stop.stop_requested() && running_.config.config_poll.count() > 0) {
      Follow();
    }
  }
}

bool ConfigReloader::WaitForRequest(const std::stop_token& stop) {
  constexpr std::chrono::milliseconds kNoPolling{60'000};
  const auto poll = running_.config.config_poll;
  MutexLock lock(mu_);
  if (!requested_ && !stop.stop_requested())
    wake_.WaitFor(mu_, poll.count() > 0 ? poll : kNoPolling);
  return std::exchange(requested_, false);
}

// The file of the policy classes that are in force, from now on.
void ConfigReloader::FollowPolicyFile() {
  const std::string& path = running_.config.policy_file;
  if (policy_file_.path == path) return;
  policy_file_ = {.path = path, .change = {}};
  if (running_.policy_signature) policy_file_.change.Read(*running_.policy_signature);
}

void ConfigReloader::Follow() {
  bool changed = false;
  for (FollowedFile* const file : {&config_file_, &policy_file_}) {
    if (file->path.empty()) continue;
    switch (file->change.Look(SignatureOf(file->path))) {
      case FileChange::Verdict::kNothing:
        break;
      case FileChange::Verdict::kVanished:
        Count(ReloadResult::kInvalid, fmt::format("{} is gone", file->path));
        return;
      case FileChange::Verdict::kRead:
        changed = true;
    }
  }
  if (changed) Reload(Signatures{SignatureOf(config_file_.path), SignatureOf(policy_file_.path)});
}

void ConfigReloader::Reload(const std::optional<Signatures>& expected) {
  absl::StatusOr<LoadedOptions> next = LoadOptions(arguments_, environment_);
  if (expected) {
    const Signatures now{SignatureOf(config_file_.path), SignatureOf(policy_file_.path)};
    if (now != *expected) return;
    if (now.config) config_file_.change.Read(*now.config);
    if (now.policy) policy_file_.change.Read(*now.policy);
  }
  if (!next.ok()) {
    Count(ReloadResult::kInvalid, Text(next.status()));
    return;
  }
  if (!expected) {
    if (next->config_signature) config_file_.change.Read(*next->config_signature);
    if (next->policy_signature && next->config.policy_file == policy_file_.path)
      policy_file_.change.Read(*next->policy_signature);
  }
  TakeOver(*std::move(next));
  FollowPolicyFile();
}

void ConfigReloader::TakeOver(LoadedOptions next) {
  const absl::StatusOr<std::vector<SettingChange>> changes = PlanReload(running_, next);
  if (!changes.ok()) {
    Count(ReloadResult::kRefused, Text(changes.status()));
    return;
  }
  if (changes->empty()) {
    running_ = std::move(next);  // values may come from elsewhere now
    Count(ReloadResult::kUnchanged, "");
    return;
  }
  if (const absl::Status applied = apply_(next.config); !applied.ok()) {
    Count(ReloadResult::kRefused, Text(applied));
    return;
  }
  for (const SettingChange& change : *changes) {
    spdlog::info("event=setting_changed key={} from={} to={} source={}", change.key,
                 LogValue(change.from), LogValue(change.to), LogValue(change.source));
  }
  running_ = std::move(next);
  Count(ReloadResult::kApplied, fmt::format("{}", changes->size()));
}

void ConfigReloader::Count(ReloadResult result, std::string_view detail) {
  const bool failed = result == ReloadResult::kRefused || result == ReloadResult::kInvalid;
  {
    MutexLock lock(mu_);
    ++figures_.reloads[static_cast<size_t>(result)];
    figures_.failed = failed;
  }
  if (failed) {
    spdlog::warn("event=config_kept result={} detail={}", ReloadResultName(result),
                 LogValue(std::string(detail)));
  } else if (result == ReloadResult::kApplied) {
    spdlog::info("event=config_reloaded settings_changed={}", detail);
  } else {
    spdlog::info("event=config_reloaded settings_changed=0");
  }
}

}  // namespace kvrouter
