#ifndef KVROUTER_CORE_ROUTER_SETTINGS_H_
#define KVROUTER_CORE_ROUTER_SETTINGS_H_

#include <cstdint>
#include <functional>
#include <memory>

#include "absl/status/statusor.h"
#include "base/mutex.h"
#include "base/snapshot.h"
#include "kvrouter/config.h"

namespace kvrouter {

// The configuration in force, numbered. A request loads it once and is decided by that version
// whole; a change replaces it for those that come after.
//
// What may change is what is read from here with each request, and queues and ejections, which can
// take it over. Everything else (bounds, seeds,
// expiry, what the ledger counts) is in the parts that were built from it, so a difference there is
// refused: it would be written down and not happen. A new field of RouterConfig is refused until
// TakeChangeable in the .cc names it.
//
// Thread safety: thread-safe.
class RouterSettings {
 public:
  struct Version {
    RouterConfig config;
    uint64_t generation = 1;
  };

  explicit RouterSettings(const RouterConfig& config)
      : current_(std::make_shared<const Version>(Version{.config = config})) {}

  std::shared_ptr<const Version> Current() const { return current_.Load(); }

  // As Router::Reconfigure. `before_published` changes the parts that do not read from here, once
  // it is certain that the change takes place: whoever is decided by the new version finds them
  // changed.
  absl::StatusOr<uint64_t> Change(const RouterConfig& config,
                                  const std::function<void()>& before_published);

 private:
  Mutex change_mu_;  // one change at a time
  Snapshot<Version> current_;
};

}  // namespace kvrouter

#endif  // KVROUTER_CORE_ROUTER_SETTINGS_H_
