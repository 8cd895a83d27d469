#ifndef KVROUTER_SIM_PLAYER_PROGRESS_LINE_H_
#define KVROUTER_SIM_PLAYER_PROGRESS_LINE_H_

#include <cstdio>
#include <string>

#include "sim/player/player.h"

namespace kvrouter::sim {

// How a run is going: one line redrawn in place on a terminal, else a plain line every tenth of the
// requests.
//
// Thread-compatible.
class ProgressLine {
 public:
  ProgressLine(std::FILE* out, std::string title);
  void Show(const PlayProgress& progress);
  void Finish();  // leaves the line

 private:
  std::FILE* out_;
  std::string title_;
  bool on_terminal_;
  size_t tenths_shown_ = 0;
};

}  // namespace kvrouter::sim

#endif  // KVROUTER_SIM_PLAYER_PROGRESS_LINE_H_
