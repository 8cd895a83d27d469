#ifndef KVROUTER_CTL_BENCH_BENCH_COMMAND_H_
#define KVROUTER_CTL_BENCH_BENCH_COMMAND_H_

#include "absl/status/status.h"
#include "ctl/bench/bench_options.h"
#include "ctl/commands.h"

namespace kvrouter::ctl {

// Loads a running daemon with Route calls, prints what came of it, and frees what it booked, also
// when SIGINT or SIGTERM ends it early (a second one ends it at once). Not OK if anything failed.
// Blocks those signals in the calling thread: call it before any other thread exists.
absl::Status RunBench(const Connection& connection, const BenchOptions& options);

}  // namespace kvrouter::ctl

#endif  // KVROUTER_CTL_BENCH_BENCH_COMMAND_H_
