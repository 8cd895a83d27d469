#ifndef KVROUTER_ADAPTERS_DISCOVERY_DISCOVERY_JOURNAL_H_
#define KVROUTER_ADAPTERS_DISCOVERY_DISCOVERY_JOURNAL_H_

#include <array>
#include <cstdint>
#include <deque>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/mutex.h"

namespace kvrouter {

// Who declares whole sets of workers, the strongest first.
enum class WorkerSource : uint8_t { kConfig, kFile, kKubernetes };
inline constexpr size_t kWorkerSourceCount = 3;
std::string_view WorkerSourceName(WorkerSource source);  // "config", "workers_file", "kubernetes"

// How an attempt of a source to learn its set ended.
enum class SourceOutcome : uint8_t {
  kApplied,     // read, and handed on
  kUnreadable,  // the file is missing or cannot be read
  kInvalid,     // read, but not what it should be; or one pod's annotations are wrong
  kConnection,  // no connection, or it broke
  kTimeout,     // the API server was silent for too long
  kStatus,      // the API server answered with an error
  kMalformed,   // the API server's answer is no JSON of ours, or too long
  kExpired      // the watched version is gone (410): listed again
};
inline constexpr size_t kSourceOutcomeCount = 8;
std::string_view SourceOutcomeName(SourceOutcome outcome);

// What the sources of workers have to say: lines for the log and attempts by outcome. Sources write
// from their threads and under their locks, so nothing here waits for the log itself.
//
// Thread safety: thread-safe. Bound: kMaxLines until the next Take; further lines are counted.
class DiscoveryJournal {
 public:
  static constexpr size_t kMaxLines = 512;

  struct Line {
    bool warning = false;
    std::string event;
    std::vector<std::pair<std::string, std::string>> fields;
  };
  void Write(Line line);
  std::vector<Line> Take();
  uint64_t DroppedLines() const;

  void Count(WorkerSource source, SourceOutcome outcome);
  // Whether what the source last said is the present state, as far as it can tell.
  void SetCurrent(WorkerSource source, bool current);

  struct Attempts {
    std::array<uint64_t, kSourceOutcomeCount> by_outcome{};
    bool current = false;
  };
  Attempts Read(WorkerSource source) const;

 private:
  mutable Mutex mu_;
  std::deque<Line> lines_ ABSL_GUARDED_BY(mu_);
  uint64_t dropped_lines_ ABSL_GUARDED_BY(mu_) = 0;
  std::array<Attempts, kWorkerSourceCount> attempts_ ABSL_GUARDED_BY(mu_);
};

}  // namespace kvrouter

#endif  // KVROUTER_ADAPTERS_DISCOVERY_DISCOVERY_JOURNAL_H_
