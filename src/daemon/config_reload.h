#ifndef KVROUTER_DAEMON_CONFIG_RELOAD_H_
#define KVROUTER_DAEMON_CONFIG_RELOAD_H_

#include <array>
#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "adapters/discovery/file_change.h"
#include "base/mutex.h"
#include "daemon/options.h"

namespace kvrouter {

// A setting whose value differs from the one in force.
struct SettingChange {
  std::string key;
  std::string from;
  std::string to;
  std::string source;  // of the new value
};

// What taking over `next` means; nothing if no value differs. FAILED_PRECONDITION naming every
// setting that differs and cannot change while the daemon runs: then none is taken over. Pure.
absl::StatusOr<std::vector<SettingChange>> PlanReload(const LoadedOptions& running,
                                                      const LoadedOptions& next);

// Label values of kvrouter_config_reloads_total.
enum class ReloadResult : uint8_t {
  kApplied,
  kUnchanged,
  kRefused,  // a setting needs a restart
  kInvalid,  // the file cannot be read, or a value is bad
};
inline constexpr int kReloadResultCount = 4;
std::string_view ReloadResultName(ReloadResult result);

// Reads the settings again, from the same places as at the start, when it is told to (SIGHUP) and
// when their file or that of the policy classes has changed; and has them taken over whole or not
// at all. Files are followed as the workers file is: by polling, links on the way included, and
// only once two looks agree. Whatever is wrong with them, the settings in force stay,
// and the log says why.
//
// Thread safety: Start and Stop from one thread; Request and Read from any. One thread of its own.
class ConfigReloader {
 public:
  // Takes the settings over; an error means that nothing has changed.
  using Apply = std::function<absl::Status(const DaemonConfig& config)>;

  // `arguments` and `environment` as they were loaded with.
  ConfigReloader(LoadedOptions running, std::vector<std::string> arguments,
                 std::map<std::string, std::string> environment);
  ~ConfigReloader();  // stops

  void Start(Apply apply);
  void Stop();
  // Soon, on its own thread.
  void Request();

  struct Figures {
    std::array<uint64_t, kReloadResultCount> reloads{};  // by result
    bool failed = false;                                 // the last one
  };
  Figures Read() const;

 private:
  void Run(const std::stop_token& stop);
  // Whether a reload was asked for meanwhile.
  bool WaitForRequest(const std::stop_token& stop);
  struct FollowedFile {
    std::string path;  // empty: none
    FileChange change;
  };
  struct Signatures {
    std::optional<FileSignature> config;
    std::optional<FileSignature> policy;

    friend bool operator==(const Signatures&, const Signatures&) = default;
  };
  void FollowPolicyFile();
  void Follow();
  // `expected`: if a file changes while it is read, nothing happens; the next look decides.
  void Reload(const std::optional<Signatures>& expected);
  void TakeOver(LoadedOptions next);
  void Count(ReloadResult result, std::string_view detail);

  LoadedOptions running_;  // own thread, after Start; as are the files and apply_
  const std::vector<std::string> arguments_;
  const std::map<std::string, std::string> environment_;
  FollowedFile config_file_;
  FollowedFile policy_file_;  // of the queue's classes
  Apply apply_;

  mutable Mutex mu_;
  CondVar wake_;
  bool requested_ ABSL_GUARDED_BY(mu_) = false;
  Figures figures_ ABSL_GUARDED_BY(mu_);
  std::jthread thread_;
};

}  // namespace kvrouter

#endif  // KVROUTER_DAEMON_CONFIG_RELOAD_H_
