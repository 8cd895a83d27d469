#ifndef KVROUTER_DAEMON_STATE_LOG_H_
#define KVROUTER_DAEMON_STATE_LOG_H_

#include <map>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "kvrouter/worker.h"
#include "service/feed_monitor.h"

namespace kvrouter {

// Turns what changed between two looks at workers and feeds into log lines. Looking from outside
// keeps log writing out of every lock and every event thread; what flaps faster than one looks is
// in the counters. Pure; thread-compatible.
class StateLog {
 public:
  struct Line {
    bool warning = false;
    std::string text;  // key=value
  };

  // The changes since the last call (at first: since nothing).
  std::vector<Line> Changes(const std::vector<WorkerSpec>& workers,
                            const std::vector<FeedReport>& feeds);

 private:
  void WorkerChanges(const std::vector<WorkerSpec>& workers, std::vector<Line>* lines);
  void FeedChanges(const std::vector<FeedReport>& feeds, std::vector<Line>* lines);
  // What comes between ranks and the event plane while their state stays the same: one line for all
  // of them, and for each reason once until none waits.
  void PlaneChanges(const std::vector<FeedReport>& feeds, std::vector<Line>* lines);

  std::map<WorkerId, WorkerSpec> workers_;
  std::map<Target, FeedReport> feeds_;
  std::set<std::string> told_plane_reasons_;  // bounded
};

// The value as it may stand after `key=`: in quotes, escaped, where it holds spaces, quotes or
// control characters.
std::string LogValue(std::string_view value);

}  // namespace kvrouter

#endif  // KVROUTER_DAEMON_STATE_LOG_H_
