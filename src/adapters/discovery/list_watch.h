#ifndef KVROUTER_ADAPTERS_DISCOVERY_LIST_WATCH_H_
#define KVROUTER_ADAPTERS_DISCOVERY_LIST_WATCH_H_

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "adapters/discovery/watched_resource.h"

namespace kvrouter {

// The order of questions to the API server about one kind of objects, and what the answers mean:
// a list in pages, then a watch from the version of the list on; the watch is asked for again from
// the last version it told, and the list is begun again only when that version is gone (410), or
// the server refused the watch, or said something that is not understood.
//
// Pure; thread-compatible.
class ListWatch {
 public:
  // `path` such as /api/v1/namespaces/ns/pods; `selector` not yet percent-encoded.
  ListWatch(std::string path, std::string selector, WatchedResource* resource);

  static constexpr int kPageObjects = 500;

  // Whether the next question is the list's or the watch's.
  bool NeedsList() const { return version_.empty(); }
  // Path and query of the next question.
  std::string Target(uint64_t watch_timeout_seconds) const;

  // One page, parsed (discarded: it was no JSON). OK: then NeedsList says whether another page
  // follows.
  absl::Status OnListPage(const nlohmann::json& page);

  enum class Verdict : uint8_t { kChanged, kNothing, kExpired, kRefused, kMalformed };
  struct WatchAnswer {
    Verdict verdict = Verdict::kNothing;
    std::string detail;  // of the last three
  };
  // One event of the watch, parsed. After kExpired, kRefused and kMalformed the next question is
  // the list.
  WatchAnswer OnWatchEvent(const nlohmann::json& event);

  // An HTTP status other than 200 to any question, 410 among them.
  void OnStatus(int status);

 private:
  WatchAnswer Misunderstood(std::string_view what);
  void BeginListAgain();

  const std::string path_;
  const std::string selector_;  // encoded
  WatchedResource* const resource_;
  std::string version_;   // to watch from; empty: to be listed
  std::string continue_;  // of the list under way
  bool listing_ = false;
};

}  // namespace kvrouter

#endif  // KVROUTER_ADAPTERS_DISCOVERY_LIST_WATCH_H_
