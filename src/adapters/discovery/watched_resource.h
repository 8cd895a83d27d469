#ifndef KVROUTER_ADAPTERS_DISCOVERY_WATCHED_RESOURCE_H_
#define KVROUTER_ADAPTERS_DISCOVERY_WATCHED_RESOURCE_H_

#include <nlohmann/json_fwd.hpp>
#include <string>

#include "absl/status/status.h"

namespace kvrouter {

// What a list and the watch after it are written into: one kind of Kubernetes objects.
class WatchedResource {
 public:
  virtual ~WatchedResource() = default;

  // A list comes in pages; it takes effect as a whole, with CommitList. A list that is given up is
  // begun again.
  virtual void BeginList() = 0;
  virtual absl::Status AddListed(const nlohmann::json& object) = 0;
  virtual void CommitList() = 0;

  virtual absl::Status Upsert(const nlohmann::json& object) = 0;
  virtual void Remove(const std::string& name) = 0;
};

}  // namespace kvrouter

#endif  // KVROUTER_ADAPTERS_DISCOVERY_WATCHED_RESOURCE_H_
