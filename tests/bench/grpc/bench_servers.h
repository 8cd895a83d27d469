#ifndef KVROUTER_TESTS_BENCH_GRPC_BENCH_SERVERS_H_
#define KVROUTER_TESTS_BENCH_GRPC_BENCH_SERVERS_H_

namespace kvrouter::bench {

// The measured servers, in a process of their own so that their CPU time can be told from the
// client's. Each answers Route and RouteStream of kvrouter.v1.Router; all but the third in the same
// number of bytes:
//
//   echo    bytes in, bytes out: neither request nor answer is looked at
//   fixed   parses the request as the daemon does and answers one string of that size
//   winner  Route without explanations: decision_detail=winner, no ring of recent decisions
//   Route   our door with everything behind it: service, core, metrics
//
// Prints their addresses in this order, one a line, and serves until its standard input ends.
int ServeUntilInputEnds(int workers);

}  // namespace kvrouter::bench

#endif  // KVROUTER_TESTS_BENCH_GRPC_BENCH_SERVERS_H_
