#ifndef KVROUTER_SIM_PLAYER_PLAY_FIGURES_H_
#define KVROUTER_SIM_PLAYER_PLAY_FIGURES_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "sim/player/player.h"
#include "sim/report/policy_row.h"

namespace kvrouter::sim {

// What both sides counted, at one moment. Sums since their start: a run is the difference of two.
struct EngineSums {
  double query_tokens = 0;
  double hit_tokens = 0;
  double computed_tokens = 0;  // of prompts; 0 if it does not say (only simulated ones do)
};
struct CounterSums {
  double overlap_tokens = 0;
  double isl_tokens = 0;
  double overlap_blocks = 0;
  double isl_blocks = 0;
  double hit_ratio_sum = 0;  // of the per-request histogram
  double hit_ratio_count = 0;
  std::vector<EngineSums> engines;  // in the order of the addresses
};

// From the text of the router's /metrics and of every engine's. A missing family is an error that
// names it.
absl::StatusOr<CounterSums> ReadCounters(const std::string& router_text,
                                         const std::vector<std::string>& engine_texts);

// Scrapes them. `router_http` is HOST:PORT, engine addresses are "http://HOST:PORT".
absl::StatusOr<CounterSums> ScrapeCounters(const std::string& router_http,
                                           const std::vector<std::string>& engine_addresses);

// REQUIRES: both were taken from the same engines.
PolicyRow MakeRow(const CounterSums& before, const CounterSums& after, const PlayOutcome& outcome,
                  double speedup);

}  // namespace kvrouter::sim

#endif  // KVROUTER_SIM_PLAYER_PLAY_FIGURES_H_
