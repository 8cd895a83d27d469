#ifndef KVROUTER_SIM_PLAYER_PLAYER_H_
#define KVROUTER_SIM_PLAYER_PLAYER_H_

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "sim/trace/trace.h"

namespace kvrouter::sim {

enum class PlayPolicy : uint8_t {
  kKv,          // the router chooses
  kRoundRobin,  // the player chooses and pins, so that the router books and counts it all the same
  kRandom,
};

struct PlayTarget {
  uint64_t worker_id = 0;
  uint32_t dp_rank = 0;
  std::string address;       // "http://HOST:PORT"
  bool one_of_many = false;  // the address serves several ranks: requests name theirs in a header
};

struct PlayConfig {
  PlayPolicy policy = PlayPolicy::kKv;
  double speedup = 1;           // recorded seconds per real second
  size_t max_requests = 0;      // first rows of the trace; 0 = all
  size_t max_in_flight = 4096;  // an arrival beyond it waits, and counts as late
  std::string model_name;       // empty: the router's default, and none in bodies
  std::string run_id = "play";  // request ids are RUN_ID-ROW
  // "http://HOST:PORT" of a router's OpenAI door: requests go there as a client's do, and nothing
  // else is told to the router. Empty: requests are routed over gRPC and posted to engines from
  // here. With kKv only.
  std::string door;
  uint64_t seed = 1;  // of kRandom
  std::chrono::milliseconds route_timeout{30'000};
  std::chrono::milliseconds stall_timeout{120'000};  // of an engine's answer
};

// Real seconds; the caller scales. Rows that failed are in `failed` only.
struct PlayOutcome {
  size_t sent = 0;
  size_t completed = 0;
  size_t failed = 0;
  std::string first_failure;
  uint64_t full_block_tokens = 0;  // of decided prompts, without their partial tails
  uint64_t overlap_blocks = 0;     // as decisions said
  uint64_t isl_tokens = 0;
  // Through a door: requests by plan and the rules that led to it, as the door explained them.
  std::map<std::string, size_t> plans;
  std::vector<double> ttft_s;  // from the recorded arrival, not from when it was sent
  std::vector<double> late_s;  // from the recorded arrival to the call of the router
  double wall_s = 0;
  bool stopped = false;  // by Stop
};

struct PlayProgress {
  size_t total = 0;
  size_t sent = 0;
  size_t in_flight = 0;
  size_t failed = 0;
  double late_s = 0;      // of the latest request
  double hit_so_far = 0;  // token-weighted, as the router predicts
  double elapsed_s = 0;
};

// Plays a trace against a live router and its engines, open loop: each request leaves at its
// recorded time divided by the speed-up, however the earlier ones fare. A request is routed over
// gRPC with its token ids, posted to the engine that was chosen, reported at its first token and
// freed at its end; or (`door`) just posted to the router.
//
// Thread safety: Run on one thread; Stop from any.
class Player {
 public:
  // `trace` outlives the player. REQUIRES: targets is not empty.
  Player(PlayConfig config, const Trace& trace, std::vector<PlayTarget> targets,
         const std::string& router_grpc);
  ~Player();

  // Returns when every request is answered, or soon after Stop. `progress` is called a few times a
  // second.
  PlayOutcome Run(const std::function<void(const PlayProgress&)>& progress);
  // No further requests; those under way are dropped.
  void Stop();

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace kvrouter::sim

#endif  // KVROUTER_SIM_PLAYER_PLAYER_H_
