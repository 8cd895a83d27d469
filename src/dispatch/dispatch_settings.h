#ifndef KVROUTER_DISPATCH_DISPATCH_SETTINGS_H_
#define KVROUTER_DISPATCH_DISPATCH_SETTINGS_H_

#include <memory>

#include "absl/status/status.h"
#include "base/snapshot.h"
#include "dispatch/dispatch_config.h"

namespace kvrouter {

// The dispatcher's settings in force. A request loads them once and is dispatched by that version
// whole, whatever becomes of them meanwhile. Tokenising goes by the version in force when the call
// to the engine began, probes of rendering by the newest.
//
// What the parts were built with cannot change: requests at one time, and memory of the token
// cache. A difference there is refused, since it would be written down and not happen.
//
// Thread safety: thread-safe.
class DispatchSettings {
 public:
  explicit DispatchSettings(const DispatchConfig& config)
      : current_(std::make_shared<const DispatchConfig>(config)) {}

  std::shared_ptr<const DispatchConfig> Current() const { return current_.Load(); }

  // FAILED_PRECONDITION for what cannot change, INVALID_ARGUMENT for what is not valid.
  absl::Status CheckChange(const DispatchConfig& config) const;
  // REQUIRES: CheckChange(config).ok().
  void Change(const DispatchConfig& config) {
    current_.Publish(std::make_shared<const DispatchConfig>(config));
  }

 private:
  Snapshot<DispatchConfig> current_;
};

}  // namespace kvrouter

#endif  // KVROUTER_DISPATCH_DISPATCH_SETTINGS_H_
