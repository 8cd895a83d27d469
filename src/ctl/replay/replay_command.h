#ifndef KVROUTER_CTL_REPLAY_REPLAY_COMMAND_H_
#define KVROUTER_CTL_REPLAY_REPLAY_COMMAND_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"

namespace kvrouter::ctl {

struct ReplayOptions {
  std::string path = {};
  std::vector<std::string> set = {};  // key=value
  uint32_t show = 20;            // decisions that would move, one line each
  bool json = false;
};

struct ReplayOutcome {
  std::string output;  // for standard output
  std::string notes;   // for standard error: ends within a record, damaged
  // 1: without changed settings a decision was not reproduced, or a file is damaged.
  int exit_code = 0;
};

// Makes the decisions of the log again, those of PATH.N ... PATH.1 (put aside, oldest first) and of
// PATH. Nothing is asked of a daemon. Errors: a file cannot be read, a setting is not known.
absl::StatusOr<ReplayOutcome> Replay(const ReplayOptions& options);

}  // namespace kvrouter::ctl

#endif  // KVROUTER_CTL_REPLAY_REPLAY_COMMAND_H_
